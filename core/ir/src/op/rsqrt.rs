use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| 1.0 / x.sqrt() }

pub(super) static OP: Unary = Unary {
    name: "rsqrt",
    fns: FNS,
    // dy = -dx y^3 / 2
    rule: UnaryRule::Factor(|b, _, y| {
        let y2 = b.mul(y, y);
        let y3 = b.mul(y2, y);
        let half = b.scalar(-0.5, y);
        b.mul(half, y3)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .range(|of| of.x().unbounded())
        .steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
