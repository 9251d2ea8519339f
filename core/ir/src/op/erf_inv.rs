use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::erf_inv;
use std::f64::consts::FRAC_2_SQRT_PI;

unary_fns! { |x| erf_inv::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "erf_inv",
    fns: FNS,
    // dy = dx sqrt(pi) / 2 exp(y^2), infinite at both ends.
    rule: UnaryRule::Factor(|b, _, y| {
        let scale = b.scalar(1.0 / FRAC_2_SQRT_PI, y);
        let y2 = b.mul(y, y);
        let exp = b.unary(Op::Exp, y2);
        b.mul(scale, exp)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().unbounded())
        .steep_unless(|_, _| false, 0.0),
    domain: (-0.7, 0.7),
};
