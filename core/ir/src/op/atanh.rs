use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::atanh;

unary_fns! { |x| atanh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "atanh",
    fns: FNS,
    // dy = dx / ((1 - x) (1 + x)), infinite at both ends.
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let below = b.sub(one, x);
        let above = b.add(one, x);
        let product = b.mul(below, above);
        b.unary(Op::Reciprocal, product)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().unbounded())
        .steep_unless(|_, _| false, 0.0),
    domain: (-0.7, 0.7),
};
