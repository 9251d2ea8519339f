use super::{Count, OpFacts, Unary, UnaryRule, special};
use crate::Op;
use gradloom_maths::gelu;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

unary_fns! { |x| gelu::<A, _>(x) }

/// `x P(x)` with the normal distribution `P`, computed exactly; `gelu_tanh` approximates it.
pub(super) static OP: Unary = Unary {
    name: "gelu",
    fns: FNS,
    // With the distribution function P and the density p of the normal distribution,
    //     y = x P(x),  P(x) = erfc(-x / sqrt(2)) / 2,  p(x) = exp(-x^2 / 2) / sqrt(2 pi),
    //     dy = dx (P(x) + x p(x)).
    rule: UnaryRule::Factor(|b, x, _| {
        let half = b.scalar(0.5, x);
        let scale = b.scalar(-FRAC_1_SQRT_2, x);
        let u = b.mul(x, scale);
        let erfc = b.unary(Op::Erfc, u);
        let distribution = b.mul(half, erfc);
        let density = special::bell(b, 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2, u);
        let slope = b.mul(x, density);
        b.add(distribution, slope)
    }),
    count: Count::each(4, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
