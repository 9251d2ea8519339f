//! `exp`, `expm1` and `exp2`.
//!
//! With `x = n log 2 + r` and `|r| <= log(2) / 2`, `e^r = 1 + r + r^2 Q(r)`, where `Q` is a minimax
//! polynomial (Remez). `log 2` is split into two parts. The first has so few digits that its
//! product with `n` is exact (Cody and Waite, "Software Manual for the Elementary Functions",
//! 1980).

use crate::float::Real;
use crate::{Arith, Float};
use std::f64::consts::{LN_2, LOG2_E};

/// The parts of the exponential that depend on the type.
pub trait Exp: Real {
    /// `log 2` in two parts.
    const LN_2: (Self, Self);
    /// The range of arguments. Below it even `100 e^x` is 0, and above it `e^x` is infinite.
    const EXP_RANGE: (Self, Self);
    /// An exponent, and the power of two that undoes it.
    ///
    /// Scaled by `2^exponent`, every power of two in the range that is at most 1 is normal.
    const LIFT: (i32, Self);
    /// The argument below which `expm1` is -1.
    const EXPM1_MIN: Self;
    /// The absolute value below which `expm1` is the identity.
    const EXPM1_TINY: Self;
    /// Returns `(e^r - 1 - r) / r^2`.
    ///
    /// The error is small relative to the rounding error of `e^r`.
    fn exp_tail<A: Arith>(r: Self) -> Self;
    /// Returns the same with an error that is small relative to `e^r - 1`.
    fn expm1_tail<A: Arith>(r: Self) -> Self;
}

impl Exp for f32 {
    const LN_2: (f32, f32) = exp_of::f32::LN_2;
    const EXP_RANGE: (f32, f32) = (exp_of::f32::LEAST, 89.0);
    const LIFT: (i32, f32) = (64, 1.0 / (1u128 << 64) as f32);
    const EXPM1_MIN: f32 = -20.0;
    const EXPM1_TINY: f32 = 2.9802322e-8;

    #[inline(always)]
    fn exp_tail<A: Arith>(r: f32) -> f32 {
        r.polynomial::<A, 5>(exp_of::f32::TAIL)
    }
    #[inline(always)]
    fn expm1_tail<A: Arith>(r: f32) -> f32 {
        r.polynomial::<A, 6>([
            0.0001984557,
            0.0013940721,
            0.008333391,
            0.04166636,
            0.16666666,
            0.5,
        ])
    }
}

impl Exp for f64 {
    const LN_2: (f64, f64) = exp_of::f64::LN_2;
    const EXP_RANGE: (f64, f64) = (exp_of::f64::LEAST, 710.0);
    // 2^-512
    const LIFT: (i32, f64) = (512, f64::from_bits((1023 - 512) << 52));
    const EXPM1_MIN: f64 = -40.0;
    const EXPM1_TINY: f64 = 5.551115123125783e-17;

    #[inline(always)]
    fn exp_tail<A: Arith>(r: f64) -> f64 {
        r.polynomial::<A, 10>(exp_of::f64::TAIL)
    }
    #[inline(always)]
    fn expm1_tail<A: Arith>(r: f64) -> f64 {
        r.polynomial::<A, 11>([
            2.0875326961859167e-09,
            2.5109081260623233e-08,
            2.7557402944357207e-07,
            2.7557244104577645e-06,
            2.480158717183976e-05,
            0.0001984126988620758,
            0.0013888888888962901,
            0.008333333333321608,
            0.041666666666666505,
            0.16666666666666677,
            0.5,
        ])
    }
}

/// Constants of the exponential, for loops written with explicit vectors.
pub mod exp_of {
    /// Constants in single precision.
    pub mod f32 {
        /// The argument below which even `100 e^x` is 0.
        pub const LEAST: f32 = -120.0;
        /// `log 2` in two parts.
        pub const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
        /// The coefficients of `(e^r - 1 - r) / r^2` in powers of `r`, the highest first.
        pub const TAIL: [f32; 5] = [0.0013950602, 0.008368953, 0.041666206, 0.16666518, 0.5];
    }
    /// Constants in double precision.
    pub mod f64 {
        /// The argument below which even `100 e^x` is 0.
        pub const LEAST: f64 = -800.0;
        /// `log 2` in two parts, the first of which has 32 digits.
        pub const LN_2: (f64, f64) = (0.6931471803691238, 1.9082149292705877e-10);
        /// The coefficients of `(e^r - 1 - r) / r^2` in powers of `r`, the highest first.
        pub const TAIL: [f64; 10] = [
            2.5117995856588222e-08,
            2.763140959520717e-07,
            2.755721585882969e-06,
            2.4801489607831025e-05,
            0.00019841269917904403,
            0.0013888888947307962,
            0.008333333333306948,
            0.04166666666651444,
            0.166666666666667,
            0.5000000000000013,
        ];
    }
}

/// Returns `e^x`, to 1.1 ulp.
#[inline(always)]
pub fn exp<A: Arith, T: Float>(x: T) -> T {
    let x = x.at_most(T::EXP_RANGE.1).at_least(T::EXP_RANGE.0);
    let (bits, r) = split::<A, T>(x, T::magic_powers());
    scaled::<A, T>(p_of::<A, T>(r, T::exp_tail::<A>(r)), bits)
}

/// Returns `e^x - 1`, to 2 ulp even where it is small.
#[inline(always)]
pub fn expm1<A: Arith, T: Float>(x: T) -> T {
    let bounded = x.at_least(T::EXPM1_MIN).at_most(T::EXP_RANGE.1);
    // Compute half of the result, because 2^n may overflow.
    let (bits, r) = split::<A, T>(bounded, T::magic_power(-1));
    let p = p_of::<A, T>(r, T::expm1_tail::<A>(r));
    let scale = T::power_of_two(bits);
    let y = p.fma::<A>(scale, scale - T::of(0.5));
    if x.abs() < T::EXPM1_TINY { x } else { y + y }
}

/// Returns `2^x`, to 1.1 ulp. It is exact for integers.
#[inline(always)]
pub fn exp2<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide().at_most(1100.0).at_least(-1200.0);
    let magic = f64::magic_powers();
    let shifted = x + magic;
    // The fraction is exact, and e^(r + low) is the rest of the result.
    let fraction = x - (shifted - magic);
    let (r, low) = fraction.two_product::<A>(LN_2);
    let low = fraction.fma::<A>(2.3190468138462996e-17, low);
    let p = r + f64::exp_tail::<A>(r).fma::<A>(r * r, low);
    T::of(scaled::<A, f64>(p, shifted.bits()))
}

/// Returns `e^x` for `x <= 0`.
#[inline(always)]
pub(crate) fn exp_negative<A: Arith, T: Float>(x: T) -> T {
    let (p, scale) = exp_lifted::<A, T>(x.at_least(T::EXP_RANGE.0), T::LIFT.0);
    p.fma::<A>(scale, scale) * T::LIFT.1
}

/// Returns `p` and `s` with `e^x = (1 + p) s 2^-lift`. The power of two `s` must be normal.
#[inline(always)]
pub(crate) fn exp_lifted<A: Arith, T: Float>(x: T, lift: i32) -> (T, T) {
    let (bits, r) = split::<A, T>(x, T::magic_power(lift));
    (p_of::<A, T>(r, T::exp_tail::<A>(r)), T::power_of_two(bits))
}

/// Returns [`exp_lifted`] of `x + rest`.
#[inline(always)]
pub(crate) fn exp_lifted_sum<A: Arith, T: Float>(x: T, rest: T, lift: i32) -> (T, T) {
    let magic = T::magic_power(lift);
    let shifted = x.fma::<A>(T::of(LOG2_E), magic);
    let n = shifted - magic;
    let r = (-n).fma::<A>(T::LN_2.0, x) + (-n).fma::<A>(T::LN_2.1, rest);
    (
        p_of::<A, T>(r, T::exp_tail::<A>(r)),
        T::power_of_two(shifted.bits()),
    )
}

/// Returns `[r, q]` and `[a, b]` with `e^(x + rest) = (1 + r + q) a b`, for `x <= 0`.
///
/// `a` and `b` are powers of two, and `q` is less than `r^2`. `(1 + r + q) a` is never denormal, so
/// a product with it only loses digits in the multiplication by `b`.
#[inline(always)]
pub(crate) fn exp_parts<A: Arith, T: Float>(x: T, rest: T) -> ([T; 2], [T; 2]) {
    let x = x.at_least(T::EXP_RANGE.0);
    let (bits, terms) = reduced::<A, T>(x, rest, T::magic_power(T::LIFT.0));
    (terms, [T::power_of_two(bits), T::LIFT.1])
}

/// Returns `e^(x + rest)`, for `x` up to the upper end of [`Exp::EXP_RANGE`].
#[inline(always)]
pub(crate) fn exp_below_max<A: Arith, T: Float>(x: T, rest: T) -> T {
    let (bits, [r, q]) = reduced::<A, T>(x.at_least(T::EXP_RANGE.0), rest, T::magic_powers());
    scaled::<A, T>(q + r, bits)
}

/// Returns `(1 + p) 2^n` from the bits of `magic_powers() + n`.
#[inline(always)]
fn scaled<A: Arith, T: Float>(p: T, bits: T::Bits) -> T {
    let (a, b) = T::powers_of_two(bits);
    p.fma::<A>(a, a) * b
}

/// Returns the bits of `magic + n`, and `r` and `q`, with `e^(x + rest) = 2^n (1 + r + q)`.
#[inline(always)]
fn reduced<A: Arith, T: Float>(x: T, rest: T, magic: T) -> (T::Bits, [T; 2]) {
    let shifted = x.fma::<A>(T::of(LOG2_E), magic);
    // The first difference is exact. The rounding error of r is added to the small terms.
    let n = shifted - magic;
    let head = (-n).fma::<A>(T::LN_2.0, x);
    let (r, r_rest) = head.fast_two_sum((-n).fma::<A>(T::LN_2.1, rest));
    let q = T::exp_tail::<A>(r).fma::<A>(r * r, r_rest);
    (shifted.bits(), [r, q])
}

/// Returns the bits of `magic + n`, and `r`, with `x = n log 2 + r`.
#[inline(always)]
fn split<A: Arith, T: Float>(x: T, magic: T) -> (T::Bits, T) {
    let shifted = x.fma::<A>(T::of(LOG2_E), magic);
    let n = shifted - magic;
    let r = (-n).fma::<A>(T::LN_2.0, x);
    (shifted.bits(), (-n).fma::<A>(T::LN_2.1, r))
}

/// Returns `e^r - 1`, where `tail` is `Q(r)`.
#[inline(always)]
fn p_of<A: Arith, T: Float>(r: T, tail: T) -> T {
    tail.fma::<A>(r * r, r)
}
