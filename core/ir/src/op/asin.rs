use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::asin;

unary_fns! { |x| asin::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "asin",
    fns: FNS,
    // dy = dx / sqrt((1 - x) (1 + x)), infinite at both ends.
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let below = b.sub(one, x);
        let above = b.add(one, x);
        let product = b.mul(below, above);
        b.unary(Op::Rsqrt, product)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().bounded())
        .steep_unless(|_, _| false, 0.0),
    domain: (-0.8, 0.8),
};
