use super::{Count, OpFacts, Unary, UnaryRule, special};
use gradloom_maths::erf;
use std::f64::consts::FRAC_2_SQRT_PI;

unary_fns! { |x| erf::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "erf",
    fns: FNS,
    // dy = dx 2 / sqrt(pi) exp(-x^2)
    rule: UnaryRule::Factor(|b, x, _| special::bell(b, FRAC_2_SQRT_PI, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|of| of.x().bounded()),
    domain: (-2.0, 2.0),
};
