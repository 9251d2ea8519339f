use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::erfcx;
use std::f64::consts::FRAC_2_SQRT_PI;

unary_fns! { |x| erfcx::<A, _>(x) }

/// `exp(x^2) erfc(x)`, which decreases as `1 / (x sqrt(pi))`.
pub(super) static OP: Unary = Unary {
    name: "erfcx",
    fns: FNS,
    // dy = dx (2 x y - 2 / sqrt(pi))
    rule: UnaryRule::Factor(|b, x, y| {
        let product = b.mul(x, y);
        let twice = b.add(product, product);
        let slope = b.scalar(FRAC_2_SQRT_PI, x);
        b.sub(twice, slope)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE,
    domain: (-2.0, 2.0),
};
