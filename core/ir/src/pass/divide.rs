//! Elementwise values of which only parts are read.

use super::recompute::LEAST_ELEMENTS;
use super::{cse, dce};
use crate::hash::HashMap;
use crate::op::Fails;
use crate::op::shape;
use crate::{Attr, Aval, Eqn, Op, Program, SecondaryMap, Static, Var};

/// Largest number of parts that a value is divided into. Each elementwise equation that leads to the value becomes one for
/// each part.
const MOST_PARTS: usize = 8;

/// Applies slices, splits and selected indices of a large elementwise value to its operands.
///
/// The parts of the operands are views. So the group that reads the parts of the value computes them, and the value
/// is not stored: of `h = x + b` with `y, z = split h`, say, that computes `y * sigmoid(z)`. A value is divided if all
/// that reads it are a few such parts with at most as many elements together, and only elementwise equations and sums
/// read those. Values that fit a cache stay as they are. All shapes must be known.
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
        made: HashMap::default(),
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
    /// Equations of parts of operands. Looked up by key only, never iterated.
    made: HashMap<PartKey, usize>,
    changed: bool,
}

/// Op and static arguments of a part.
type PartOp = (Op, Vec<Static>);

/// Operand, op and static arguments of an equation of a part.
type PartKey = (Var, Op, Vec<u64>);

impl Divided {
    /// Adds an equation before all others, or those of the parts of its result.
    fn add(&mut self, eqn: Eqn) {
        let parts = match self.can_divide(&eqn) {
            true => self.readers.remove(eqn.out()).unwrap_or_default(),
            false => Vec::new(),
        };
        if parts.is_empty() {
            self.push(eqn);
            return;
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

    /// Adds an equation before all others, and returns its index.
    fn push(&mut self, eqn: Eqn) -> usize {
        let reads = |var: &Var| self.is_output.contains(*var) || self.readers.contains(*var);
        let is_computed = eqn.outs.iter().any(reads);
        let at = self.eqns.len();
        for var in eqn.data() {
            if !is_computed {
                // Something reads only the shape of the result.
                self.has_like_readers.insert(*var, ());
                continue;
            }
            match self.readers.get_mut(*var) {
                Some(readers) => readers.push(at),
                None => drop(self.readers.insert(*var, vec![at])),
            }
        }
        // A part may have the value itself as its like operand. It then goes together with it.
        let is_part = is_part(&self.program, &eqn);
        let likes = eqn.likes().iter();
        let likes = likes.filter(|like| !is_part || **like != eqn.args[0]);
        self.has_like_readers.extend(likes.map(|like| (*like, ())));
        self.eqns.push(Some(eqn));
        at
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
        let (mut of_parts, mut n_parts) = (0, 0);
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
            n_parts += part.outs.len();
        }
        of_parts <= n && n_parts <= MOST_PARTS
    }

    /// Adds the equations that compute the results of `part`, which reads the result of `eqn`, from parts of the operands
    /// of `eqn`.
    fn compute_parts(&mut self, eqn: &Eqn, part: &Eqn) {
        let statics = self.statics_of(part);
        let dims = |var: Var| self.program.aval(var).shape.known();
        let whole = dims(eqn.out()).expect("a plan knows its shapes");
        let parts = eqn.data().iter().map(|arg| {
            let axes = Axes {
                whole: &whole,
                operand: &dims(*arg).expect("a plan knows its shapes"),
            };
            (*arg, axes.part(part.op, &statics))
        });
        let parts: Vec<(Var, Option<PartOp>)> = parts.collect();
        let mut made: Vec<Eqn> = Vec::new();
        let mut of_args: Vec<Vec<Var>> = Vec::new();
        for (arg, of_arg) in parts {
            // One variable stands for all results of `part` if the operand is broadcast to them.
            let Some((op, statics)) = of_arg else {
                of_args.push(vec![arg]);
                continue;
            };
            let same = |other: &&Eqn| {
                other.args[0] == arg && other.op == op && self.statics_of(other) == statics
            };
            let eqn = match made.iter().find(same) {
                Some(eqn) => eqn.clone(),
                None => {
                    let eqn = self.part(arg, op, statics, part);
                    made.push(eqn.clone());
                    eqn
                }
            };
            of_args.push(eqn.outs.to_vec());
        }
        for (i, out) in part.outs.iter().enumerate() {
            let args = of_args.iter().map(|outs| outs[i.min(outs.len() - 1)]);
            self.push(Eqn {
                outs: [*out].into_iter().collect(),
                op: eqn.op,
                attrs: eqn.attrs.clone(),
                args: args.collect(),
            });
        }
        for eqn in made {
            let key = self.key(&eqn);
            let at = self.push(eqn);
            self.made.insert(key, at);
        }
    }

    /// Returns the equation of a part of an operand. If there is one already, it is taken from its place: a part that is
    /// read in two places has to be before the first one.
    fn part(&mut self, arg: Var, op: Op, statics: Vec<Static>, like: &Eqn) -> Eqn {
        let attrs = statics.iter().map(|value| self.attr(value.clone()));
        let attrs: Vec<Attr> = attrs.collect();
        let n_args = if op == Op::Unbind { 1 } else { 2 };
        let mut eqn = Eqn {
            outs: Vec::new().into(),
            op,
            attrs: attrs.into(),
            args: vec![arg; n_args].into(),
        };
        if let Some(at) = self.made.remove(&self.key(&eqn)) {
            if let Some(readers) = self.readers.get_mut(arg) {
                readers.retain(|reader| *reader != at);
            }
            return self.eqns[at]
                .take()
                .expect("a value is divided after all that reads it");
        }
        let n_outs = match op {
            Op::SelectIndex | Op::Slice => 1,
            _ => like.outs.len(),
        };
        let aval = self.program.aval(arg).clone();
        let avals: Vec<&Aval> = vec![&aval; n_args];
        let avals = op.infer(&statics, &avals, n_outs);
        let avals = avals.expect("an operand has the part that its result has");
        let line = self.program.lines.get(like.outs[0]).copied();
        let outs = avals.into_iter().map(|aval| {
            let var = Var(self.next);
            self.next += 1;
            self.program.avals.insert(var, aval);
            if let Some(line) = line {
                self.program.lines.insert(var, line);
            }
            var
        });
        eqn.outs = outs.collect();
        eqn
    }

    fn statics_of(&self, eqn: &Eqn) -> Vec<Static> {
        let statics = eqn
            .attrs
            .iter()
            .map(|attr| self.program.attr(*attr).clone());
        statics.collect()
    }

    fn key(&self, eqn: &Eqn) -> PartKey {
        let mut statics = Vec::new();
        for attr in &eqn.attrs {
            self.program.attr(*attr).encode(&mut statics);
        }
        (eqn.args[0], eqn.op, statics)
    }

    fn attr(&mut self, value: Static) -> Attr {
        self.program.attrs.push(value);
        Attr(self.program.attrs.len() as u32 - 1)
    }
}

/// Lengths of the axes of a value, and of an operand that is broadcast to it.
struct Axes<'a> {
    whole: &'a [usize],
    operand: &'a [usize],
}

impl Axes<'_> {
    /// Returns the number of axes of the value before those of the operand.
    fn absent(&self) -> usize {
        self.whole.len() - self.operand.len()
    }

    /// Returns whether an axis of the operand is repeated.
    fn repeats(&self, axis: usize) -> bool {
        self.operand[axis] == 1 && self.whole[self.absent() + axis] != 1
    }

    /// Returns the op and the static arguments of the part of the operand that corresponds to a part of the value.
    ///
    /// Returns `None` if that is all of the operand.
    fn part(&self, op: Op, statics: &[Static]) -> Option<PartOp> {
        if op == Op::Slice {
            return self.slice(statics);
        }
        // The static argument that names the axis.
        let at = if op == Op::Split { 1 } else { 0 };
        let axis = statics[at].int().expect("an axis is a number");
        let axis = shape::axis(axis, self.whole.len()).expect("the axis exists");
        let axis = axis.checked_sub(self.absent())?;
        let name: Static = (axis as i64).into();
        match op {
            Op::Split if self.repeats(axis) => None,
            _ if self.repeats(axis) => Some((Op::SelectIndex, vec![name, 0.into()])),
            _ => {
                let mut statics = statics.to_vec();
                statics[at] = name;
                Some((op, statics))
            }
        }
    }

    fn slice(&self, statics: &[Static]) -> Option<PartOp> {
        let of_axis = |list: usize, axis: usize, all: i64| {
            let list = statics[list].ints().unwrap_or_default();
            match list.get(self.absent() + axis) {
                Some(n) if !self.repeats(axis) => *n,
                _ => all,
            }
        };
        let axes = || 0..self.operand.len();
        let is_whole = axes().all(|axis| {
            let end = of_axis(1, axis, i64::MAX);
            let to_end = end == i64::MAX || end == self.operand[axis] as i64;
            of_axis(0, axis, 0) == 0 && to_end && of_axis(2, axis, 1) == 1
        });
        let list = |list: usize, all: i64| -> Static {
            let numbers = axes().map(|axis| of_axis(list, axis, all));
            numbers.collect::<Vec<i64>>().into()
        };
        (!is_whole).then(|| (Op::Slice, vec![list(0, 0), list(1, i64::MAX), list(2, 1)]))
    }
}
