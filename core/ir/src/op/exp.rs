use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::exp;

unary_fns! { |x| exp::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "exp",
    fns: FNS,
    // dy = dx y
    rule: UnaryRule::Factor(|_, _, y| y),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .rises()
        .range(|of| of.x().positive())
        .steep_unless(|of, _| of.x().at_most_0 || of.x().bounded, 0.0),
    domain: (-2.0, 2.0),
};
