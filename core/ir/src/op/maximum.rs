use super::{Binary, BinaryRule, Count, OpFacts};
use crate::{Builder, Op, Var};

binary_fns! { |x, y| if x > y || x.is_nan() { x } else { y },
int |x, y| x.max(y), bool |x, y| x | y }

/// The larger of two elements; NaN if either is NaN.
pub(super) static OP: Binary = Binary {
    name: "maximum",
    fns: FNS,
    // dz = dx where x is the larger, dy where y is, and half of each at a tie.
    rule: BinaryRule {
        left: |b, eqn, dx| share(b, Op::Gt, eqn.args[0], eqn.args[1], dx),
        right: |b, eqn, dy| share(b, Op::Gt, eqn.args[1], eqn.args[0], dy),
        transpose: None,
    },
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .rises()
        .cheap()
        // It is a limit, so the user has considered the values beyond it.
        .range(|of| of.all().guarded()),
    domain: (-2.0, 2.0),
};

/// Emits the tangent `d` of `x` where `beats x, other` holds, half of it at a tie, and 0 elsewhere.
pub(super) fn share(b: &mut Builder, beats: Op, x: Var, other: Var, d: Var) -> Var {
    let zero = b.scalar(0.0, x);
    let half = b.scalar(0.5, x);
    let half = b.mul(d, half);
    let tie = b.binary(Op::Eq, x, other);
    let elsewhere = b.select(tie, half, zero);
    let wins = b.binary(beats, x, other);
    b.select(wins, d, elsewhere)
}
