use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| 1.0 / x }

pub(super) static OP: Unary = Unary {
    name: "reciprocal",
    fns: FNS,
    // dy = -dx y^2
    rule: UnaryRule::Factor(|b, _, y| {
        let y2 = b.mul(y, y);
        b.neg(y2)
    }),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .exact()
        .range(|of| of.x().unbounded())
        .steep_unless(|of, _| of.x().not_0, 1.0),
    domain: (0.5, 2.0),
};
