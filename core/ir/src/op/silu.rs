use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::sigmoid;

unary_fns! { |x| if x < -800.0 { -0.0 } else { x * sigmoid::<A, _>(x) } }

pub(super) static OP: Unary = Unary {
    name: "silu",
    fns: FNS,
    // With s = sigmoid(x): dy = dx s (1 + x (1 - s)).
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let s = b.unary(Op::Sigmoid, x);
        let rest = b.sub(one, s);
        let bend = b.mul(x, rest);
        let sum = b.add(one, bend);
        b.mul(s, sum)
    }),
    count: Count::each(3, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
