//! Shared parts of the derivatives of `erf`, `erfc` and `gelu`.

use crate::{Builder, Op, Var};

/// Emits `scale * exp(-x^2)`.
pub(crate) fn bell(b: &mut Builder, scale: f64, x: Var) -> Var {
    let x2 = b.mul(x, x);
    let exponent = b.neg(x2);
    let exp = b.unary(Op::Exp, exponent);
    let scale = b.scalar(scale, x);
    b.mul(scale, exp)
}
