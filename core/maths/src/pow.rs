//! `pow`.
//!
//! `x^y = exp(y log x)`. The logarithm needs more digits than the result, by the number of digits
//! of the greatest exponent. `f64` computes it in two parts, as `log m = 2 s + s^3 (2/3 + s^2
//! R(s^2))` with the notation of `log`. `f32` is computed in double precision.

use crate::exp::{Exp, exp_below_max};
use crate::float::Real;
use crate::log::Log;
use crate::{Arith, Float};
use std::f64::consts::LOG2_E;

/// The parts of the power function that depend on the type.
pub trait Pow: Real {
    /// The number from which on every number is an integer. From twice it on every number is even.
    const INTEGERS: Self;
    /// Returns `a^y` for finite `a > 0`. The result for other `a` is unspecified.
    fn power<A: Arith>(a: Self, y: Self) -> Self;
}

/// The bound on exponents. Beyond it every power of a number other than 1 is 0 or infinite.
const MOST: f64 = 1e25;

impl Pow for f32 {
    const INTEGERS: f32 = 8_388_608.0;

    #[inline(always)]
    fn power<A: Arith>(a: f32, y: f32) -> f32 {
        // An infinite y times log 1 would be NaN.
        let y = y.at_least(f32::MIN).at_most(f32::MAX);
        short_exp2::<A>(f64::from(y) * short_log2::<A>(f64::from(a))) as f32
    }
}

/// Returns `log2 a` for positive normal `a`, with a few more digits than an `f32`.
///
/// The polynomial here and that of [`short_exp2`] are minimax (Remez).
#[inline(always)]
pub(crate) fn short_log2<A: Arith>(a: f64) -> f64 {
    // log2 m = s (2 / log 2 + z R(z)) with s = (m - 1) / (m + 1) and z = s^2
    let (k, m) = f64::split_power(a);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let r = z.polynomial::<A, 5>([
        0.2825339018530278,
        0.31993519490512917,
        0.4122083911922724,
        0.577077953299788,
        0.9617966940574155,
    ]);
    r.fma::<A>(z, 2.0 * LOG2_E).fma::<A>(s, k)
}

/// Returns `2^x` with a few more digits than an `f32`.
///
/// `x` is bounded by 1000 on both sides.
#[inline(always)]
pub(crate) fn short_exp2<A: Arith>(x: f64) -> f64 {
    let exponent = x.at_least(-1000.0).at_most(1000.0);
    let magic = f64::magic_power(0);
    let shifted = exponent + magic;
    let r = exponent - (shifted - magic);
    let power = r.polynomial::<A, 8>([
        1.5201906609685073e-05,
        0.00015469317447215663,
        0.0013333922824362548,
        0.00961802717235947,
        0.055504103528841664,
        0.24022651198757178,
        0.6931471807286971,
        0.999999999961621,
    ]);
    power * f64::power_of_two(shifted.to_bits())
}

impl Pow for f64 {
    const INTEGERS: f64 = 4_503_599_627_370_496.0;

    #[inline(always)]
    fn power<A: Arith>(a: f64, y: f64) -> f64 {
        let y = y.at_least(-MOST).at_most(MOST);
        let (log, log_rest) = log_in_two::<A>(a);
        let (z, rest) = y.two_product::<A>(log);
        let rest = y.fma::<A>(log_rest, rest);
        let rest = if z.abs() < 1000.0 { rest } else { 0.0 };
        exp_below_max::<A, f64>(z.at_most(f64::EXP_RANGE.1), rest)
    }
}

/// Returns `x^y`, to 1 ulp. `x^0` and `1^y` are 1 even for NaN.
///
/// `x^1` is `x`, `x^2` is `x x`, and `x^3` is `x x x` to 2 ulp, so that a known exponent needs no logarithm.
#[inline(always)]
pub fn pow<A: Arith, T: Float>(x: T, y: T) -> T {
    let (zero, one, infinity) = (T::of(0.0), T::of(1.0), T::of(f64::INFINITY));
    let a = x.abs();
    let power = T::power::<A>(a, y);
    // The powers of 0 and of infinity. NaN stays NaN.
    let ends = if (a == zero) == (y < zero) {
        infinity
    } else {
        zero
    };
    let power = if (a == zero) | (a == infinity) {
        ends
    } else {
        power
    };
    // The sign of the result.
    let (integer, odd) = parity(y.abs());
    let negative = x.is_negative();
    let power = if negative & odd { -power } else { power };
    let real = !negative | integer | (a == zero) | (a == infinity);
    let power = if real { power } else { T::of(f64::NAN) };
    let power = if x.is_nan() | y.is_nan() {
        x + y
    } else {
        power
    };
    let square = x * x;
    let power = if y == T::of(3.0) { square * x } else { power };
    let power = if y == T::of(2.0) { square } else { power };
    let power = if y == one { x } else { power };
    if (x == one) | (y == zero) { one } else { power }
}

/// Returns whether `a >= 0` is an integer, and whether it is an odd integer.
#[inline(always)]
fn parity<T: Float>(a: T) -> (bool, bool) {
    let half = a * T::of(0.5);
    let integer = is_integer(a);
    (integer, integer & !is_integer(half))
}

#[inline(always)]
fn is_integer<T: Float>(a: T) -> bool {
    (a >= T::INTEGERS) | ((a + T::INTEGERS) - T::INTEGERS == a)
}

/// Returns `log a` in two parts, to `2^-65`.
#[inline(always)]
fn log_in_two<A: Arith>(a: f64) -> (f64, f64) {
    let [least, factor, exponent] = f64::SMALL;
    let small = a < least;
    let (k, m) = f64::split_power(if small { a * factor } else { a });
    let k = if small { k - exponent } else { k };
    // s = f / (2 + f) in two parts
    let f = m - 1.0;
    let (g, g_rest) = m.two_sum(1.0);
    let inverse = 1.0 / g;
    let s = f * inverse;
    let (back, back_rest) = s.two_product::<A>(g);
    let s_rest = ((f - back) - back_rest - s * g_rest) * inverse;
    // z = s^2, u = s z, c = 2/3 + z R(z), v = u c
    let (z, z_rest) = s.two_product::<A>(s);
    let z_rest = (s + s).fma::<A>(s_rest, z_rest);
    let tail = z * z.polynomial::<A, 7>([
        0.13096756755117736,
        0.13268204050120175,
        0.15386236106683665,
        0.18181796486868154,
        0.22222222370780237,
        0.2857142857100386,
        0.4000000000000021,
    ]);
    const THIRDS: (f64, f64) = (2.0 / 3.0, 3.700743415417188e-17);
    let (c, c_rest) = THIRDS.0.fast_two_sum(tail);
    let c_rest = c_rest + THIRDS.1;
    let (u, u_rest) = s.two_product::<A>(z);
    let u_rest = s.fma::<A>(z_rest, s_rest.fma::<A>(z, u_rest));
    let (v, v_rest) = u.two_product::<A>(c);
    let v_rest = u.fma::<A>(c_rest, u_rest.fma::<A>(c, v_rest));
    let (log, rest) = (s + s).fast_two_sum(v);
    let rest = rest + (s_rest + s_rest + v_rest);
    // k log 2, the first part of which is exact
    let (log, more) = (k * f64::LN_2.0).fast_two_sum(log);
    let rest = more + k.fma::<A>(f64::LN_2.1, rest);
    log.fast_two_sum(rest)
}
