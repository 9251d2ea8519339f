use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::lgamma;

unary_fns! { |x| lgamma::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "lgamma",
    fns: FNS,
    // dy = dx digamma(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Digamma, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
