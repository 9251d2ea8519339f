//! Guesses the shapes of a program whose shapes are not known, for its [compiled loops](super::compiled_loops).
//!
//! Unknown shapes are assumed to be equal, as in most programs, with one exception: a result that has an
//! axis of length 1 whatever the lengths of its operand are, as that of `mean_keepdims`. Such an axis
//! is there to be broadcast. These results have the shape that the rule of the op gives them if an
//! unknown shape is [`EXAMPLE`].

use gradloom_ir::op::{Equal, Operands};
use gradloom_ir::pass;
use gradloom_ir::{Aval, Dim, Eqn, Op, Program, Shape, Static, Var};
use std::collections::{HashMap, HashSet};

/// Shape that stands for all unknown ones: its values are too large for a cache.
const EXAMPLE: [usize; 4] = [61, 67, 71, 73];

/// Returns a program in which values that are assumed to have the same shape have the same aval.
///
/// Broadcasts between them are gone, and so are equations that are read only for their shapes, which
/// are known at run time. Constant cotangents of means are parameters.
pub(super) fn guessed(program: Program) -> Program {
    let program = values(pass::simplify(without_identities(pass::simplify(program))));
    let mut program = without_cotangents_of_means(program);
    let mut guess = Guess::default();
    for eqn in &program.eqns {
        guess.add(&program, eqn);
    }
    let bound = program.eqns.iter().flat_map(|eqn| &eqn.outs);
    for var in program.params.iter().chain(bound) {
        let mut aval = program.aval(*var).clone();
        aval.shape = guess.shape(&program, *var);
        program.avals.insert(*var, aval);
    }
    program
}

/// Replaces every broadcast between equal shapes by its operand.
fn without_identities(mut program: Program) -> Program {
    let mut same: HashMap<Var, Var> = HashMap::new();
    let mut guess = Guess::default();
    let mut eqns = std::mem::take(&mut program.eqns);
    for eqn in &mut eqns {
        for arg in &mut eqn.args {
            *arg = same.get(arg).copied().unwrap_or(*arg);
        }
        if is_broadcast(eqn.op) && !is_known(&program, eqn.outs[0]) {
            let from = eqn.args[0];
            if guess.target(&program, eqn) == from {
                same.insert(eqn.outs[0], from);
            }
        }
        guess.add(&program, eqn);
    }
    for out in &mut program.outs {
        *out = same.get(out).copied().unwrap_or(*out);
    }
    program.eqns = eqns;
    program
}

/// Makes the constant cotangents of means parameters.
///
/// Such a cotangent is a number over a length that is not known yet. At run time no task computes it, so
/// the operations before the mean and those of its derivative are one group.
fn without_cotangents_of_means(mut program: Program) -> Program {
    let constants = pass::constants(&program);
    let eqns = std::mem::take(&mut program.eqns);
    let (cotangents, others): (Vec<Eqn>, _) = eqns
        .into_iter()
        .partition(|eqn| eqn.op == Op::MeanT && constants.get(eqn.args[0]).is_some());
    program.params.extend(cotangents.iter().map(Eqn::out));
    program.eqns = others;
    program
}

/// Makes the values of one parameter alone parameters, where operations read them beside others.
///
/// A parameter that is broadcast, such as a weight for each channel, is smaller than the others, and the run time computes
/// `1 - weight` before the loop that reads it. Returns `None` if there is no such value.
pub(super) fn without_values_of_one_parameter(mut program: Program) -> Option<Program> {
    let constants = pass::constants(&program);
    let params = program.params.iter();
    let mut only: HashMap<Var, Var> = params.map(|param| (*param, *param)).collect();
    let mut apart: Vec<Var> = Vec::new();
    for eqn in program.eqns.iter().filter(|eqn| eqn.outs.len() == 1) {
        let is_elementwise = eqn.op.def().facts().elementwise;
        let data = || {
            eqn.data()
                .iter()
                .filter(|var| constants.get(**var).is_none())
        };
        let mut params = data().map(|var| only.get(var));
        let first = params.next().flatten().copied();
        let one = first.filter(|first| params.all(|param| param == Some(first)));
        match one {
            Some(param) if is_elementwise || is_broadcast(eqn.op) => {
                only.insert(eqn.out(), param);
            }
            None if is_elementwise => {
                let computed = |var: &&Var| only.get(*var).is_some_and(|param| param != *var);
                apart.extend(data().filter(computed));
            }
            _ => {}
        }
    }
    apart.sort_unstable();
    apart.dedup();
    program
        .eqns
        .retain(|eqn| !eqn.outs.iter().any(|out| apart.contains(out)));
    let found = !apart.is_empty();
    program.params.extend(apart);
    found.then(|| values(program))
}

/// Shapes that are assumed for unknown ones.
#[derive(Default)]
struct Guess {
    /// Shapes other than [`EXAMPLE`].
    shapes: HashMap<Var, Shape>,
}

impl Guess {
    /// Returns the shape of a value, known or assumed.
    fn shape(&self, program: &Program, var: Var) -> Shape {
        match (is_known(program, var), self.shapes.get(&var)) {
            (true, _) => program.aval(var).shape.clone(),
            (false, Some(shape)) => shape.clone(),
            (false, None) => Shape::from(&EXAMPLE[..]),
        }
    }

    /// Adds the results of an equation.
    fn add(&mut self, program: &Program, eqn: &Eqn) {
        let [out] = *eqn.outs else { return };
        if is_known(program, out) {
            return;
        }
        let shape = if is_broadcast(eqn.op) {
            Some(self.shape(program, self.target(program, eqn)))
        } else if eqn.op.def().facts().elementwise {
            self.joint(program, eqn)
        } else {
            self.with_a_unit_axis(program, eqn)
        };
        if let Some(shape) = shape.filter(|shape| *shape != Shape::from(&EXAMPLE[..])) {
            self.shapes.insert(out, shape);
        }
    }

    /// Returns the operand that has the shape of the result of a broadcast or of its transpose. It is the first one if
    /// all shapes are equal.
    fn target(&self, program: &Program, eqn: &Eqn) -> Var {
        let shape = self.shape(program, eqn.args[0]);
        let mut likes = eqn.likes().iter().copied();
        let other = likes.find(|like| self.shape(program, *like) != shape);
        other.unwrap_or(eqn.args[0])
    }

    /// Returns the shape of all operands of an elementwise op but scalars, if they agree.
    fn joint(&self, program: &Program, eqn: &Eqn) -> Option<Shape> {
        let shapes = eqn.data().iter().map(|var| self.shape(program, *var));
        let mut shapes = shapes.filter(|shape| *shape != Shape::scalar());
        let first = shapes.next()?;
        shapes.all(|shape| shape == first).then_some(first)
    }

    /// Returns the shape of the result of an op with one operand, if it has an axis of length 1.
    fn with_a_unit_axis(&self, program: &Program, eqn: &Eqn) -> Option<Shape> {
        let [_] = eqn.data() else { return None };
        let avals = eqn.args.iter().map(|var| Aval {
            dtype: program.aval(*var).dtype,
            shape: self.shape(program, *var),
        });
        let avals: Vec<Aval> = avals.collect();
        let statics = eqn.attrs.iter().map(|attr| program.attr(*attr).clone());
        let statics: Vec<Static> = statics.collect();
        let shapes = eqn
            .op
            .def()
            .shape(&statics, &avals.iter().collect::<Vec<_>>(), 1);
        let shape = shapes.ok()?.pop()?;
        let known: Option<&[Dim]> = shape.dims();
        known?.contains(&Dim::Known(1)).then_some(shape)
    }
}

fn is_known(program: &Program, var: Var) -> bool {
    let aval = program.avals.get(var);
    aval.is_some_and(|aval| aval.shape.known().is_some())
}

/// Returns whether an op goes from the shape of one `Like` operand to that of another, and is the
/// identity if they are equal.
fn is_broadcast(op: Op) -> bool {
    let def = op.def();
    def.facts().equal == Equal::SameAval && def.operands() == Operands::Fixed(1, 2)
}

/// Removes equations that are read only for their shapes, which are known at run time.
fn values(mut program: Program) -> Program {
    let mut read: HashSet<Var> = program.outs.iter().copied().collect();
    let mut live = vec![false; program.eqns.len()];
    for (eqn, live) in program.eqns.iter().zip(&mut live).rev() {
        *live = eqn.outs.iter().any(|var| read.contains(var));
        if *live {
            read.extend(eqn.data());
        }
    }
    let mut live = live.into_iter();
    program.eqns.retain(|_| live.next() == Some(true));
    program
}
