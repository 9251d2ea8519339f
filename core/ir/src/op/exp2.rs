use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::exp2;
use std::f64::consts::LN_2;

unary_fns! { |x| exp2::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "exp2",
    fns: FNS,
    // dy = dx y log 2
    rule: UnaryRule::Factor(|b, _, y| {
        let base = b.scalar(LN_2, y);
        b.mul(y, base)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().positive())
        .steep_unless(|of, _| of.x().at_most_0 || of.x().bounded, 0.0),
    domain: (-2.0, 2.0),
};
