use super::{Count, Equal, OpFacts, Unary, UnaryRule, axes};

unary_fns! { |x| x, int |x| x }

pub(super) static OP: Unary = Unary {
    name: "identity",
    fns: FNS,
    rule: UnaryRule::Linear,
    count: Count::View,
    facts: OpFacts::view(axes::ELEMENTWISE).equal(Equal::Always),
    domain: (-2.0, 2.0),
};
