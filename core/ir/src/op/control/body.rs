//! Programs that a control flow op runs: lanes, and parts of lists.

use crate::op::lanes::{Batching, Lane, apply};
use crate::{Attr, Aval, Builder, Dim, Op, Program, SecondaryMap, Shape, Static, Var};

/// Returns which of `marked` states of a loop are marked at last, if each turn may mark more of them.
///
/// `turn` returns the marks after a turn.
pub(crate) fn fixpoint(
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

pub(crate) fn of_shape(aval: &Aval) -> Static {
    let lens = aval.shape.known().expect("the shapes of a body are known");
    lens.into_iter()
        .map(|len| len as i64)
        .collect::<Vec<_>>()
        .into()
}

pub(crate) fn of_dtype(aval: &Aval) -> Static {
    aval.dtype.expect("the dtypes of a body are known").into()
}

/// Emits zeros with a known dtype and shape.
pub(crate) fn zeros(b: &mut Builder, aval: &Aval) -> Var {
    let statics = [of_shape(aval), Static::Int(0), of_dtype(aval)].map(|value| b.attr(value));
    b.emit(Op::Full, &statics, &[])
}

/// Returns a program on all lanes of a batch, and which of its results differ between lanes.
///
/// The marked results differ by decree. Returns `None` if an op has no rule.
pub(crate) fn lanes(
    program: &Program,
    each: &[bool],
    forced: &[bool],
    batching: Batching,
) -> Option<(Program, Vec<bool>)> {
    let len = batching.len;
    let mut b = Builder::new();
    let arg = |(param, each): (&Var, &bool)| match each {
        true => Lane::Each(b.param(with_lanes(program.aval(*param), len))),
        false => Lane::Shared(b.param(program.aval(*param).clone())),
    };
    let args: Vec<Lane> = program.params.iter().zip(each).map(arg).collect();
    let found = apply(&mut b, program, &args, batching).ok()?;
    let out = |(out, forced): (&Lane, &bool)| match *out {
        Lane::Shared(var) if *forced => {
            let shape = of_shape(&with_lanes(b.aval(var), len));
            let shape = b.attr(shape);
            b.emit(Op::BroadcastTo, &[shape], &[var])
        }
        out => out.var(),
    };
    let outs = found.iter().zip(forced).map(out).collect();
    let each = found
        .iter()
        .zip(forced)
        .map(|(out, forced)| out.is_each() || *forced);
    let params = args.into_iter().map(Lane::var).collect();
    Some((b.finish(params, outs), each.collect()))
}

fn with_lanes(aval: &Aval, len: usize) -> Aval {
    let dims = aval.shape.dims().unwrap_or_default().iter().copied();
    Aval {
        dtype: aval.dtype,
        shape: Shape(Some([Dim::Known(len)].into_iter().chain(dims).collect())),
    }
}

/// Returns the items that are marked.
pub(crate) fn chosen<T: Clone>(items: &[T], marked: &[bool]) -> Vec<T> {
    let items = items.iter().zip(marked);
    items
        .filter(|(_, marked)| **marked)
        .map(|(item, _)| item.clone())
        .collect()
}

/// Returns a variable for each mark that is set: the inverse of [`chosen`].
pub(crate) fn spread(marked: &[bool], vars: impl IntoIterator<Item = Var>) -> Vec<Option<Var>> {
    let mut vars = vars.into_iter();
    let marked = marked.iter();
    marked
        .map(|marked| marked.then(|| vars.next()).flatten())
        .collect()
}

/// Splits `items` in parts of the given lengths, and the rest.
pub(crate) fn parts<T: Clone, const N: usize>(mut items: &[T], lens: [usize; N]) -> [Vec<T>; N] {
    lens.map(|len| {
        let (first, rest) = items.split_at(len);
        items = rest;
        first.to_vec()
    })
}

/// Returns the number of marks.
pub(crate) fn n_marked(marks: &[bool]) -> usize {
    marks.iter().filter(|mark| **mark).count()
}

/// Emits the equations of a program on `args`, and returns its results.
pub fn inline(b: &mut Builder, program: &Program, args: &[Var]) -> Vec<Var> {
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
pub(crate) fn select_lanes(b: &mut Builder, condition: Var, x: Var, y: Var) -> Var {
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
