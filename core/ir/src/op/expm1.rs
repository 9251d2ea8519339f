use super::{Count, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.exp_m1() }

pub(super) static OP: Unary = Unary {
    name: "expm1",
    fns: FNS,
    // dy = dx exp(x), and not dx (y + 1), which loses every digit where y is close to -1.
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Exp, x)),
    count: Count::TRANSCENDENTAL,
    domain: (-2.0, 2.0),
};
