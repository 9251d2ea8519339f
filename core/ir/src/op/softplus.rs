use super::{Count, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.max(0.0) + (-x.abs()).exp().ln_1p() }

/// `log(1 + exp(x))`, in a form that neither overflows nor loses the small values.
pub(super) static OP: Unary = Unary {
    name: "softplus",
    fns: FNS,
    // dy = dx sigmoid(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Sigmoid, x)),
    count: Count::each(1, 2),
    domain: (-3.0, 3.0),
};
