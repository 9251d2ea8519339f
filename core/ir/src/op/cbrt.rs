use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::cbrt;

unary_fns! { |x| cbrt::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "cbrt",
    fns: FNS,
    // dy = dx / (3 y^2), infinite at 0.
    rule: UnaryRule::Tangent(|b, _, y, dx| {
        let three = b.scalar(3.0, y);
        let y2 = b.mul(y, y);
        let slope = b.mul(three, y2);
        b.div(dx, slope)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x())
        .steep_unless(|of, _| of.x().not_0, 1.0),
    domain: (0.5, 3.0),
};
