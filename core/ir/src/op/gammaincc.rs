use super::gammainc::slope;
use super::{Binary, BinaryRule, Count, OpFacts};
use crate::Op;
use gradloom_maths::gammaincc;

binary_fns! { |x, y| gammaincc::<A, _>(x, y) }

// dz = -da gammainc_da(a, x, 1) - dx gamma_density(a, x, 0)
pub(super) static OP: Binary = Binary {
    name: "gammaincc",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, da| {
            let slope = slope(b, eqn, Op::GammaincDa, 1.0);
            let part = b.mul(da, slope);
            b.neg(part)
        },
        right: |b, eqn, dx| {
            let slope = slope(b, eqn, Op::GammaDensity, 0.0);
            let part = b.mul(dx, slope);
            b.neg(part)
        },
        transpose: None,
    },
    count: Count::each(200, 4),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.5, 3.0),
};
