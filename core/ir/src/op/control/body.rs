//! Derivatives and batches of the programs that a control flow op runs.

use crate::ad::{self, Calls, Jvp, SplitProgram, TransposedProgram};
use crate::batch::{Batch, batch};
use crate::{
    Attr, Aval, Builder, Dim, Entity, Eqn, Op, Program, SecondaryMap, Shape, Static, Var, pass,
};

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

/// Returns which of `marked` states of a loop are marked at last, if each turn may mark more of them.
///
/// `turn` returns the marks after a turn.
pub(super) fn fixpoint(
    mut marked: Vec<bool>,
    mut turn: impl FnMut(&[bool]) -> Vec<bool>,
) -> Vec<bool> {
    loop {
        let after = turn(&marked);
        let joined: Vec<bool> = marked.iter().zip(&after).map(|(a, b)| *a || *b).collect();
        if joined == marked {
            return marked;
        }
        marked = joined;
    }
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
            outs: vec![var],
            op: Op::Full,
            attrs: attrs.to_vec(),
            args: Vec::new(),
        });
    }
    linear.eqns.splice(0..0, shapes);
    (known, linear)
}

fn of_shape(aval: &Aval) -> Static {
    let lens = aval.shape.known().expect("the shapes of a body are known");
    lens.into_iter()
        .map(|len| len as i64)
        .collect::<Vec<_>>()
        .into()
}

fn of_dtype(aval: &Aval) -> Static {
    aval.dtype.expect("the dtypes of a body are known").into()
}

/// Emits zeros with a known dtype and shape.
pub(super) fn zeros(b: &mut Builder, aval: &Aval) -> Var {
    let statics = [of_shape(aval), Static::Int(0), of_dtype(aval)].map(|value| b.attr(value));
    b.emit(Op::Full, &statics, &[])
}

/// The transpose of a program that is linear in some of its parameters.
pub(super) struct Pullback {
    /// `the other parameters, cotangents of the given results -> cotangents that are not zero`.
    pub(super) program: Program,
    /// For each parameter, true if it has a cotangent.
    pub(super) nonzero: Vec<bool>,
}

/// Transposes a program in the parameters in which it is `linear`, for cotangents of `given` results.
pub(super) fn pullback(program: &Program, linear: &[bool], given: &[bool]) -> Pullback {
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
    } = ad::transpose(&second, residuals.len());
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

/// Returns a program on all lanes of a batch, and which of its results differ between lanes.
///
/// The marked results differ by decree. Returns `None` if an op has no rule.
pub(super) fn lanes(
    program: &Program,
    each: &[bool],
    forced: &[bool],
    len: usize,
) -> Option<(Program, Vec<bool>)> {
    let Batch { program: all, each } = batch(program, each, len).ok()?;
    let mut b = Builder::after(&all);
    all.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let out = |((out, each), forced): ((&Var, &bool), &bool)| match *forced && !each {
        true => {
            let statics = of_shape(&with_lanes(all.aval(*out), len));
            let statics = b.attr(statics);
            b.emit(Op::BroadcastTo, &[statics], &[*out])
        }
        false => *out,
    };
    let outs = all.outs.iter().zip(&each).zip(forced).map(out).collect();
    let each = each
        .iter()
        .zip(forced)
        .map(|(each, forced)| *each || *forced);
    Some((
        pass::simplify(b.finish(all.params.clone(), outs)),
        each.collect(),
    ))
}

fn with_lanes(aval: &Aval, len: usize) -> Aval {
    let dims = aval.shape.dims().unwrap_or_default().iter().copied();
    Aval {
        dtype: aval.dtype,
        shape: Shape(Some([Dim::Known(len)].into_iter().chain(dims).collect())),
    }
}

/// Returns the items that are marked.
pub(super) fn chosen<T: Clone>(items: &[T], marked: &[bool]) -> Vec<T> {
    let items = items.iter().zip(marked);
    items
        .filter(|(_, marked)| **marked)
        .map(|(item, _)| item.clone())
        .collect()
}

/// Splits `items` in parts of the given lengths, and the rest.
pub(super) fn parts<T: Clone, const N: usize>(mut items: &[T], lens: [usize; N]) -> [Vec<T>; N] {
    lens.map(|len| {
        let (first, rest) = items.split_at(len);
        items = rest;
        first.to_vec()
    })
}

/// Returns the number of marks.
pub(super) fn n_marked(marks: &[bool]) -> usize {
    marks.iter().filter(|mark| **mark).count()
}

/// Emits the equations of a program on `args`, and returns its results.
pub(super) fn inline(b: &mut Builder, program: &Program, args: &[Var]) -> Vec<Var> {
    let params = program.params.iter().copied().zip(args.iter().copied());
    let mut vars: SecondaryMap<Var, Var> = params.collect();
    let of = |vars: &SecondaryMap<Var, Var>, var: &Var| {
        *vars
            .get(*var)
            .expect("a variable is bound before it is read")
    };
    for eqn in &program.eqns {
        let args: Vec<Var> = eqn.args.iter().map(|arg| of(&vars, arg)).collect();
        let attrs = eqn
            .attrs
            .iter()
            .map(|attr| b.attr(program.attr(*attr).clone()));
        let attrs: Vec<Attr> = attrs.collect();
        let outs = b.emit_many(eqn.op, &attrs, &args, eqn.outs.len());
        vars.extend(eqn.outs.iter().copied().zip(outs));
    }
    program.outs.iter().map(|out| of(&vars, out)).collect()
}

/// Emits a choice between two values for each lane.
pub(super) fn select_lanes(b: &mut Builder, condition: Var, x: Var, y: Var) -> Var {
    let shape = b
        .aval(x)
        .shape
        .known()
        .expect("the shapes of a body are known");
    let lens = [&shape[..1], &vec![1; shape.len() - 1]].concat();
    let lens: Vec<i64> = lens.iter().map(|len| *len as i64).collect();
    let lens = b.attr(lens);
    let condition = b.emit(Op::Reshape, &[lens], &[condition, condition]);
    b.select(condition, x, y)
}
