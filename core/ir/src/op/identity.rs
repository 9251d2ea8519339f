use super::{Count, Unary, UnaryRule};

unary_fns! { |x| x, int |x| x }

pub(super) static OP: Unary = Unary {
    name: "identity",
    fns: FNS,
    rule: UnaryRule::Linear,
    count: Count::View,
    domain: (-2.0, 2.0),
};
