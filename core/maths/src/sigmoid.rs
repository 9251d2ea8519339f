//! `sigmoid`, `tanh`, `gelu_tanh` and `mish`, which need one exponential each.

use crate::exp::{exp_lifted, exp_lifted_sum};
use crate::float::Real;
use crate::{Arith, Float};
use std::f64::consts::{LN_2, LOG2_E};

/// Returns `1 / (1 + e^-x)`, to 2 ulp even where it is tiny.
#[inline(always)]
pub fn sigmoid<A: Arith, T: Float>(x: T) -> T {
    // The result is 1 above the bounds and 0 below. Numerator and denominator have a factor of a
    // power of two, so that neither overflows.
    let minus = (-x).at_least(T::EXPM1_MIN).at_most(-T::EXP_RANGE.0);
    let (p, scale) = exp_lifted::<A, T>(minus, -T::LIFT.0);
    let one = T::LIFT.1;
    // Add the powers of two first, because their sum is mostly exact.
    let (sum, rest) = scale.fast_two_sum(one);
    one / (sum + p.fma::<A>(scale, rest))
}

/// Returns the hyperbolic tangent, to 2 ulp.
///
/// It is a polynomial for small arguments, and `1 - 1 / (1/2 + e^(2 a) / 2)` for others.
#[inline(always)]
pub fn tanh<A: Arith, T: Float>(x: T) -> T {
    let (one, half, a) = (T::of(1.0), T::of(0.5), x.abs());
    // The result is 1 from 10 (f32) or 20 (f64) on.
    let bounded = a.at_most(T::of(22.0));
    // With 2 a = n log 2 + 2 h, e^(2 h) = 1 + 2 q.
    let magic = T::magic_power(0);
    let shifted = bounded.fma::<A>(T::of(2.0 * LOG2_E), magic);
    let minus_n = magic - shifted;
    let h = if A::FUSED {
        // One part of log 2 suffices: its error grows with n, but matters less the closer tanh is
        // to 1.
        minus_n.fma::<A>(T::of(0.5 * LN_2), bounded)
    } else {
        let h = minus_n.fma::<A>(T::LN_2.0 * half, bounded);
        minus_n.fma::<A>(T::LN_2.1 * half, h)
    };
    let q = T::tanh_exp_tail::<A>(h).fma::<A>(h * h, h);
    let power = T::power_of_two(shifted.bits());
    let large = one - one / q.fma::<A>(power, power.fma::<A>(half, half));
    let z = x * x;
    let small = T::tanh_tail::<A>(z).fma::<A>(z * x, x);
    // A zero keeps its sign.
    (if a < T::of(0.55) { small } else { large }).copysign(x)
}

/// Returns `x / (1 + e^-v)` with `v = 2 sqrt(2 / pi) (x + 0.044715 x^3)`, to 2 ulp.
///
/// This is `x (1 + tanh(v / 2)) / 2`. It is accurate even where it is tiny.
#[inline(always)]
pub fn gelu_tanh<A: Arith, T: Float>(x: T) -> T {
    // The result is -0 below the bounds and x above.
    let (least, most) = T::GELU_RANGE;
    let top = x.at_least(least);
    let a = top.at_most(most);
    // The relative error of e^-v is the absolute error of v, so v = a slope is computed in two
    // parts. First slope = SLOPE + CUBIC a^2:
    let (square, square_rest) = a.two_product::<A>(a);
    let (bend, bend_rest) = square.two_product::<A>(T::CUBIC.0);
    let (slope, slope_rest) = T::SLOPE.0.fast_two_sum(bend);
    let bend_rest = square.fma::<A>(T::CUBIC.1, square_rest.fma::<A>(T::CUBIC.0, bend_rest));
    let slope_rest = bend_rest + (slope_rest + T::SLOPE.1);
    let (v, v_rest) = a.two_product::<A>(slope);
    let v_rest = a.fma::<A>(slope_rest, v_rest);

    // As in `sigmoid`, with the numerator x.
    let (lift, one) = T::GELU_LIFT;
    let (p, scale) = exp_lifted_sum::<A, T>(-v, -v_rest, -lift);
    let (sum, rest) = scale.fast_two_sum(one);
    let y = top * one / (sum + p.fma::<A>(scale, rest));
    // For such x the numerator may be denormal.
    if x.abs() < T::EXPM1_TINY {
        x * T::of(0.5)
    } else {
        y
    }
}

/// Returns `x tanh(log(1 + e^x))`, to 4 ulp even where it is tiny.
///
/// With `n = e^x (e^x + 2)`, the factor is `n / (n + 2)`.
#[inline(always)]
pub fn mish<A: Arith, T: Float>(x: T) -> T {
    // The factor is 1 above the bounds, and the result 0 below.
    let x = x.wide().at_least(-800.0);
    let e = crate::exp::<A, f64>(x.at_most(30.0));
    let n = e * (e + 2.0);
    T::of(x * (n / (n + 2.0)))
}

/// The parts of these functions that depend on the type.
pub trait Sigmoid: Real {
    /// Returns `(tanh(x) / x - 1) / z` for `z = x^2` and `|x| <= 0.55`, a minimax polynomial
    /// (Remez).
    fn tanh_tail<A: Arith>(z: Self) -> Self;
    /// Returns `((e^(2 h) - 1) / 2 - h) / h^2` for `|h| <= log(2) / 4`, as accurate as `tanh`
    /// needs.
    fn tanh_exp_tail<A: Arith>(h: Self) -> Self;
    /// The bounds below which `gelu_tanh` is -0, and from which on it is the identity.
    const GELU_RANGE: (Self, Self);
    /// An exponent that makes `e^-v` normal in that range, and the power of two that undoes it.
    const GELU_LIFT: (i32, Self);
    /// `2 sqrt(2 / pi)` in two parts.
    ///
    /// The first part ends in zeros, so that its sum with a multiple of `CUBIC` can use
    /// `fast_two_sum`.
    const SLOPE: (Self, Self);
    /// 0.044715 times that, in two parts.
    const CUBIC: (Self, Self);
}

impl Sigmoid for f32 {
    const GELU_RANGE: (f32, f32) = (-10.8, 6.0);
    const GELU_LIFT: (i32, f32) = (28, 1.0 / (1 << 28) as f32);
    const SLOPE: (f32, f32) = (1.5957642, 4.9614496e-06);
    const CUBIC: (f32, f32) = (0.071354814, 2.3988325e-09);

    #[inline(always)]
    fn tanh_tail<A: Arith>(z: f32) -> f32 {
        z.horner::<A, 4>([0.01643756, -0.052671805, 0.13320725, -0.33332947])
    }
    #[inline(always)]
    fn tanh_exp_tail<A: Arith>(h: f32) -> f32 {
        h.polynomial::<A, 4>([0.13263595, 0.33504826, 0.66669464, 0.99998635])
    }
}

impl Sigmoid for f64 {
    const GELU_RANGE: (f64, f64) = (-21.6, 9.0);
    const GELU_LIFT: (i32, f64) = (80, 1.0 / (1u128 << 80) as f64);
    const SLOPE: (f64, f64) = (1.5957691216057128, 1.7885919910836427e-14);
    const CUBIC: (f64, f64) = (0.07135481627260025, -6.175149918155315e-19);

    #[inline(always)]
    fn tanh_tail<A: Arith>(z: f64) -> f64 {
        z.polynomial::<A, 10>([
            5.102156952545026e-05,
            -0.00021030254231291996,
            0.0005791371099081593,
            -0.0014532167906737485,
            0.0035917197047679013,
            -0.008863194505030014,
            0.021869485974873395,
            -0.053968253876082124,
            0.13333333333168712,
            -0.33333333333332316,
        ])
    }
    #[inline(always)]
    fn tanh_exp_tail<A: Arith>(h: f64) -> f64 {
        h.polynomial::<A, 10>([
            2.5600067429688707e-05,
            0.0001414668717756203,
            0.0007054742106991626,
            0.0031745911166861157,
            0.012698412484228837,
            0.044444444619614686,
            0.13333333333591108,
            0.3333333333322413,
            0.6666666666666565,
            1.0000000000000022,
        ])
    }
}
