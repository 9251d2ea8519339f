use super::{Count, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.cos() }

pub(super) static OP: Unary = Unary {
    name: "cos",
    fns: FNS,
    // dy = -dx sin(x)
    rule: UnaryRule::Factor(|b, x, _| {
        let sin = b.unary(Op::Sin, x);
        b.neg(sin)
    }),
    count: Count::TRANSCENDENTAL,
    domain: (-3.0, 3.0),
};
