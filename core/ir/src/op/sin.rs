use super::{Count, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.sin() }

pub(super) static OP: Unary = Unary {
    name: "sin",
    fns: FNS,
    // dy = dx cos(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Cos, x)),
    count: Count::TRANSCENDENTAL,
    domain: (-3.0, 3.0),
};
