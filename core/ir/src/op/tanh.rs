use super::{Count, OpFacts, Unary, UnaryRule};
use gradloom_maths::tanh;

unary_fns! { |x| tanh::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "tanh",
    fns: FNS,
    // dy = dx (1 - y^2). Needs y only, so x is not a residual.
    rule: UnaryRule::Factor(|b, _, y| {
        let one = b.scalar(1.0, y);
        let y2 = b.mul(y, y);
        b.sub(one, y2)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.rises().range(|of| of.x().bounded()),
    domain: (-2.0, 2.0),
};
