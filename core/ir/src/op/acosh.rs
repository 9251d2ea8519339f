use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::acosh;

unary_fns! { |x| acosh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "acosh",
    fns: FNS,
    // dy = dx / (sqrt(x - 1) sqrt(x + 1)), infinite at 1, and NaN below.
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let below = b.sub(x, one);
        let above = b.add(x, one);
        let [below, above] = [below, above].map(|part| b.unary(Op::Rsqrt, part));
        b.mul(below, above)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE,
    domain: (1.5, 3.0),
};
