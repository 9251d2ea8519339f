//! `log`, `log1p`, `log2`, `log10` and `softplus`.
//!
//! With `x = 2^k m`, `sqrt(1/2) <= m < sqrt(2)`, `f = m - 1` and `s = f / (2 + f)`, `log(1 + f) = 2
//! atanh(s)` has two forms, where `R` is a minimax polynomial (Remez):
//!
//! - `f - s (f - s^2 R(s^2))`
//! - `f - f^2/2 + s (f^2/2 + s^2 R(s^2))`
//!
//! All terms but `f` are small corrections, and smaller still in the second form (FreeBSD's msun).

use crate::exp::exp_negative;
use crate::float::Real;
use crate::{Arith, Float};
use std::f64::consts::{LOG2_E, LOG10_E};

/// The parts of the logarithm that depend on the type.
pub trait Log: Real {
    /// Returns `k` and `m` with `x = 2^k m`, for a positive normal number.
    fn split_power(x: Self) -> (Self, Self);
    /// The least normal number, a power of two that makes all denormals normal, and its exponent.
    const SMALL: [Self; 3];
    /// The absolute value below which `log1p` is the identity.
    const LOG1P_TINY: Self;
    /// Returns `(2 atanh(s) - 2 s) / s^3` for `z = s^2`, `|s| <= (sqrt(2) - 1) / (sqrt(2) + 1)`.
    fn log_tail<A: Arith>(z: Self) -> Self;
    /// Returns the same for `|s| <= 1/3`.
    fn log_tail_to_2<A: Arith>(z: Self) -> Self;
}

impl Log for f32 {
    const SMALL: [f32; 3] = [f32::MIN_POSITIVE, 33_554_432.0, 25.0];
    const LOG1P_TINY: f32 = 2.9802322e-8;

    #[inline(always)]
    fn split_power(x: f32) -> (f32, f32) {
        const SQRT_HALF: u32 = 0x3f35_04f3;
        let bits = x.to_bits().wrapping_sub(SQRT_HALF);
        let k = (bits as i32) >> 23;
        let m = (bits & 0x007f_ffff) + SQRT_HALF;
        (k as f32, f32::from_bits(m))
    }
    #[inline(always)]
    fn log_tail<A: Arith>(z: f32) -> f32 {
        z.polynomial::<A, 4>([0.23584242, 0.28537205, 0.40000337, 0.6666666])
    }
    #[inline(always)]
    fn log_tail_to_2<A: Arith>(z: f32) -> f32 {
        z.polynomial::<A, 6>([
            0.21792813, 0.17147753, 0.22301507, 0.28568396, 0.40000054, 0.6666667,
        ])
    }
}

impl Log for f64 {
    const SMALL: [f64; 3] = [f64::MIN_POSITIVE, 18_014_398_509_481_984.0, 54.0];
    const LOG1P_TINY: f64 = 5.551115123125783e-17;

    #[inline(always)]
    fn split_power(x: f64) -> (f64, f64) {
        const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
        // The offset makes an unsigned shift suffice. `MAGIC` then converts the low bits to a
        // float.
        let bits = x.to_bits().wrapping_sub(SQRT_HALF);
        let biased = bits.wrapping_add(0x7ff0_0000_0000_0000) >> 52;
        let k = f64::from_bits(biased | f64::MAGIC.to_bits()) - (f64::MAGIC + 2047.0);
        (
            k,
            f64::from_bits((bits & 0x000f_ffff_ffff_ffff) + SQRT_HALF),
        )
    }
    #[inline(always)]
    fn log_tail<A: Arith>(z: f64) -> f64 {
        z.polynomial::<A, 7>([
            0.14798330502088203,
            0.15313826052133392,
            0.1818357253275253,
            0.22222198427306716,
            0.2857142874367749,
            0.3999999999940955,
            0.6666666666666735,
        ])
    }
    #[inline(always)]
    fn log_tail_to_2<A: Arith>(z: f64) -> f64 {
        z.polynomial::<A, 11>([
            0.1646873814344704,
            0.06993606197629545,
            0.10972726954580106,
            0.1171592814574987,
            0.1333680777650613,
            0.15384451823488104,
            0.18181823206766692,
            0.22222222125386631,
            0.28571428572511076,
            0.39999999999993974,
            0.6666666666666667,
        ])
    }
}

/// Returns the natural logarithm, to 1 ulp.
#[inline(always)]
pub fn log<A: Arith, T: Float>(x: T) -> T {
    let (k, m) = parts(x);
    let y = of_parts::<A, T>(k, m, T::of(0.0));
    let zero = T::of(0.0);
    let infinity = T::of(f64::INFINITY);
    // Comparisons with NaN are false, so the first select returns a NaN x and the others keep it.
    let y = if x < infinity { y } else { x };
    let y = if x == zero { -infinity } else { y };
    if x < zero { T::of(f64::NAN) } else { y }
}

/// Returns `log(1 + x)`, to 1 ulp even where it is small.
#[inline(always)]
pub fn log1p<A: Arith, T: Float>(x: T) -> T {
    let one = T::of(1.0);
    let (u, rest) = one.two_sum(x);
    let (k, m) = T::split_power(u);
    let y = of_parts::<A, T>(k, m, rest / u);
    let infinity = T::of(f64::INFINITY);
    let y = if x < infinity { y } else { x };
    let y = if x.abs() < T::LOG1P_TINY { x } else { y };
    let y = if x == -one { -infinity } else { y };
    if x < -one { T::of(f64::NAN) } else { y }
}

/// Returns `log(1 + e^x)`, to 2 ulp even where it is small.
#[inline(always)]
pub fn softplus<A: Arith, T: Float>(x: T) -> T {
    // max(x, 0) + log(1 + e^-|x|)
    let e = exp_negative::<A, T>(-x.abs());
    let s = e / (e + T::of(2.0));
    let (z, half) = (s * s, e * e * T::of(0.5));
    let low = (-s).fma::<A>(z.fma::<A>(T::log_tail_to_2::<A>(z), half), half);
    // If x is NaN, e is NaN too, so `top` may be 0.
    let top = if x > T::of(0.0) { x } else { T::of(0.0) };
    e + (top - low)
}

/// Returns the logarithm to base 2, to 2 ulp. It is exact for powers of two.
#[inline(always)]
pub fn log2<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let (k, m) = parts(x);
    let log = of_parts::<A, f64>(0.0, m, 0.0);
    let (part, low) = log.two_product::<A>(LOG2_E);
    let (sum, rest) = k.fast_two_sum(part);
    let y = sum + (rest + log.fma::<A>(2.0355273740931033e-17, low));
    T::of(with_ends(x, y))
}

/// Returns the logarithm to base 10, to 2 ulp.
#[inline(always)]
pub fn log10<A: Arith, T: Float>(x: T) -> T {
    // The first part of log10 2 has 32 digits, so that its product with k is exact.
    const LOG10_2: (f64, f64) = (0.3010299955494702, 1.1451100898021838e-10);
    let x = x.wide();
    let (k, m) = parts(x);
    let log = of_parts::<A, f64>(0.0, m, 0.0);
    let (part, low) = log.two_product::<A>(LOG10_E);
    let (sum, rest) = (k * LOG10_2.0).two_sum(part);
    let low = k.fma::<A>(LOG10_2.1, log.fma::<A>(1.098319650216765e-17, low));
    T::of(with_ends(x, sum + (rest + low)))
}

/// Returns `log(1 + u + rest)` for `u >= 0` and a small `rest`.
#[inline(always)]
pub(crate) fn log1p_sum<A: Arith>(u: f64, rest: f64) -> f64 {
    let (sum, low) = 1.0.two_sum(u);
    let (k, m) = f64::split_power(sum);
    of_parts::<A, f64>(k, m, (low + rest) / sum)
}

/// Returns `k` and `m` with `x = 2^k m`, for a positive number.
#[inline(always)]
pub(crate) fn parts<T: Float>(x: T) -> (T, T) {
    let [least, factor, exponent] = T::SMALL;
    let small = x < least;
    let (k, m) = T::split_power(if small { x * factor } else { x });
    (if small { k - exponent } else { k }, m)
}

/// Returns a logarithm `y` of `x`, or its value where `x` is not a positive number.
#[inline(always)]
fn with_ends(x: f64, y: f64) -> f64 {
    let y = if x < f64::INFINITY { y } else { x };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x < 0.0 { f64::NAN } else { y }
}

/// Returns `k log 2 + log m + rest`.
#[inline(always)]
pub(crate) fn of_parts<A: Arith, T: Float>(k: T, m: T, rest: T) -> T {
    k.fma::<A>(T::LN_2.0, low_part::<A, T>(k, m, rest))
}

/// Returns the same without the first part of `k log 2`, which is exact.
#[inline(always)]
pub(crate) fn low_part<A: Arith, T: Float>(k: T, m: T, rest: T) -> T {
    let one = T::of(1.0);
    // Dividend and divisor of s are exact, up to one rounding of the divisor.
    let f = m - one;
    let s = f / (m + one);
    let z = s * s;
    let bend = (-z).fma::<A>(T::log_tail::<A>(z), f);
    let low = (-s).fma::<A>(bend, k.fma::<A>(T::LN_2.1, rest));
    f + low
}
