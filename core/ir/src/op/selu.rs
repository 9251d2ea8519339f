use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::{Arith, Float, expm1};

const ALPHA: f64 = 1.6732632423543772;
const SCALE: f64 = 1.0507009873554805;

unary_fns! { |x| selu::<A, _>(x) }

/// Returns `scale x` for positive `x`, and `scale alpha (e^x - 1)` for others.
#[inline(always)]
fn selu<A: Arith, T: Float>(x: T) -> T {
    if x > T::of(0.0) {
        T::of(SCALE) * x
    } else {
        T::of(SCALE * ALPHA) * expm1::<A, T>(x)
    }
}

pub(super) static OP: Unary = Unary {
    name: "selu",
    fns: FNS,
    // dy = dx scale where x > 0, and dx scale alpha e^x elsewhere.
    rule: UnaryRule::Factor(|b, x, _| {
        let zero = b.scalar(0.0, x);
        let positive = b.binary(Op::Gt, x, zero);
        let below = b.select(positive, zero, x);
        let exp = b.unary(Op::Exp, below);
        let alpha = b.scalar(SCALE * ALPHA, x);
        let steep = b.mul(alpha, exp);
        let scale = b.scalar(SCALE, x);
        b.select(positive, scale, steep)
    }),
    count: Count::each(3, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.2, 3.0),
};
