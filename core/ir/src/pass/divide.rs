//! Elementwise values of which only parts are read.

use super::{cse, dce};
use crate::op::Fails;
use crate::op::shape;
use crate::{Attr, Aval, Eqn, Op, Program, SecondaryMap, Static, Var};

/// Elements of a value from which on it is divided: smaller ones are in a cache when their parts are read.
const LEAST_ELEMENTS: usize = 1 << 15;

/// Applies slices, splits and selected indices of a large elementwise value to its operands.
///
/// The parts of the operands are views. So the group that reads the parts of the value computes them, and the value
/// is not stored: of `h = x + b` with `y, z = split h`, say, that computes `y * sigmoid(z)`. A value is divided if all
/// that reads it are such parts with at most as many elements together, and only elementwise equations and sums read
/// those. All shapes must be known.
pub fn divide(program: Program) -> Program {
    divide_from(LEAST_ELEMENTS, program)
}

/// Divides values of at least `least` elements.
pub fn divide_from(least: usize, mut program: Program) -> Program {
    if !program.eqns.iter().any(|eqn| is_part(&program, eqn)) {
        return program;
    }
    let eqns = std::mem::take(&mut program.eqns);
    let mut divided = Divided {
        next: program.n_vars(),
        is_output: program.outs.iter().map(|out| (*out, ())).collect(),
        program,
        least,
        eqns: Vec::with_capacity(eqns.len()),
        readers: SecondaryMap::new(),
        has_like_readers: SecondaryMap::new(),
        changed: false,
    };
    for eqn in eqns.into_iter().rev() {
        divided.add(eqn);
    }
    let Divided {
        mut program,
        eqns,
        changed,
        ..
    } = divided;
    program.eqns = eqns.into_iter().rev().flatten().collect();
    match changed {
        true => dce(cse(program)),
        false => program,
    }
}

/// Returns whether the results of an equation are parts of its operand, which are views.
fn is_part(program: &Program, eqn: &Eqn) -> bool {
    match eqn.op {
        Op::SelectIndex | Op::Split | Op::Unbind => true,
        Op::Slice => {
            let steps = program.attr(eqn.attrs[2]).ints();
            steps.is_some_and(|steps| steps.iter().all(|step| *step > 0))
        }
        _ => false,
    }
}

/// A program that is written from its end to its start.
struct Divided {
    program: Program,
    least: usize,
    next: u32,
    is_output: SecondaryMap<Var, ()>,
    /// Equations, the last one first. Those of parts that are computed in another way are gone.
    eqns: Vec<Option<Eqn>>,
    /// Equations that read the elements of each variable, if those are needed for a result.
    readers: SecondaryMap<Var, Vec<usize>>,
    has_like_readers: SecondaryMap<Var, ()>,
    changed: bool,
}

impl Divided {
    /// Adds an equation before all others, or those of the parts of its result.
    fn add(&mut self, eqn: Eqn) {
        let parts = match self.can_divide(&eqn) {
            true => self.readers.remove(eqn.out()).unwrap_or_default(),
            false => Vec::new(),
        };
        if parts.is_empty() {
            return self.push(eqn);
        }
        self.changed = true;
        for i in parts {
            let part = self.eqns[i].take().expect("a part is divided once");
            self.compute_parts(&eqn, &part);
        }
        if self.has_like_readers.contains(eqn.out()) {
            // Its elements are not computed.
            self.push(eqn);
        }
    }

    fn push(&mut self, eqn: Eqn) {
        let reads = |var: &Var| self.is_output.contains(*var) || self.readers.contains(*var);
        let is_computed = eqn.outs.iter().any(reads);
        let at = self.eqns.len();
        for var in eqn.data().iter().filter(|_| is_computed) {
            match self.readers.get_mut(*var) {
                Some(readers) => readers.push(at),
                None => drop(self.readers.insert(*var, vec![at])),
            }
        }
        // A part has the value itself as its like operand.
        if !is_part(&self.program, &eqn) {
            let likes = eqn.likes().iter().map(|like| (*like, ()));
            self.has_like_readers.extend(likes);
        }
        self.eqns.push(Some(eqn));
    }

    /// Returns whether an equation has a large elementwise result of which only parts are read, by equations of groups.
    fn can_divide(&self, eqn: &Eqn) -> bool {
        let facts = eqn.op.def().facts();
        let [out] = eqn.outs[..] else { return false };
        let numel = |var: Var| self.program.aval(var).shape.numel();
        let joins = |i: &usize| {
            self.eqns[*i].as_ref().is_some_and(|reader| {
                let facts = reader.op.def().facts();
                facts.elementwise || facts.sum.is_some()
            })
        };
        let is_read_by_groups = |part: &Var| {
            let mut readers = self.readers.get(*part).into_iter().flatten();
            !self.is_output.contains(*part) && readers.all(joins)
        };
        let Some(n) = numel(out).filter(|n| *n >= self.least) else {
            return false;
        };
        if !facts.elementwise
            || !matches!(facts.fails, Fails::Never)
            || !eqn.likes().is_empty()
            || self.is_output.contains(out)
        {
            return false;
        }
        let mut of_parts = 0;
        for i in self.readers.get(out).into_iter().flatten() {
            let Some(part) = &self.eqns[*i] else {
                return false;
            };
            if !is_part(&self.program, part) || !part.outs.iter().all(is_read_by_groups) {
                return false;
            }
            of_parts += part
                .outs
                .iter()
                .filter_map(|out| numel(*out))
                .sum::<usize>();
        }
        of_parts <= n
    }

    /// Adds the equations that compute the results of `part`, which reads the result of `eqn`, from parts of the operands
    /// of `eqn`.
    fn compute_parts(&mut self, eqn: &Eqn, part: &Eqn) {
        let of_args: Vec<_> = (eqn.data().iter())
            .map(|arg| self.part_of(*arg, eqn.out(), part))
            .collect();
        for (i, out) in part.outs.iter().enumerate() {
            let args = of_args.iter().map(|(outs, _)| outs[i.min(outs.len() - 1)]);
            self.push(Eqn {
                outs: [*out].into_iter().collect(),
                op: eqn.op,
                attrs: eqn.attrs.clone(),
                args: args.collect(),
            });
        }
        for (_, made) in of_args {
            if let Some(made) = made {
                self.push(made);
            }
        }
    }

    /// Returns the part of an operand that corresponds to `part` of the value `whole`, and the equation that makes it.
    ///
    /// One variable stands for all results of `part` if the operand is broadcast to them.
    fn part_of(&mut self, arg: Var, whole: Var, part: &Eqn) -> (Vec<Var>, Option<Eqn>) {
        let dims = |var: Var| {
            let dims = self.program.aval(var).shape.known();
            dims.expect("a plan knows its shapes")
        };
        let (of_arg, of_whole) = (dims(arg), dims(whole));
        let absent = of_whole.len() - of_arg.len();
        let repeats = |axis: usize| of_arg[axis] == 1 && of_whole[absent + axis] != 1;
        let statics: Vec<Static> = (part.attrs.iter())
            .map(|attr| self.program.attr(*attr).clone())
            .collect();
        let axis_at = |i: usize| {
            let axis = statics[i].int().expect("an axis is a number");
            let axis = shape::axis(axis, of_whole.len()).expect("the axis exists");
            axis.checked_sub(absent)
        };
        let select =
            |axis: usize, index: Static| (Op::SelectIndex, vec![(axis as i64).into(), index]);
        let (op, statics) = match part.op {
            Op::Slice => {
                let lists = [0, 1, 2].map(|i| statics[i].ints().unwrap_or_default().to_vec());
                let of_axis =
                    |list: usize, axis: usize, all: i64| match lists[list].get(absent + axis) {
                        Some(n) if !repeats(axis) => *n,
                        _ => all,
                    };
                let list = |list, all| -> Static {
                    let axes = 0..of_arg.len();
                    let list: Vec<i64> = axes.map(|axis| of_axis(list, axis, all)).collect();
                    list.into()
                };
                let whole = (0..of_arg.len()).all(|axis| {
                    let end = of_axis(1, axis, i64::MAX);
                    let to_end = end == i64::MAX || end == of_arg[axis] as i64;
                    of_axis(0, axis, 0) == 0 && to_end && of_axis(2, axis, 1) == 1
                });
                if whole {
                    return (vec![arg], None);
                }
                (Op::Slice, vec![list(0, 0), list(1, i64::MAX), list(2, 1)])
            }
            op => {
                // The static arguments that name the axis, and the index of a selected element.
                let (at, index) = match op {
                    Op::SelectIndex => (0, statics[1].clone()),
                    Op::Unbind => (0, 0.into()),
                    _ => (1, 0.into()),
                };
                match axis_at(at) {
                    None => return (vec![arg], None),
                    Some(axis) if repeats(axis) && op == Op::Split => return (vec![arg], None),
                    Some(axis) if repeats(axis) => select(axis, 0.into()),
                    Some(axis) if op == Op::SelectIndex => select(axis, index),
                    Some(axis) => {
                        let mut statics = statics.clone();
                        statics[at] = (axis as i64).into();
                        (op, statics)
                    }
                }
            }
        };
        let n_outs = match op {
            Op::SelectIndex | Op::Slice => 1,
            _ => part.outs.len(),
        };
        let aval = self.program.aval(arg).clone();
        let n_args = if op == Op::Unbind { 1 } else { 2 };
        let args = vec![arg; n_args];
        let avals: Vec<&Aval> = args.iter().map(|_| &aval).collect();
        let avals = op.infer(&statics, &avals, n_outs);
        let avals = avals.expect("an operand has the part that its result has");
        let attrs: Vec<Attr> = statics.into_iter().map(|value| self.attr(value)).collect();
        let line = self.program.lines.get(part.outs[0]).copied();
        let outs: Vec<Var> = avals
            .into_iter()
            .map(|aval| {
                let var = Var(self.next);
                self.next += 1;
                self.program.avals.insert(var, aval);
                if let Some(line) = line {
                    self.program.lines.insert(var, line);
                }
                var
            })
            .collect();
        let made = Eqn {
            outs: outs.iter().copied().collect(),
            op,
            attrs: attrs.into(),
            args: args.into(),
        };
        (outs, Some(made))
    }

    fn attr(&mut self, value: Static) -> Attr {
        self.program.attrs.push(value);
        Attr(self.program.attrs.len() as u32 - 1)
    }
}
