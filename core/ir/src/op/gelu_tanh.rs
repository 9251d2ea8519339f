use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::gelu_tanh;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// The linear coefficient of `u`, sqrt(2 / pi).
const A: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
/// The cubic coefficient of `u`, relative to the linear one.
const B: f64 = 0.044715;

unary_fns! { |x| gelu_tanh::<A, _>(x) }

/// `x (1 + tanh(u)) / 2` with `u = A (x + B x^3)`.
pub(super) static OP: Unary = Unary {
    name: "gelu_tanh",
    fns: FNS,
    // y = x s,  s = sigmoid(2 u),  u = A (x + B x^3)
    // dy = dx (s + x s (1 - s) 2 A (1 + 3 B x^2)),  with 1 - s = sigmoid(-2 u)
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let twice = b.scalar(2.0 * A, x);
        // Beyond the limit, the sigmoids are exactly 0 and 1, which an infinite cube would make NaN.
        let limit = b.scalar(1e30, x);
        let x2 = b.mul(x, x);
        let x2 = b.binary(Op::Minimum, x2, limit);
        let cubic = b.scalar(B, x);
        let bx2 = b.mul(cubic, x2);
        let bent = b.add(one, bx2);
        let ax = b.mul(twice, x);
        let u = b.mul(ax, bent);
        let s = b.unary(Op::Sigmoid, u);
        let minus_u = b.neg(u);
        let rest = b.unary(Op::Sigmoid, minus_u);
        let three = b.scalar(3.0, x);
        let bx2_3 = b.mul(three, bx2);
        let slope = b.add(one, bx2_3);
        let spread = b.mul(s, rest);
        let spread = b.mul(spread, x);
        let spread = b.mul(spread, twice);
        let curved = b.mul(spread, slope);
        b.add(s, curved)
    }),
    count: Count::each(8, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
