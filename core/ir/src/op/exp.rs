use super::{Count, Unary, UnaryRule};
use gradloom_maths::exp;

unary_fns! { |x| exp::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "exp",
    fns: FNS,
    // dy = dx y
    rule: UnaryRule::Factor(|_, _, y| y),
    count: Count::TRANSCENDENTAL,
    domain: (-2.0, 2.0),
};
