use super::{Count, Unary, UnaryRule};

unary_fns! { |x| x, int |x| x }

/// The value is the operand's; that it does not depend on the operand is what the op says, not what it computes.
pub(super) static OP: Unary = Unary {
    name: "stop_gradient",
    fns: FNS,
    rule: UnaryRule::Zero("`stop_gradient` says that there is none"),
    count: Count::View,
    domain: (-2.0, 2.0),
};
