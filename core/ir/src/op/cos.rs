use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::{cos, fast_cos, in_fast_range};

unary_fns! { |x| cos::<A, _>(x), if all(in_fast_range(x)) fast_cos::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "cos",
    fns: FNS,
    // dy = -dx sin(x)
    rule: UnaryRule::Factor(|b, x, _| {
        let sin = b.unary(Op::Sin, x);
        b.neg(sin)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().unknown().bounded())
        .fast("fast_cos"),
    domain: (-3.0, 3.0),
};
