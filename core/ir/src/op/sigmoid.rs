use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::sigmoid;

unary_fns! { |x| sigmoid::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "sigmoid",
    fns: FNS,
    // dy = dx y (1 - y)
    rule: UnaryRule::Factor(|b, _, y| {
        let one = b.scalar(1.0, y);
        let rest = b.sub(one, y);
        b.mul(y, rest)
    }),
    count: Count::each(3, 1),
    facts: OpFacts::ELEMENTWISE
        .rises()
        .range(|of| of.x().positive().bounded()),
    domain: (-3.0, 3.0),
};
