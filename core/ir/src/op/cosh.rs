use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::cosh;

unary_fns! { |x| cosh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "cosh",
    fns: FNS,
    // dy = dx sinh(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Sinh, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|of| of.x().positive()),
    domain: (-2.0, 2.0),
};
