use super::{Binary, BinaryRule, Count, OpFacts, maximum::share};
use crate::Op;

binary_fns! { |x, y| if x < y || x.is_nan() { x } else { y },
int |x, y| x.min(y), bool |x, y| x & y }

/// The smaller of two elements; NaN if either is NaN.
pub(super) static OP: Binary = Binary {
    name: "minimum",
    fns: FNS,
    // dz = dx where x is the smaller, dy where y is, and half of each at a tie.
    rule: BinaryRule {
        left: |b, eqn, dx| share(b, Op::Lt, eqn.args[0], eqn.args[1], dx),
        right: |b, eqn, dy| share(b, Op::Lt, eqn.args[1], eqn.args[0], dy),
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
