//! An order of equations in which values are held for a shorter time.
//!
//! A backward pass computes the cotangents of all layers, and gradients of weights after them, as they are written.
//! Each gradient keeps two values of its layer alive until then. An equation after which no less memory is free than
//! before it can as well come at once.

use super::bytes_of;
use crate::{Eqn, Program, SecondaryMap, Var};

/// Returns the program with each equation as early as it frees the bytes that it takes, and otherwise in order.
pub(super) fn ordered(mut program: Program) -> Program {
    let mut order = Order::new(&program);
    for at in 0..program.eqns.len() {
        order.compute(at);
    }
    let done = order.done.iter().map(|at| program.eqns[*at].clone());
    let eqns: Vec<Eqn> = done.collect();
    program.eqns = eqns;
    program
}

struct Order<'a> {
    program: &'a Program,
    /// The equations that read each variable.
    readers: SecondaryMap<Var, Vec<usize>>,
    /// The number of readers of each variable that are to come. Parameters and results are held to the end.
    n_left: SecondaryMap<Var, usize>,
    /// The number of operands of each equation that are to come.
    n_missing: Vec<usize>,
    is_done: Vec<bool>,
    /// The equations in order.
    done: Vec<usize>,
}

impl<'a> Order<'a> {
    fn new(program: &'a Program) -> Order<'a> {
        let mut readers: SecondaryMap<Var, Vec<usize>> = SecondaryMap::new();
        let bound = program.eqns.iter().flat_map(|eqn| &eqn.outs);
        for var in program.params.iter().chain(bound) {
            readers.insert(*var, Vec::new());
        }
        let mut n_missing = Vec::with_capacity(program.eqns.len());
        for (at, eqn) in program.eqns.iter().enumerate() {
            let args = distinct(&eqn.args);
            n_missing.push(args.len());
            for arg in args {
                let of = readers
                    .get_mut(arg)
                    .expect("a variable is bound before it is read");
                of.push(at);
            }
        }
        let mut n_left: SecondaryMap<Var, usize> = SecondaryMap::new();
        n_left.extend(readers.iter().map(|(var, of)| (var, of.len())));
        for held in program.params.iter().chain(&program.outs) {
            *n_left.get_mut(*held).expect("a result is bound") += 1;
        }
        for param in &program.params {
            let of = readers.get(*param).into_iter().flatten();
            of.for_each(|reader| n_missing[*reader] -= 1);
        }
        Order {
            program,
            n_left,
            readers,
            n_missing,
            is_done: vec![false; program.eqns.len()],
            done: Vec::with_capacity(program.eqns.len()),
        }
    }

    /// Computes an equation, and those that free their bytes then.
    fn compute(&mut self, at: usize) {
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            if self.is_done[at] {
                continue;
            }
            self.is_done[at] = true;
            self.done.push(at);
            let eqn = &self.program.eqns[at];
            for out in &eqn.outs {
                for reader in self.readers.get(*out).into_iter().flatten() {
                    self.n_missing[*reader] -= 1;
                }
            }
            let args = distinct(&eqn.args);
            for arg in &args {
                *self.n_left.get_mut(*arg).expect("an operand is bound") -= 1;
            }
            // Readers of these variables may be ready, or the last ones, since now.
            let near = args.iter().chain(&eqn.outs);
            let near = near.flat_map(|var| self.readers.get(*var).into_iter().flatten());
            let mut near: Vec<usize> = near.copied().filter(|at| self.frees(*at)).collect();
            near.sort_unstable();
            // The first one is the next one.
            waiting.extend(near.into_iter().rev());
        }
    }

    /// Returns whether an equation is ready, and takes no more memory than is free after it.
    fn frees(&self, at: usize) -> bool {
        if self.is_done[at] || self.n_missing[at] > 0 {
            return false;
        }
        let eqn = &self.program.eqns[at];
        let bytes = |vars: &mut dyn Iterator<Item = Var>| -> u128 {
            vars.map(|var| bytes_of(self.program, var)).sum()
        };
        let ends = |arg: &Var| self.n_left.get(*arg) == Some(&1);
        let freed = bytes(&mut distinct(&eqn.args).into_iter().filter(ends));
        freed > 0 && freed >= bytes(&mut eqn.outs.iter().copied())
    }
}

fn distinct(vars: &[Var]) -> Vec<Var> {
    let mut vars = vars.to_vec();
    vars.sort_unstable();
    vars.dedup();
    vars
}
