use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::log;

unary_fns! { |x| log::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "log",
    fns: FNS,
    // dy = dx / x
    rule: UnaryRule::Tangent(|b, x, _, dx| b.div(dx, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
