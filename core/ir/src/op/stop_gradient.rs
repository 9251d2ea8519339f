use super::{Count, OpFacts, Unary, UnaryRule, axes};

unary_fns! { |x| x, int |x| x }

/// `x` as a constant. The run-time value is that of `x`, but the derivative is zero.
pub(super) static OP: Unary = Unary {
    name: "stop_gradient",
    fns: FNS,
    rule: UnaryRule::Zero("`stop_gradient` sets the derivative to zero"),
    count: Count::View,
    facts: OpFacts::view(axes::ELEMENTWISE),
    domain: (-2.0, 2.0),
};
