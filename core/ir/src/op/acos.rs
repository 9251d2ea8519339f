use super::{Count, OpFacts, Range, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::acos;

unary_fns! { |x| acos::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "acos",
    fns: FNS,
    // dy = -dx / sqrt((1 - x) (1 + x)), infinite at both ends.
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let below = b.sub(one, x);
        let above = b.add(one, x);
        let product = b.mul(below, above);
        let slope = b.unary(Op::Rsqrt, product);
        b.neg(slope)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| Range {
            at_least_0: true,
            ..of.x().unknown().bounded()
        })
        .steep_unless(|_, _| false, 0.0),
    domain: (-0.8, 0.8),
};
