use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| x * x, int |x| x.wrapping_mul(x) }

pub(super) static OP: Unary = Unary {
    name: "square",
    fns: FNS,
    // dy = 2 x dx
    rule: UnaryRule::Factor(|b, x, _| b.add(x, x)),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .exact()
        .range(|of| of.x().magnitude()),
    domain: (-2.0, 2.0),
};
