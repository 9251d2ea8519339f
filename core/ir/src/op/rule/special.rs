//! Shared parts of the derivatives of `erf`, `erfc` and `gelu`, and of the activations with pieces.

use crate::{Builder, Op, Var};

/// Emits `scale * exp(-x^2)`.
pub(crate) fn bell(b: &mut Builder, scale: f64, x: Var) -> Var {
    let x2 = b.mul(x, x);
    let exponent = b.neg(x2);
    let exp = b.unary(Op::Exp, exponent);
    let scale = b.scalar(scale, x);
    b.mul(scale, exp)
}

/// Emits the slope of `hard_sigmoid`: 1/6 for `|x| < 3`, and 0 elsewhere.
pub(crate) fn hard_slope(b: &mut Builder, x: Var) -> Var {
    let zero = b.scalar(0.0, x);
    let slope = b.scalar(1.0 / 6.0, x);
    let three = b.scalar(3.0, x);
    let size = b.unary(Op::Abs, x);
    let inside = b.binary(Op::Lt, size, three);
    b.select(inside, slope, zero)
}

/// Emits `x` where it is not positive and 0 elsewhere, and whether it is positive.
///
/// A function of it that grows exponentially does not overflow.
pub(crate) fn negative_part(b: &mut Builder, x: Var) -> (Var, Var) {
    let zero = b.scalar(0.0, x);
    let positive = b.binary(Op::Gt, x, zero);
    (b.select(positive, zero, x), positive)
}
