use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::digamma;

unary_fns! { |x| digamma::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "digamma",
    fns: FNS,
    // dy = dx polygamma(x, 1)
    rule: UnaryRule::Factor(|b, x, _| {
        let first = b.scalar(1.0, x);
        b.binary(Op::Polygamma, x, first)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.6, 3.0),
};
