use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::sinh;

unary_fns! { |x| sinh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "sinh",
    fns: FNS,
    // dy = dx cosh(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Cosh, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|of| of.x()),
    domain: (-2.0, 2.0),
};
