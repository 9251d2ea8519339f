//! Large values that are computed again where they are read, because that is faster than storing them.

use super::{dce, fuse, with_copy_of};
use crate::hash::HashMap;
use crate::op::Count;
use crate::{Eqn, Op, Program, SecondaryMap, Var};

/// Elements of a value from which on it is computed again: smaller ones are in a cache when they are read.
pub(super) const LEAST_ELEMENTS: usize = 1 << 15;

/// Number of elements of a value for each element of its operands together.
const FACTOR: usize = 8;

/// Equations that are computed again for one value.
const MOST_EQUATIONS: usize = 4;

/// Elements from which on a value is computed again of a parameter that is as large: it does not fit the second
/// cache of most CPUs.
const LEAST_OF_PARAMETER: usize = 1 << 18;

/// Gives each group its own copies of the equations that compute a large value of small operands, or of a parameter
/// with one cheap operation.
///
/// The differences of all pairs of rows, say, are read by the group that adds up their squares and by that of the
/// derivative. Neither has to read them from memory, and the first one does not write them. So it is with the
/// differences from a mean: their readers read the parameter in place of them. All shapes must be known.
pub fn recompute(mut program: Program) -> Program {
    let costs = costs(&program);
    if costs.iter().next().is_none() {
        return program;
    }
    let steps = fuse(&program);
    let mut step_of = vec![0; program.eqns.len()];
    for (n, step) in steps.iter().enumerate() {
        step.iter().for_each(|i| step_of[*i] = n);
    }
    let maker: SecondaryMap<Var, usize> = costs.iter().map(|(var, cost)| (var, cost.eqn)).collect();
    let mut copies = Copies {
        next: program.n_vars(),
        eqns: std::mem::take(&mut program.eqns),
        program,
        maker,
        step_of,
        known: HashMap::default(),
    };
    for i in 0..copies.eqns.len() {
        let eqn = match copies.eqns[i].op.def().facts().elementwise {
            true => copies.reading_copies(i, copies.step_of[i]),
            false => copies.eqns[i].clone(),
        };
        copies.program.eqns.push(eqn);
    }
    dce(copies.program)
}

/// Equation of a value that may be computed again, and the number of equations and of elements that this takes.
struct Cost {
    eqn: usize,
    equations: usize,
    read: usize,
}

/// Returns the number of elements of a value, if its shape is known.
fn numel(program: &Program, var: Var) -> Option<usize> {
    program.aval(var).shape.numel()
}

/// Returns the cost of each value that is cheaper to compute again than to store.
fn costs(program: &Program) -> SecondaryMap<Var, Cost> {
    let numel = |var: Var| numel(program, var);
    let mut stored = None;
    let mut costs: SecondaryMap<Var, Cost> = SecondaryMap::new();
    for (i, eqn) in program.eqns.iter().enumerate() {
        let [out] = eqn.outs[..] else { continue };
        let Some(n) = numel(out).filter(|n| *n >= LEAST_ELEMENTS) else {
            continue;
        };
        if !is_cheap(eqn) {
            continue;
        }
        let (mut read, mut equations) = (0, 1);
        for arg in eqn.data() {
            match costs.get(*arg).filter(|_| numel(*arg) == Some(n)) {
                Some(cost) => {
                    equations += cost.equations;
                    read += cost.read;
                }
                None => read += numel(*arg).unwrap_or(n),
            }
        }
        let of_small = read <= n / FACTOR && equations <= MOST_EQUATIONS;
        let of_parameter = n >= LEAST_OF_PARAMETER
            && read <= n + n / FACTOR
            && is_step_from_parameter(program, eqn)
            && !stored
                .get_or_insert_with(|| read_whole(program))
                .contains(out);
        if of_small || of_parameter {
            costs.insert(
                out,
                Cost {
                    eqn: i,
                    equations,
                    read,
                },
            );
        }
    }
    costs
}

/// Returns whether an equation adds to a parameter, subtracts or multiplies, and no other operand has as many elements
/// as its result.
fn is_step_from_parameter(program: &Program, eqn: &Eqn) -> bool {
    let numel = |var: Var| numel(program, var);
    let mut large = eqn
        .data()
        .iter()
        .filter(|var| numel(**var) == numel(eqn.out()));
    let parameter = large.next().is_some_and(|x| program.params.contains(x));
    matches!(eqn.op, Op::Add | Op::Sub | Op::Mul) && parameter && large.next().is_none()
}

/// Returns the results, and the values that are read by ops that are not elementwise.
fn read_whole(program: &Program) -> SecondaryMap<Var, ()> {
    let elementwise = |eqn: &&Eqn| eqn.op.def().facts().elementwise;
    let others = program.eqns.iter().filter(|eqn| !elementwise(eqn));
    let read = others.flat_map(Eqn::data).chain(&program.outs);
    read.map(|var| (*var, ())).collect()
}

/// Returns whether the equation is an elementwise one without functions, that cannot fail.
fn is_cheap(eqn: &Eqn) -> bool {
    let def = eqn.op.def();
    let cheap = match def.count() {
        Count::Each(each) => each.transcendentals == 0,
        Count::Copy => true,
        _ => false,
    };
    let safe = matches!(def.facts().fails, crate::op::Fails::Never);
    def.facts().elementwise && cheap && safe
}

/// A program that is being written, with the copies of values for each step.
struct Copies {
    program: Program,
    /// Equations of the program that is read, and the step of each.
    eqns: Vec<Eqn>,
    step_of: Vec<usize>,
    /// Equations of the values that may be computed again.
    maker: SecondaryMap<Var, usize>,
    next: u32,
    /// Results of copies, by equation and step. Looked up by key only, never iterated.
    known: HashMap<(usize, usize), Var>,
}

impl Copies {
    /// Returns equation `i` for a step, with copies of the operands that other steps compute.
    fn reading_copies(&mut self, i: usize, step: usize) -> Eqn {
        let mut eqn = self.eqns[i].clone();
        let out = eqn.out();
        for arg in &mut eqn.args {
            let same = self.program.aval(*arg).shape == self.program.aval(out).shape;
            let from = self.maker.get(*arg).copied();
            if let Some(from) = from.filter(|from| same && self.step_of[*from] != step) {
                *arg = self.copy(from, step);
            }
        }
        eqn
    }

    /// Returns the result of equation `i` for a step. A new copy follows the equations so far.
    fn copy(&mut self, i: usize, step: usize) -> Var {
        if let Some(var) = self.known.get(&(i, step)) {
            return *var;
        }
        let mut eqn = self.reading_copies(i, step);
        let copy = with_copy_of(&mut self.program, eqn.out(), &mut self.next);
        eqn.outs[0] = copy;
        self.program.eqns.push(eqn);
        self.known.insert((i, step), copy);
        copy
    }
}
