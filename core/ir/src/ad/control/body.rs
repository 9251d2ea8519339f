//! Derivatives of the programs that a control flow op runs.

use crate::ad::transpose::{Sums, transpose_onto};
use crate::ad::{self, Calls, Jvp, SplitProgram, TransposedProgram};
use crate::op::control::body::{chosen, n_marked, of_dtype, of_shape, spread, zeros};
use crate::{Attr, Builder, Entity, Eqn, Op, Program, SecondaryMap, Static, Var, pass};

/// Returns which results of a program depend on the parameters that are marked.
pub(super) fn dependent(program: &Program, marked: &[bool]) -> Vec<bool> {
    let params = program.params.iter().zip(marked);
    let mut found: SecondaryMap<Var, ()> = params
        .filter(|(_, marked)| **marked)
        .map(|(v, _)| (*v, ()))
        .collect();
    for eqn in &program.eqns {
        if eqn.data().iter().any(|x| found.contains(*x)) {
            found.extend(eqn.outs.iter().map(|v| (*v, ())));
        }
    }
    program.outs.iter().map(|v| found.contains(*v)).collect()
}

/// Returns which results of a program have tangents if the marked parameters have.
pub(super) fn active(program: &Program, marked: &[bool]) -> Vec<bool> {
    ad::jvp(program, &chosen(&program.params, marked), Calls::Joint).active
}

/// Returns the program on values and tangents: `x, dx of the active x -> y, dy of the given y`.
///
/// A tangent that is given but not active is zero.
pub(super) fn joint(program: &Program, active: &[bool], given: &[bool], calls: Calls) -> Program {
    let Jvp {
        program: joint,
        active: found,
    } = ad::jvp(program, &chosen(&program.params, active), calls);
    let (y, mut dy) = joint.outs.split_at(program.outs.len());
    let y = y.to_vec();
    let mut b = Builder::after(&joint);
    joint.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let mut outs = y.clone();
    for ((y, found), given) in y.iter().zip(&found).zip(given) {
        let tangent = found.then(|| {
            let (first, rest) = dy.split_first().expect("an active result has a tangent");
            dy = rest;
            *first
        });
        if *given {
            outs.push(tangent.unwrap_or_else(|| b.zeros_like(*y)));
        }
    }
    pass::simplify(b.finish(joint.params.clone(), outs))
}

/// Appends an equation for the results of `eqn` and the tangents of the given ones, and returns these.
pub(super) fn append_joint(
    b: &mut Builder,
    eqn: &Eqn,
    given: &[bool],
    attrs: Vec<Attr>,
    args: Vec<Var>,
) -> Vec<Var> {
    let y = chosen(&eqn.outs, given);
    let dy: Vec<Var> = y.iter().map(|y| b.param_like(*y)).collect();
    b.append(Eqn {
        outs: [&eqn.outs[..], &dy].concat().into(),
        op: eqn.op,
        attrs: attrs.into(),
        args: args.into(),
    });
    dy
}

/// Emits the pullback of a program that devices divide. A cotangent is divided as its value is.
///
/// `ins` and `outs` say how operands and results of the program are divided. `emit` emits a program that is divided in
/// a given way.
pub(super) fn divided_cotangents<S: Clone>(
    (program, ins, outs): (&Program, &[S], &[S]),
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
    emit: impl FnOnce(Program, [Vec<S>; 2], &[Var]) -> Vec<Var>,
) -> Vec<Option<Var>> {
    let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let Pullback { program, nonzero } = pullback_onto(program, linear, &given, 0, Sums::WHOLE);
    if n_marked(&nonzero) == 0 {
        return vec![None; nonzero.len()];
    }
    let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
    let args = chosen(&eqn.args, &known).into_iter();
    let args: Vec<Var> = args.chain(cts.iter().flatten().copied()).collect();
    let ins_back = [chosen(ins, &known), chosen(outs, &given)].concat();
    let found = emit(program, [ins_back, chosen(ins, &nonzero)], &args);
    spread(&nonzero, found)
}

/// A program on values and tangents, split in the part on values and the part linear in tangents.
pub(super) struct Halves {
    /// `x -> y, residuals`.
    pub(super) known: Program,
    /// `residuals, dx -> dy`.
    pub(super) linear: Program,
    /// The number of residuals.
    pub(super) n_residuals: usize,
}

/// Splits `x, dx -> y, dy`, which takes `n_params` values and returns `n_outs`.
pub(super) fn halves(joint: &Program, n_params: usize, n_outs: usize) -> Halves {
    let SplitProgram {
        known,
        linear,
        residuals,
    } = ad::split(joint, n_params, n_outs);
    let linear = with_zero_outs(linear, residuals.len());
    let (known, linear) = pass::choose_residuals(known, linear, n_outs, residuals.len());
    let (known, linear) = without_likes(known, pass::cse(linear), n_outs);
    Halves {
        n_residuals: known.outs.len() - n_outs,
        known: pass::dce(known),
        linear,
    }
}

/// Replaces the results of a linear program that do not depend on its inputs by zeros.
fn with_zero_outs(linear: Program, n_residuals: usize) -> Program {
    let is_input: Vec<bool> = (0..linear.params.len()).map(|i| i >= n_residuals).collect();
    let depends = dependent(&linear, &is_input);
    if !depends.contains(&false) {
        return linear;
    }
    let mut b = Builder::after(&linear);
    linear.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let outs = linear
        .outs
        .iter()
        .zip(depends)
        .map(|(out, depends)| match depends {
            true => *out,
            false => zeros(&mut b, linear.aval(*out)),
        });
    let outs = outs.collect();
    b.finish(linear.params, outs)
}

/// Drops the residuals of which only the shape is read: it is known.
fn without_likes(mut known: Program, mut linear: Program, n_outs: usize) -> (Program, Program) {
    let residuals = known.outs.split_off(n_outs);
    let mut read: SecondaryMap<Var, ()> = linear.outs.iter().map(|v| (*v, ())).collect();
    read.extend(
        linear
            .eqns
            .iter()
            .flat_map(|eqn| eqn.data())
            .map(|v| (*v, ())),
    );
    let mut shapes = Vec::new();
    for var in residuals {
        if read.contains(var) {
            known.outs.push(var);
            continue;
        }
        linear.params.retain(|param| *param != var);
        let aval = known.aval(var).clone();
        let statics = [of_shape(&aval), Static::Int(0), of_dtype(&aval)];
        let attrs = statics.map(|value| {
            linear.attrs.push(value);
            Attr::from_index(linear.attrs.len() - 1)
        });
        shapes.push(Eqn {
            outs: [var].into(),
            op: Op::Full,
            attrs: attrs.into(),
            args: [].into(),
        });
    }
    linear.eqns.splice(0..0, shapes);
    (known, linear)
}

/// The transpose of a program that is linear in some of its parameters.
pub(super) struct Pullback {
    /// `the other parameters, cotangents of the given results, sums -> cotangents that are not zero`.
    ///
    /// The sums are those to which the cotangents of the first parameters are added.
    pub(super) program: Program,
    /// For each parameter, true if it has a cotangent.
    pub(super) nonzero: Vec<bool>,
}

/// Transposes a program in the parameters in which it is `linear`, for cotangents of `given` results.
pub(super) fn pullback(program: &Program, linear: &[bool], given: &[bool]) -> Pullback {
    pullback_onto(program, linear, given, 0, Sums::BY_PART)
}

/// Transposes a program, and adds the cotangents of the first `n_sums` parameters to given sums.
pub(super) fn pullback_onto(
    program: &Program,
    linear: &[bool],
    given: &[bool],
    n_sums: usize,
    how: Sums,
) -> Pullback {
    let others: Vec<bool> = linear.iter().map(|linear| !linear).collect();
    let known = chosen(&program.params, &others);
    let inputs = chosen(&program.params, linear);
    let part = pass::simplify(Program {
        params: known.iter().chain(&inputs).copied().collect(),
        outs: chosen(&program.outs, given),
        ..program.clone()
    });
    let SplitProgram {
        known: first,
        linear: second,
        residuals,
    } = ad::split(&part, known.len(), 0);
    let TransposedProgram {
        program: back,
        nonzero: found,
    } = transpose_onto(&second, residuals.len(), n_marked(&linear[..n_sums]), how);
    let mut b = Builder::after(&back);
    first
        .eqns
        .into_iter()
        .chain(back.eqns.iter().cloned())
        .for_each(|eqn| b.append(eqn));
    let cts = &back.params[residuals.len()..];
    let params = known.iter().chain(cts).copied().collect();
    let program = pass::simplify(b.finish(params, back.outs.clone()));
    let mut found = found.into_iter();
    let nonzero = linear
        .iter()
        .map(|linear| *linear && found.next() == Some(true));
    Pullback {
        nonzero: nonzero.collect(),
        program,
    }
}
