use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| x.sqrt() }

pub(super) static OP: Unary = Unary {
    name: "sqrt",
    fns: FNS,
    // dy = dx / (2 y), infinite at 0.
    rule: UnaryRule::Tangent(|b, _, y, dx| {
        let twice = b.add(y, y);
        b.div(dx, twice)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE
        .exact()
        .range(|of| of.x())
        .steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
