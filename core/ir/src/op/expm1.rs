use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::expm1;

unary_fns! { |x| expm1::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "expm1",
    fns: FNS,
    // dy = dx exp(x). The equal dx (y + 1) would lose all digits where y is close to -1.
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Exp, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x())
        .steep_unless(|of, _| of.x().at_most_0 || of.x().bounded, 0.0),
    domain: (-2.0, 2.0),
};
