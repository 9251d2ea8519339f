use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::asinh;

unary_fns! { |x| asinh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "asinh",
    fns: FNS,
    // dy = dx / sqrt(1 + x^2)
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let x2 = b.mul(x, x);
        let sum = b.add(one, x2);
        b.unary(Op::Rsqrt, sum)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|of| of.x()),
    domain: (-2.0, 2.0),
};
