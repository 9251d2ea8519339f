use super::{Count, Unary, UnaryRule};

unary_fns! { |x| x.exp() }

pub(super) static OP: Unary = Unary {
    name: "exp",
    fns: FNS,
    // dy = dx y
    rule: UnaryRule::Factor(|_, _, y| y),
    count: Count::TRANSCENDENTAL,
    domain: (-2.0, 2.0),
};
