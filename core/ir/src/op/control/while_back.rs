//! `while_back`: reverse mode of a loop with a condition.

use super::body;
use super::while_loop::{check_condition, kept_after_end, marks, statics};
use super::{Control, avals, check_args, check_number, control_op, count};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, Fault, Op, Program, Static, StaticKind, Var};

/// `back... = while_back[cond and forward and backward, consts, carry] consts..., carry..., back...`.
///
/// While `consts..., carry... -> whether to go on` says so, `consts..., carry... -> carry..., taped...`
/// replaces the states. Then, for each of these turns and the last first,
/// `consts..., taped..., back... -> back...` replaces the states of the way back.
pub(crate) struct WhileBack;

control_op!(
    WhileBack,
    "while_back",
    &[
        StaticKind::Programs.named("cond_forward_backward"),
        StaticKind::Count.named("consts"),
        StaticKind::Count.named("carry"),
    ],
    batch,
    &[
        "(n: i32[], w: f64[2], x: f64[2], ct: f64[2]) { a = while_back[cond_forward_backward=<(w: f64[2], n: i32[], x: f64[2]) { zero = full[shape=[], value=0, dtype=i32] c = gt n, zero return c } | (w: f64[2], n: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] m = sub n, one y = mul x, w return m, y, x } | (w: f64[2], x: f64[2], ct: f64[2]) { a = mul ct, w b = mul a, x return b }>, consts=1, carry=2] w, n, x, ct return a }",
    ]
);

/// The static arguments of a `while_back`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `consts..., carry... -> whether to go on`.
    pub cond: &'a Program,
    /// `consts..., carry... -> carry..., taped...`.
    pub forward: &'a Program,
    /// `consts..., taped..., back... -> back...`.
    pub backward: &'a Program,
    /// The number of operands that are the same in each turn.
    pub consts: usize,
    /// The number of states of the way forward.
    pub carry: usize,
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `while_back`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        let programs = statics[0].programs().expect("a loop has programs");
        Parts {
            cond: &programs[0],
            forward: &programs[1],
            backward: &programs[2],
            consts: count(statics, 1),
            carry: count(statics, 2),
        }
    }
}

impl Control for WhileBack {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts {
            cond,
            forward,
            backward,
            consts,
            carry,
        } = Parts::of(statics);
        check_condition(cond)?;
        let outs = avals(backward, &backward.outs);
        check_number(args.len(), consts + carry + outs.len())?;
        let there = avals(forward, &forward.params);
        check_args(&args[..consts + carry], &there)?;
        let found = avals(forward, &forward.outs);
        let back = [&there[..consts], &found[carry.min(found.len())..], &outs].concat();
        check_args(
            &back.iter().collect::<Vec<_>>(),
            &avals(backward, &backward.params),
        )?;
        check_args(&args[consts + carry..], &outs)?;
        Ok(outs)
    }

    fn is_reversible(&self) -> bool {
        false
    }
}

impl WhileBack {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let Parts {
            cond,
            forward,
            backward,
            consts,
            carry,
        } = Parts::of(of.statics);
        let (there, back) = of.args.split_at(consts + carry);
        let (mut there, mut back) = (there.to_vec(), back.to_vec());
        let mut tape = Vec::new();
        while crate::op::evaluate(cond, &there)[0].data[0] != 0.0 {
            let mut outs = crate::op::evaluate(forward, &there);
            tape.push(outs.split_off(carry));
            there.splice(consts.., outs);
        }
        for taped in tape.iter().rev() {
            let args = there[..consts].iter().chain(taped).chain(&back).cloned();
            back = crate::op::evaluate(backward, &args.collect::<Vec<_>>());
        }
        back
    }
}

/// Lanes run until the condition of the last one is false, and tape whether theirs was true.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let values = of.statics();
    let Parts {
        cond,
        forward,
        backward,
        consts,
        carry,
    } = Parts::of(&values);
    let n_there = consts + carry;
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; forward.outs.len()];
    let after =
        |marks: &[bool]| body::lanes(forward, marks, &none, of.batching()).map(|(_, each)| each);
    after(&each[..n_there])?;
    let start = each[..n_there].to_vec();
    let mut there = marks(start, consts, |marks| {
        after(marks).unwrap_or_else(|| none.clone())
    });
    let (_, ends) = body::lanes(cond, &there, &[false], of.batching())?;
    if ends[0] {
        there[consts..].fill(true);
    }
    let (mut cond_all, _) = body::lanes(cond, &there, &[ends[0]], of.batching())?;
    let mut forced = none.clone();
    forced[..carry].copy_from_slice(&there[consts..]);
    let (mut forward_all, taped_each) = body::lanes(forward, &there, &forced, of.batching())?;

    let fixed = [&there[..consts], &taped_each[carry..]].concat();
    let none = vec![false; backward.outs.len()];
    let after =
        |marks: &[bool]| body::lanes(backward, marks, &none, of.batching()).map(|(_, each)| each);
    let start = [&fixed, &each[n_there..]].concat();
    after(&start)?;
    let mut back = marks(start, fixed.len(), |marks| {
        after(marks).unwrap_or_else(|| none.clone())
    });
    if ends[0] {
        back[fixed.len()..].fill(true);
    }
    let (mut backward_all, _) = body::lanes(backward, &back, &back[fixed.len()..], of.batching())?;
    if ends[0] {
        // The condition of each lane is taped first.
        let mut taping = Builder::new();
        let params: Vec<Var> = forward_all
            .params
            .iter()
            .map(|x| taping.param(forward_all.aval(*x).clone()))
            .collect();
        let goes_on = body::inline(&mut taping, &cond_all, &params)[0];
        let kept = kept_after_end(&cond_all, &forward_all, consts);
        let mut outs = body::inline(&mut taping, &kept, &params);
        outs.insert(carry, goes_on);
        forward_all = taping.finish(params, outs);

        let mut masked = Builder::new();
        let mut params: Vec<Var> = backward_all
            .params
            .iter()
            .map(|x| masked.param(backward_all.aval(*x).clone()))
            .collect();
        let outs = body::inline(&mut masked, &backward_all, &params);
        let states = params[fixed.len()..].to_vec();
        let goes_on = masked.param(cond_all.aval(cond_all.outs[0]).clone());
        params.insert(consts, goes_on);
        let outs = outs.iter().zip(&states);
        let outs = outs.map(|(out, state)| body::select_lanes(&mut masked, goes_on, *out, *state));
        let outs = outs.collect();
        backward_all = masked.finish(params, outs);
        cond_all = super::while_loop::any_lane(&cond_all);
    }
    let marked = [&there[..], &back[fixed.len()..]].concat();
    let args = of.marked(b, &marked);
    let attrs = statics(
        b,
        vec![cond_all, forward_all, backward_all],
        &[consts, carry],
    );
    let outs = b.emit_many(Op::WhileBack, &attrs, &args?, of.eqn.outs.len());
    Some(Lane::marked(outs, &back[fixed.len()..]))
}
