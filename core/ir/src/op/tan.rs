use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::{fast_tan, in_fast_range, tan};

unary_fns! { |x| tan::<A, _>(x), if all(in_fast_range(x)) fast_tan::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "tan",
    fns: FNS,
    // dy = dx (1 + y^2)
    rule: UnaryRule::Factor(|b, _, y| {
        let one = b.scalar(1.0, y);
        let y2 = b.mul(y, y);
        b.add(one, y2)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.fast("fast_tan"),
    domain: (-1.0, 1.0),
};
