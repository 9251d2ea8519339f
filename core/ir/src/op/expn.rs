use super::{Binary, BinaryRule, Count, OpFacts};
use crate::Op;
use gradloom_maths::expn;

binary_fns! { |x, y| expn::<A, _>(x, y) }

/// The generalised exponential integral of order `n`.
///
/// The order is rounded to an integer, so the slope in it is 0.
// dz = -dx expn(x, n - 1)
pub(super) static OP: Binary = Binary {
    name: "expn",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            let one = b.scalar(1.0, eqn.args[1]);
            let less = b.sub(eqn.args[1], one);
            let slope = b.binary(Op::Expn, eqn.args[0], less);
            let part = b.mul(dx, slope);
            b.neg(part)
        },
        right: |b, eqn, dn| {
            let zero = b.zeros_like(eqn.out());
            b.mul(dn, zero)
        },
        transpose: None,
    },
    count: Count::each(200, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.6, 1.4),
};
