use super::{Binary, BinaryRule, Count, OpFacts};
use crate::Op;
use gradloom_maths::polygamma;

binary_fns! { |x, y| polygamma::<A, _>(x, y) }

/// The derivative of `digamma` of order `n`.
///
/// The order is rounded to an integer, so the slope in it is 0.
// dz = dx polygamma(x, n + 1)
pub(super) static OP: Binary = Binary {
    name: "polygamma",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            let one = b.scalar(1.0, eqn.args[1]);
            let next = b.add(eqn.args[1], one);
            let slope = b.binary(Op::Polygamma, eqn.args[0], next);
            b.mul(dx, slope)
        },
        right: |b, eqn, dn| {
            let zero = b.zeros_like(eqn.out());
            b.mul(dn, zero)
        },
        transpose: None,
    },
    count: Count::each(100, 14),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.6, 1.4),
};
