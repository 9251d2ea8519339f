use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::log1p;

unary_fns! { |x| log1p::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "log1p",
    fns: FNS,
    // dy = dx / (1 + x)
    rule: UnaryRule::Tangent(|b, x, _, dx| {
        let one = b.scalar(1.0, x);
        let below = b.add(x, one);
        b.div(dx, below)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x())
        .steep_unless(|of, _| of.x().at_least_0, 0.0),
    domain: (-0.5, 2.0),
};
