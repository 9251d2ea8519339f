use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| x.ceil(), int |x| x }

pub(super) static OP: Unary = Unary {
    name: "ceil",
    fns: FNS,
    rule: UnaryRule::Zero("`ceil` is constant between its steps"),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .exact()
        .range(|of| of.x().unknown()),
    domain: (-2.0, 2.0),
};
