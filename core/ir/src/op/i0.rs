use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::i0;

unary_fns! { |x| i0::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "i0",
    fns: FNS,
    // dy = dx I1(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::I1, x)),
    count: Count::each(70, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
