use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::{fast_sin, in_fast_range, sin};

unary_fns! { |x| sin::<A, _>(x), if all(in_fast_range(x)) fast_sin::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "sin",
    fns: FNS,
    // dy = dx cos(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Cos, x)),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().unknown().bounded())
        .fast("fast_sin"),
    domain: (-3.0, 3.0),
};
