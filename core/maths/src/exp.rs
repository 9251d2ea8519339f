//! `exp` and `expm1`.
//!
//! `x = n log 2 + r` with `|r| <= log(2) / 2`, and `e^r = 1 + r + r^2 Q(r)`. `log 2` is in two parts, the first of which
//! has few enough digits that `n` times it is exact (Cody and Waite, "Software Manual for the Elementary Functions",
//! 1980). `Q` is the minimax polynomial (Remez).

use crate::float::Real;
use crate::{Arith, Float};
use std::f64::consts::LOG2_E;

/// What is particular to a type.
pub trait Exp: Real {
    /// `log 2` in two parts.
    const LN_2: (Self, Self);
    /// Below the first the exponential is 0, also a hundred times it; beyond the second it is infinite.
    const EXP_RANGE: (Self, Self);
    /// An exponent that makes every power of two normal that is in the range and at most 1, and the power that takes it back.
    const LIFT: (i32, Self);
    /// Below it `expm1` is -1.
    const EXPM1_MIN: Self;
    /// Below it `expm1` is the identity.
    const EXPM1_TINY: Self;
    /// `(e^r - 1 - r) / r^2` to a relative error of `e^r` that is much smaller than its rounding error.
    fn exp_tail<A: Arith>(r: Self) -> Self;
    /// The same, to a relative error of `e^r - 1`.
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

/// What the exponential is made of, for loops in vectors of their own.
pub mod exp_of {
    /// In single precision.
    pub mod f32 {
        /// Below it the exponential is 0, also a hundred times it.
        pub const LEAST: f32 = -120.0;
        /// `log 2` in two parts.
        pub const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
        /// `(e^r - 1 - r) / r^2` in powers of `r`, the highest first.
        pub const TAIL: [f32; 5] = [0.0013950602, 0.008368953, 0.041666206, 0.16666518, 0.5];
    }
    /// In double precision.
    pub mod f64 {
        /// Below it the exponential is 0, also a hundred times it.
        pub const LEAST: f64 = -800.0;
        /// `log 2` in two parts, the first of which has 32 digits.
        pub const LN_2: (f64, f64) = (0.6931471803691238, 1.9082149292705877e-10);
        /// `(e^r - 1 - r) / r^2` in powers of `r`, the highest first.
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

/// `e^x`, to 1.1 ulp.
#[inline(always)]
pub fn exp<A: Arith, T: Float>(x: T) -> T {
    let x = x.at_most(T::EXP_RANGE.1).at_least(T::EXP_RANGE.0);
    let (bits, r) = split::<A, T>(x, T::magic_powers());
    scaled::<A, T>(p_of::<A, T>(r, T::exp_tail::<A>(r)), bits)
}

/// `e^x - 1`, to 2 ulp also where it is small.
#[inline(always)]
pub fn expm1<A: Arith, T: Float>(x: T) -> T {
    let bounded = x.at_least(T::EXPM1_MIN).at_most(T::EXP_RANGE.1);
    // 2^n may be more than the greatest number: half of it.
    let (bits, r) = split::<A, T>(bounded, T::magic_power(-1));
    let p = p_of::<A, T>(r, T::expm1_tail::<A>(r));
    let scale = T::power_of_two(bits);
    let y = p.fma::<A>(scale, scale - T::of(0.5));
    if x.abs() < T::EXPM1_TINY { x } else { y + y }
}

/// `e^x` where `x` is not positive.
#[inline(always)]
pub(crate) fn exp_negative<A: Arith, T: Float>(x: T) -> T {
    let (p, scale) = exp_lifted::<A, T>(x.at_least(T::EXP_RANGE.0), T::LIFT.0);
    p.fma::<A>(scale, scale) * T::LIFT.1
}

/// `p` and `s` with `e^x = (1 + p) s 2^-lift`. The power of two `s` has to be normal.
#[inline(always)]
pub(crate) fn exp_lifted<A: Arith, T: Float>(x: T, lift: i32) -> (T, T) {
    let (bits, r) = split::<A, T>(x, T::magic_power(lift));
    (p_of::<A, T>(r, T::exp_tail::<A>(r)), T::power_of_two(bits))
}

/// [`exp_lifted`] of `x + rest`.
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

/// `e^(x + rest) = (1 + r + q) a b` with powers of two `a` and `b`, and `q` less than `r^2`, where `x` is not positive.
///
/// `(1 + r + q) a` is never denormal, so a product with it is rounded before `b` alone.
#[inline(always)]
pub(crate) fn exp_parts<A: Arith, T: Float>(x: T, rest: T) -> ([T; 2], [T; 2]) {
    let x = x.at_least(T::EXP_RANGE.0);
    let (bits, terms) = reduced::<A, T>(x, rest, T::magic_power(T::LIFT.0));
    (terms, [T::power_of_two(bits), T::LIFT.1])
}

/// `e^(x + rest)` where `x` is at most the upper end of [`Exp::EXP_RANGE`].
#[inline(always)]
pub(crate) fn exp_below_max<A: Arith, T: Float>(x: T, rest: T) -> T {
    let (bits, [r, q]) = reduced::<A, T>(x.at_least(T::EXP_RANGE.0), rest, T::magic_powers());
    scaled::<A, T>(q + r, bits)
}

/// `(1 + p) 2^n`, with the bits of `magic_powers() + n`.
#[inline(always)]
fn scaled<A: Arith, T: Float>(p: T, bits: T::Bits) -> T {
    let (a, b) = T::powers_of_two(bits);
    p.fma::<A>(a, a) * b
}

/// `e^(x + rest) = 2^n (1 + r + q)`: the bits of `magic + n`, and `r` and `q`.
#[inline(always)]
fn reduced<A: Arith, T: Float>(x: T, rest: T, magic: T) -> (T::Bits, [T; 2]) {
    let shifted = x.fma::<A>(T::of(LOG2_E), magic);
    // The first difference is exact, and what r lacks is added to the small terms.
    let n = shifted - magic;
    let head = (-n).fma::<A>(T::LN_2.0, x);
    let (r, r_rest) = head.fast_two_sum((-n).fma::<A>(T::LN_2.1, rest));
    let q = T::exp_tail::<A>(r).fma::<A>(r * r, r_rest);
    (shifted.bits(), [r, q])
}

/// `x = n log 2 + r`: the bits of `magic + n`, and `r`.
#[inline(always)]
fn split<A: Arith, T: Float>(x: T, magic: T) -> (T::Bits, T) {
    let shifted = x.fma::<A>(T::of(LOG2_E), magic);
    let n = shifted - magic;
    let r = (-n).fma::<A>(T::LN_2.0, x);
    (shifted.bits(), (-n).fma::<A>(T::LN_2.1, r))
}

/// `e^r - 1`, with `tail` the value of `Q(r)`.
#[inline(always)]
fn p_of<A: Arith, T: Float>(r: T, tail: T) -> T {
    tail.fma::<A>(r * r, r)
}
