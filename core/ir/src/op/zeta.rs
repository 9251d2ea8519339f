use super::gammainc::slope;
use super::{Binary, BinaryRule, Count, OpFacts};
use crate::Op;
use gradloom_maths::zeta;

binary_fns! { |x, y| zeta::<A, _>(x, y) }

// dz = ds zeta_ds(s, q, 1) - dq s zeta(s + 1, q)
pub(super) static OP: Binary = Binary {
    name: "zeta",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, ds| {
            let slope = slope(b, eqn, Op::ZetaDs, 1.0);
            b.mul(ds, slope)
        },
        right: |b, eqn, dq| {
            let (s, q) = (eqn.args[0], eqn.args[1]);
            let one = b.scalar(1.0, s);
            let next = b.add(s, one);
            let next = b.binary(Op::Zeta, next, q);
            let slope = b.mul(s, next);
            let part = b.mul(dq, slope);
            b.neg(part)
        },
        transpose: None,
    },
    count: Count::each(100, 14),
    facts: OpFacts::ELEMENTWISE,
    domain: (1.2, 3.0),
};
