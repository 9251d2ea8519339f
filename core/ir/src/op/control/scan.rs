//! `scan`: a loop with a known number of turns.

use super::body;
use super::{Control, avals, check_args, check_number, control_op, count, programs, stacked};
use crate::op::lanes::{self, Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, Eqn, Fault, Op, Program, Programs, Static, StaticKind, Var};

/// `carry..., ys... = scan[body, turns, consts, carry, reverse] consts..., carry..., xs...`.
///
/// The body is `consts..., carry..., slices of xs... -> carry..., slices of ys...`. Its turns go
/// through the slices along axis 0, in reverse if `reverse` is true.
pub(crate) struct Scan;

control_op!(
    Scan,
    "scan",
    &[
        StaticKind::Programs.named("body"),
        StaticKind::Count.named("turns"),
        StaticKind::Count.named("consts"),
        StaticKind::Count.named("carry"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    batch,
    &[
        "(w: f64[2], c: f64[2], xs: f64[3, 2]) { h, ys = scan[body=<(w: f64[2], c: f64[2], x: f64[2]) { a = mul w, c b = add a, x h = tanh b y = mul h, x return h, y }>, turns=3, consts=1, carry=1, reverse=false] w, c, xs return h, ys }",
        "(c: f64[], xs: f64[2]) { h = scan[body=<(c: f64[], x: f64[]) { a = mul c, x return a }>, turns=2, consts=0, carry=1, reverse=true] c, xs return h }",
        // A state without a tangent gets one from another.
        "(k: f64[], a: f64[2], b: f64[2]) { p, q = scan[body=<(k: f64[], a: f64[2], b: f64[2]) { c = mul k, b d = sin a return c, d }>, turns=3, consts=1, carry=2, reverse=false] k, a, b return p, q }",
        // A counter beside a state, and a stacked result that is a residual.
        "(n: i32[], c: f64[2], xs: f64[3]) { m, h, ys = scan[body=<(n: i32[], c: f64[2], x: f64[]) { m = add n, n a = mul c, x h = exp a i = sum[axes=all, keepdims=false] h, like h return m, a, h }>, turns=3, consts=0, carry=2, reverse=false] n, c, xs return m, h, ys }",
        // No turns, and no states.
        "(c: f64[2], xs: f64[0, 2]) { h, ys = scan[body=<(c: f64[2], x: f64[2]) { a = mul c, x return a, x }>, turns=0, consts=0, carry=1, reverse=false] c, xs return h, ys }",
        "(w: f64[2], xs: f64[2, 2]) { ys = scan[body=<(w: f64[2], x: f64[2]) { y = div x, w return y }>, turns=2, consts=1, carry=0, reverse=false] w, xs return ys }",
        // A loop in a loop.
        "(c: f64[2], xs: f64[2, 3, 2]) { h = scan[body=<(c: f64[2], x: f64[3, 2]) { h, y = scan[body=<(c: f64[2], x: f64[2]) { a = mul c, x h = sin a return h, a }>, turns=3, consts=0, carry=1, reverse=true] c, x return h }>, turns=2, consts=0, carry=1, reverse=false] c, xs return h }",
    ]
);

/// The static arguments of a `scan`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `consts..., carry..., slices of xs... -> carry..., slices of ys...`.
    pub body: &'a Program,
    /// The number of turns.
    pub turns: usize,
    /// The number of operands that are the same in each turn.
    pub consts: usize,
    /// The number of values that each turn replaces.
    pub carry: usize,
    /// Whether the last slices come first.
    pub reverse: bool,
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `scan`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        Parts {
            body: &statics[0].programs().expect("a scan has a body")[0],
            turns: count(statics, 1),
            consts: count(statics, 2),
            carry: count(statics, 3),
            reverse: statics[4].bool() == Some(true),
        }
    }
}

/// A `scan` in which the operands and results of a kind are together.
pub(crate) struct Loop {
    pub(crate) body: Program,
    pub(crate) turns: usize,
    pub(crate) reverse: bool,
    /// Numbers of constants, states and stacked operands.
    pub(crate) lens: [usize; 3],
}

impl Loop {
    pub(crate) fn of(b: &Builder, eqn: &Eqn) -> Loop {
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| b.static_of(*a).clone()).collect();
        let parts = Parts::of(&statics);
        Loop {
            turns: parts.turns,
            reverse: parts.reverse,
            lens: [
                parts.consts,
                parts.carry,
                eqn.args.len() - parts.consts - parts.carry,
            ],
            body: programs(b, eqn).remove(0),
        }
    }

    pub(crate) fn n_carry(&self) -> usize {
        self.lens[1]
    }

    /// Returns which states are marked, if a turn marks those that its results `after` tell.
    pub(crate) fn marks(
        &self,
        mut marks: Vec<bool>,
        after: impl Fn(&[bool]) -> Vec<bool>,
    ) -> Vec<bool> {
        let states = self.lens[0]..self.lens[0] + self.lens[1];
        let first = marks[states.clone()].to_vec();
        let last = body::fixpoint(first, |carry| {
            marks[states.clone()].copy_from_slice(carry);
            after(&marks)[..carry.len()].to_vec()
        });
        marks[states].copy_from_slice(&last);
        marks
    }

    pub(crate) fn statics(
        &self,
        b: &mut Builder,
        body: Program,
        consts: usize,
        carry: usize,
    ) -> Vec<crate::Attr> {
        let counts = [self.turns, consts, carry].map(|n| Static::Int(n as i64));
        let [turns, consts, carry] = counts;
        let statics = [
            Programs::new(vec![body]).into(),
            turns,
            consts,
            carry,
            self.reverse.into(),
        ];
        statics.map(|value| b.attr(value)).to_vec()
    }
}

impl Control for Scan {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts {
            body,
            turns,
            consts,
            carry,
            ..
        } = Parts::of(statics);
        check_number(args.len(), body.params.len())?;
        check_number(consts + carry, (consts + carry).min(args.len()))?;
        let mut expected = avals(body, &body.params);
        expected[consts + carry..]
            .iter_mut()
            .for_each(|x| *x = stacked(x, turns));
        check_args(args, &expected)?;
        let mut outs = avals(body, &body.outs);
        check_number(carry, carry.min(outs.len()))?;
        let states: Vec<&Aval> = outs[..carry].iter().collect();
        check_args(&states, &expected[consts..][..carry])?;
        outs[carry..]
            .iter_mut()
            .for_each(|y| *y = stacked(y, turns));
        Ok(outs)
    }
}

impl Scan {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let Parts {
            body,
            turns,
            consts,
            carry,
            reverse,
        } = Parts::of(of.statics);
        let (same, rest) = of.args.split_at(consts);
        let (init, xs) = rest.split_at(carry);
        let mut state = init.to_vec();
        let mut ys: Vec<NdArray> = of.outs[carry..].iter().map(|y| NdArray::zeros(y)).collect();
        for turn in 0..turns {
            let i = if reverse { turns - 1 - turn } else { turn };
            let slices = xs.iter().map(|x| x.slice(i));
            let args: Vec<NdArray> = same.iter().chain(&state).cloned().chain(slices).collect();
            let mut outs = crate::op::evaluate(body, &args);
            for (all, y) in ys.iter_mut().zip(outs.split_off(carry)) {
                all.set_slice(i, &y);
            }
            state = outs;
        }
        state.into_iter().chain(ys).collect()
    }
}

/// Emits the turns of a `scan` one after the other, and returns its results.
///
/// Returns `None` if it has no turns.
pub(crate) fn unroll(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let of = Loop::of(b, eqn);
    if of.turns == 0 {
        return None;
    }
    let [same, mut state, xs] = body::parts(&eqn.args, of.lens);
    let axis = b.attr(0);
    let mut ys: Vec<Vec<Var>> = vec![Vec::new(); eqn.outs.len() - state.len()];
    for turn in 0..of.turns {
        let at = if of.reverse {
            of.turns - 1 - turn
        } else {
            turn
        };
        let at = b.attr(at as i64);
        let mut args = [&same[..], &state].concat();
        args.extend(
            xs.iter()
                .map(|x| b.emit(Op::SelectIndex, &[axis, at], &[*x, *x])),
        );
        let outs = body::inline(b, &of.body, &args);
        let (next, slices) = outs.split_at(state.len());
        ys.iter_mut().zip(slices).for_each(|(all, y)| all.push(*y));
        state = next.to_vec();
    }
    let stacked = ys.into_iter().map(|mut slices| {
        if of.reverse {
            slices.reverse();
        }
        b.emit(Op::Stack, &[axis], &slices)
    });
    Some(state.into_iter().chain(stacked).collect())
}

/// Lanes run in the same turns. A state differs between lanes if it does after some turn.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let Parts {
        body,
        turns,
        consts,
        carry,
        reverse,
    } = Parts::of(&statics);
    let of_loop = Loop {
        body: body.clone(),
        turns,
        reverse,
        lens: [consts, carry, of.args.len() - consts - carry],
    };
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let marks =
        |marks: &[bool]| body::lanes(body, marks, &none, of.batching()).map(|(_, each)| each);
    marks(&each)?;
    let each = of_loop.marks(each, |each| marks(each).unwrap_or_else(|| none.clone()));
    let mut forced = none.clone();
    forced[..carry].copy_from_slice(&each[consts..][..carry]);
    let (program, outs_each) = body::lanes(body, &each, &forced, of.batching())?;
    let mut args = Vec::with_capacity(of.args.len());
    for (i, each) in each.iter().enumerate() {
        args.push(match each {
            true if i < consts + carry => of.each(b, i)?,
            true => lanes::swap_first(b, of.args[i].var(), 1),
            false => of.args[i].var(),
        });
    }
    let attrs = of_loop.statics(b, program, consts, carry);
    let outs = b.emit_many(Op::Scan, &attrs, &args, of.eqn.outs.len());
    let lane = |(i, (out, each)): (usize, (Var, bool))| match each {
        false => Lane::Shared(out),
        true if i < carry => Lane::Each(out),
        true => Lane::Each(lanes::swap_first(b, out, 1)),
    };
    Some(
        outs.into_iter()
            .zip(outs_each)
            .enumerate()
            .map(lane)
            .collect(),
    )
}
