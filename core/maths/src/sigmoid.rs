//! Functions of one exponential: `sigmoid`, `tanh`, `gelu_tanh`.

use crate::exp::{exp_negative, exp_parts, expm1_moderate};
use crate::float::Real;
use crate::{Arith, Float};

/// `1 / (1 + e^-x)`, to 2 ulp also where it is tiny.
#[inline(always)]
pub fn sigmoid<A: Arith, T: Float>(x: T) -> T {
    // e^-|x| never overflows, so either side keeps its digits.
    let e = exp_negative::<A, T>(-x.abs());
    let one = T::of(1.0);
    let top = if x < T::of(0.0) { e } else { one };
    let (sum, rest) = one.fast_two_sum(e);
    divide::<A, T>(top, None, sum, rest)
}

/// The hyperbolic tangent, to 2 ulp: `tanh(a) = t / (t + 2)` with `t = e^(2 a) - 1`.
#[inline(always)]
pub fn tanh<A: Arith, T: Float>(x: T) -> T {
    let a = x.abs();
    // It is 1 from 10 (f32) or 20 (f64) on.
    let t = expm1_moderate::<A, T>((a + a).at_most(T::of(44.0)));
    // What the sum lacks does not matter where t is the greater one.
    let (sum, rest) = T::of(2.0).fast_two_sum(t);
    divide::<A, T>(t, None, sum, rest).copysign(x)
}

/// `x (1 + tanh(v / 2)) / 2 = x / (1 + e^-v)` with `v = 2 sqrt(2 / pi) (x + 0.044715 x^3)`, to 2 ulp also where it is tiny.
#[inline(always)]
pub fn gelu_tanh<A: Arith, T: Float>(x: T) -> T {
    // The limit at minus infinity is not -inf * 0, and is reached before.
    let x = x.at_least(T::of(-24.0));
    let a = x.abs().at_most(T::of(24.0));
    // v in two parts, because its rounding error would be multiplied by v in the result: 1 + 0.044715 a^2, ...
    let (square, square_rest) = a.two_product::<A>(a);
    let (bend, bend_rest) = square.two_product::<A>(T::CUBIC.0);
    let bend_rest = square.fma::<A>(T::CUBIC.1, square_rest.fma::<A>(T::CUBIC.0, bend_rest));
    let (bent, rest) = T::of(1.0).two_sum(bend);
    let bent_rest = rest + bend_rest;
    // ... times 2 sqrt(2 / pi) a
    let (line, line_rest) = a.two_product::<A>(T::SLOPE.0);
    let line_rest = a.fma::<A>(T::SLOPE.1, line_rest);
    let (v, rest) = line.two_product::<A>(bent);
    let v_rest = line.fma::<A>(bent_rest, line_rest.fma::<A>(bent, rest));

    // x / (1 + e^-v) = x e^v / (1 + e^v): the one in which the exponential is less than 1.
    let (p, [s, b]) = exp_parts::<A, T>(-v, Some(-v_rest));
    let (one, scale) = (T::of(1.0), s * b);
    let (sum, sum_rest) = (one + scale).fast_two_sum(p * scale);
    let (top, top_rest) = x.fast_two_sum(x * p);
    let negative = x < T::of(0.0);
    let (top, top_rest, b) = if negative {
        (top * s, top_rest * s, b)
    } else {
        (x.at_most(T::of(24.0)), T::of(0.0), one)
    };
    let y = divide::<A, T>(top, Some(top_rest), sum, sum_rest) * b;
    // A zero keeps its sign.
    (if x > T::of(24.0) { x } else { y }).copysign(x)
}

/// `(top + top_rest) / (sum + sum_rest)`, to little more than the last rounding.
#[inline(always)]
fn divide<A: Arith, T: Float>(top: T, top_rest: Option<T>, sum: T, sum_rest: T) -> T {
    let inverse = T::of(1.0) / sum;
    let quotient = top * inverse;
    let rest = if A::FUSED {
        (-quotient).fma::<A>(sum, top)
    } else {
        let (back, back_rest) = quotient.two_product::<A>(sum);
        (top - back) - back_rest
    };
    let rest = match top_rest {
        Some(top_rest) => rest + top_rest,
        None => rest,
    };
    let rest = (-quotient).fma::<A>(sum_rest, rest);
    rest.fma::<A>(inverse, quotient)
}

/// What is particular to a type.
pub trait Gelu: Real {
    /// 0.044715 in two parts.
    const CUBIC: (Self, Self);
    /// `2 sqrt(2 / pi)` in two parts.
    const SLOPE: (Self, Self);
}

impl Gelu for f32 {
    const CUBIC: (f32, f32) = (0.044715, 1.5461444e-09);
    const SLOPE: (f32, f32) = (1.5957692, -4.534068e-08);
}

impl Gelu for f64 {
    const CUBIC: (f64, f64) = (0.044715, 2.1960211427085595e-18);
    const SLOPE: (f64, f64) = (1.5957691216057308, -9.96930880911092e-17);
}
