use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::mish;

unary_fns! { |x| mish::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "mish",
    fns: FNS,
    // With t = tanh(softplus(x)): dy = dx (t + x (1 - t^2) sigmoid(x)).
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let softplus = b.unary(Op::Softplus, x);
        let t = b.unary(Op::Tanh, softplus);
        let s = b.unary(Op::Sigmoid, x);
        let t2 = b.mul(t, t);
        let rest = b.sub(one, t2);
        let slope = b.mul(rest, s);
        let bend = b.mul(x, slope);
        b.add(t, bend)
    }),
    count: Count::each(3, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
