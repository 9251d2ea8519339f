use super::{Count, Unary, UnaryRule};

pub(super) static OP: Unary = Unary {
    name: "identity",
    fns: unary_fns!(|x| x, int | x | x),
    rule: UnaryRule::Linear,
    count: Count::View,
    domain: (-2.0, 2.0),
};
