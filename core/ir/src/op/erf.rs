use super::{Count, Unary, UnaryRule, special};
use std::f64::consts::FRAC_2_SQRT_PI;

pub(super) static OP: Unary = Unary {
    name: "erf",
    fns: unary_fns!(in f64 special::erf),
    // dy = dx 2 / sqrt(pi) exp(-x^2)
    rule: UnaryRule::Factor(|b, x, _| special::bell(b, FRAC_2_SQRT_PI, x)),
    count: Count::TRANSCENDENTAL,
    domain: (-2.0, 2.0),
};
