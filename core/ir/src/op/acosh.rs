use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::acosh;

unary_fns! { |x| acosh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "acosh",
    fns: FNS,
    // dy = dx / sqrt((x - 1) (x + 1)), infinite at 1.
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let below = b.sub(x, one);
        let above = b.add(x, one);
        let product = b.mul(below, above);
        b.unary(Op::Rsqrt, product)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE,
    domain: (1.5, 3.0),
};
