//! `while`: a loop that goes on as long as a condition holds.

use super::body;
use super::{Control, avals, check_args, check_aval, check_number, control_op, count};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Attr, Aval, Builder, DType, Fault, Op, Program, Programs, Static, StaticKind, Var};

/// `carry... = while[cond and body, consts] consts..., carry...`.
///
/// Both programs take `consts..., carry...`. The first returns a `bool` of rank 0; as long as it is
/// true, the second replaces the states.
pub(crate) struct While;

control_op!(
    While,
    "while",
    &[
        StaticKind::Programs.named("cond_body"),
        StaticKind::Count.named("consts"),
    ],
    batch,
    &[
        "(n: i32[], w: f64[2], i: i32[], x: f64[2]) { m, y = while[cond_body=<(n: i32[], w: f64[2], i: i32[], x: f64[2]) { c = lt i, n return c } | (n: i32[], w: f64[2], i: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] j = add i, one p = mul w, x y = sin p return j, y }>, consts=2] n, w, i, x return m, y }",
        // No constants, and a state that is active only after the first turn.
        "(n: i32[], x: f64[], y: f64[]) { m, a, b = while[cond_body=<(n: i32[], x: f64[], y: f64[]) { zero = full[shape=[], value=0, dtype=i32] c = gt n, zero return c } | (n: i32[], x: f64[], y: f64[]) { one = full[shape=[], value=1, dtype=i32] m = sub n, one a = mul x, y b = sin x return m, b, a }>, consts=0] n, x, y return m, a, b }",
    ]
);

/// The static arguments of a `while`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `consts..., carry... -> whether to go on`.
    pub cond: &'a Program,
    /// `consts..., carry... -> carry...`.
    pub body: &'a Program,
    /// The number of operands that are the same in each turn.
    pub consts: usize,
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `while`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        let programs = statics[0].programs().expect("a loop has programs");
        Parts {
            cond: &programs[0],
            body: &programs[1],
            consts: count(statics, 1),
        }
    }
}

pub(crate) fn statics(b: &mut Builder, programs: Vec<Program>, counts: &[usize]) -> Vec<Attr> {
    let programs = b.attr(Programs::new(programs));
    let counts = counts.iter().map(|n| b.attr(*n as i64));
    [programs].into_iter().chain(counts).collect()
}

/// Returns an error unless a condition is a `bool` of rank 0.
pub(crate) fn check_condition(cond: &Program) -> Result<(), Fault> {
    check_number(cond.outs.len(), 1)?;
    let found = cond.aval(cond.outs[0]);
    check_aval("the condition", found, &Aval::new(DType::Bool, &[]))
}

/// Returns which values of a loop are marked, if the results of a turn mark the states.
pub(crate) fn marks(
    mut marks: Vec<bool>,
    consts: usize,
    after: impl Fn(&[bool]) -> Vec<bool>,
) -> Vec<bool> {
    let first = marks[consts..].to_vec();
    let last = body::fixpoint(first, |carry| {
        marks[consts..].copy_from_slice(carry);
        after(&marks)[..carry.len()].to_vec()
    });
    marks[consts..].copy_from_slice(&last);
    marks
}

impl Control for While {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts { cond, body, consts } = Parts::of(statics);
        check_condition(cond)?;
        let expected = avals(body, &body.params);
        check_args(args, &expected)?;
        let in_cond = avals(cond, &cond.params);
        check_args(&in_cond.iter().collect::<Vec<_>>(), &expected)?;
        let outs = avals(body, &body.outs);
        check_number(consts, consts.min(expected.len()))?;
        check_args(&outs.iter().collect::<Vec<_>>(), &expected[consts..])?;
        Ok(outs)
    }
}

impl While {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let Parts { cond, body, consts } = Parts::of(of.statics);
        let mut args = of.args.to_vec();
        while crate::op::evaluate(cond, &args)[0].data[0] != 0.0 {
            let outs = crate::op::evaluate(body, &args);
            args.splice(consts.., outs);
        }
        args.split_off(consts)
    }
}

/// Lanes run until the condition of the last one is false. A lane that has ended keeps its states.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let values = of.statics();
    let Parts { cond, body, consts } = Parts::of(&values);
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let after =
        |marks: &[bool]| body::lanes(body, marks, &none, of.batching()).map(|(_, each)| each);
    after(&each)?;
    let mut each = marks(each, consts, |marks| {
        after(marks).unwrap_or_else(|| none.clone())
    });
    let (_, ends) = body::lanes(cond, &each, &[false], of.batching())?;
    if ends[0] {
        each[consts..].fill(true);
    }
    let (mut cond_all, _) = body::lanes(cond, &each, &[ends[0]], of.batching())?;
    let (mut body_all, _) = body::lanes(body, &each, &each[consts..], of.batching())?;
    if ends[0] {
        body_all = kept_after_end(&cond_all, &body_all, consts);
        cond_all = any_lane(&cond_all);
    }
    let args = of.marked(b, &each);
    let attrs = statics(b, vec![cond_all, body_all], &[consts]);
    let outs = b.emit_many(Op::While, &attrs, &args?, of.eqn.outs.len());
    Some(Lane::marked(outs, &each[consts..]))
}

/// Returns whether the condition of any lane is true.
pub(crate) fn any_lane(cond: &Program) -> Program {
    let mut b = Builder::after(cond);
    cond.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let statics = [b.attr(Static::All), b.attr(false)];
    let any = b.emit(Op::Any, &statics, &[cond.outs[0]]);
    b.finish(cond.params.clone(), vec![any])
}

/// Returns the body of a loop on lanes, in which lanes whose condition is false keep their states.
pub(crate) fn kept_after_end(cond: &Program, body: &Program, consts: usize) -> Program {
    let mut b = Builder::new();
    let params: Vec<Var> = body
        .params
        .iter()
        .map(|x| b.param(body.aval(*x).clone()))
        .collect();
    let goes_on = body::inline(&mut b, cond, &params)[0];
    let outs = body::inline(&mut b, body, &params);
    let states = &params[consts..];
    let kept = outs.iter().enumerate().map(|(i, out)| match states.get(i) {
        Some(state) => body::select_lanes(&mut b, goes_on, *out, *state),
        // What is taped of a turn that a lane does not take is not read.
        None => *out,
    });
    let kept = kept.collect();
    b.finish(params, kept)
}
