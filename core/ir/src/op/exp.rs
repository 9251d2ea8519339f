use super::{Count, Unary, UnaryRule};

pub(super) static OP: Unary = Unary {
    name: "exp",
    fns: unary_fns!(|x| x.exp()),
    // dy = dx y
    rule: UnaryRule::Factor(|_, _, y| y),
    count: Count::TRANSCENDENTAL,
    domain: (-2.0, 2.0),
};
