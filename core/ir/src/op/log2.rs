use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::log2;
use std::f64::consts::LN_2;

unary_fns! { |x| log2::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "log2",
    fns: FNS,
    // dy = dx / (x log 2)
    rule: UnaryRule::Tangent(|b, x, _, dx| {
        let base = b.scalar(LN_2, x);
        let slope = b.mul(x, base);
        b.div(dx, slope)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
