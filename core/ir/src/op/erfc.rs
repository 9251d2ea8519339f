use super::{Count, OpFacts, Unary, UnaryRule, special};
use gradloom_maths::erfc;
use std::f64::consts::FRAC_2_SQRT_PI;

unary_fns! { |x| erfc::<A, _>(x) }

/// `1 - erf(x)`, accurate where `erf(x)` is close to 1.
pub(super) static OP: Unary = Unary {
    name: "erfc",
    fns: FNS,
    // dy = -dx 2 / sqrt(pi) exp(-x^2)
    rule: UnaryRule::Factor(|b, x, _| special::bell(b, -FRAC_2_SQRT_PI, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|of| of.x().positive()),
    domain: (-2.0, 2.0),
};
