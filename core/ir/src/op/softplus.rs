use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::softplus;

unary_fns! { |x| softplus::<A, _>(x) }

/// `log(1 + exp(x))`, in a form that does not overflow and is accurate for small results.
pub(super) static OP: Unary = Unary {
    name: "softplus",
    fns: FNS,
    // dy = dx sigmoid(x)
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Sigmoid, x)),
    count: Count::each(1, 2),
    facts: OpFacts::ELEMENTWISE.range(|of| of.x().positive()),
    domain: (-3.0, 3.0),
};
