use super::{Count, Unary, UnaryRule};

pub(super) static OP: Unary = Unary {
    name: "neg",
    fns: unary_fns!(|x| -x, int | x | x.wrapping_neg()),
    rule: UnaryRule::Linear,
    count: Count::FLOP,
    domain: (-2.0, 2.0),
};
