use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| x.floor(), int |x| x }

pub(super) static OP: Unary = Unary {
    name: "floor",
    fns: FNS,
    rule: UnaryRule::Zero("`floor` is constant between its steps"),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .exact()
        .range(|of| of.x().unknown()),
    domain: (-2.0, 2.0),
};
