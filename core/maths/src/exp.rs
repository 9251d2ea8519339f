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
    /// The same, for `0 <= r <= log(2)`.
    fn expm1_tail_above<A: Arith>(r: Self) -> Self;
}

impl Exp for f32 {
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    const EXP_RANGE: (f32, f32) = (-120.0, 89.0);
    const LIFT: (i32, f32) = (64, 1.0 / (1u128 << 64) as f32);
    const EXPM1_MIN: f32 = -20.0;
    const EXPM1_TINY: f32 = 2.9802322e-8;

    #[inline(always)]
    fn exp_tail<A: Arith>(r: f32) -> f32 {
        r.polynomial::<A, 5>([0.0013950602, 0.008368953, 0.041666206, 0.16666518, 0.5])
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
    #[inline(always)]
    fn expm1_tail_above<A: Arith>(r: f32) -> f32 {
        r.polynomial::<A, 6>([
            0.00026787844,
            0.0013211959,
            0.0083648395,
            0.04165936,
            0.16666743,
            0.49999997,
        ])
    }
}

impl Exp for f64 {
    // The first part has 32 digits.
    const LN_2: (f64, f64) = (0.6931471803691238, 1.9082149292705877e-10);
    const EXP_RANGE: (f64, f64) = (-800.0, 710.0);
    // 2^-512
    const LIFT: (i32, f64) = (512, f64::from_bits((1023 - 512) << 52));
    const EXPM1_MIN: f64 = -40.0;
    const EXPM1_TINY: f64 = 5.551115123125783e-17;

    #[inline(always)]
    fn exp_tail<A: Arith>(r: f64) -> f64 {
        r.polynomial::<A, 10>([
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
        ])
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
    #[inline(always)]
    fn expm1_tail_above<A: Arith>(r: f64) -> f64 {
        r.polynomial::<A, 11>([
            2.871839890378413e-09,
            2.3564532549283984e-08,
            2.771477886552178e-07,
            2.7546887505509027e-06,
            2.4802039908928593e-05,
            0.00019841256837636764,
            0.0013888889132818488,
            0.008333333330464687,
            0.04166666666686209,
            0.16666666666666005,
            0.5000000000000001,
        ])
    }
}

/// `e^x`, to 1.1 ulp.
#[inline(always)]
pub fn exp<A: Arith, T: Float>(x: T) -> T {
    exp_below_max::<A, T>(x.at_most(T::EXP_RANGE.1), None)
}

/// `e^x - 1`, to 2 ulp also where it is small.
#[inline(always)]
pub fn expm1<A: Arith, T: Float>(x: T) -> T {
    let bounded = x.at_least(T::EXPM1_MIN).at_most(T::EXP_RANGE.1);
    let (n, r) = split::<A, T>(bounded, bounded.fma::<A>(T::of(LOG2_E), T::MAGIC));
    let p = T::expm1_tail::<A>(r).fma::<A>(r * r, r);
    // 2^n may be more than the greatest number: half of it.
    let scale = T::power_of_two(n, -1);
    let y = p.fma::<A>(scale, scale - T::of(0.5));
    if x.abs() < T::EXPM1_TINY { x } else { y + y }
}

/// `e^x` where `x` is not positive.
#[inline(always)]
pub(crate) fn exp_negative<A: Arith, T: Float>(x: T) -> T {
    let (p, [a, b]) = exp_parts::<A, T>(x, None);
    (p + T::of(1.0)) * a * b
}

/// `e^(x + rest) = (1 + p) a b` with powers of two `a` and `b`, where `x` is not positive.
///
/// `(1 + p) a` is never denormal, so a product with it is rounded before `b` alone.
#[inline(always)]
pub(crate) fn exp_parts<A: Arith, T: Float>(x: T, rest: Option<T>) -> (T, [T; 2]) {
    let (n, p) = reduced::<A, T>(x.at_least(T::EXP_RANGE.0), rest);
    (p, [T::power_of_two(n, T::LIFT.0), T::LIFT.1])
}

/// `e^(x + rest)` where `x` is at most the upper end of [`Exp::EXP_RANGE`].
#[inline(always)]
pub(crate) fn exp_below_max<A: Arith, T: Float>(x: T, rest: Option<T>) -> T {
    let (n, p) = reduced::<A, T>(x.at_least(T::EXP_RANGE.0), rest);
    let (a, b) = T::halves(n);
    (p + T::of(1.0)) * T::power_of_two(a, 0) * T::power_of_two(b, 0)
}

/// `e^x - 1` for `0 <= x < 64`.
#[inline(always)]
pub(crate) fn expm1_moderate<A: Arith, T: Float>(x: T) -> T {
    // r >= 0: then neither p nor the sum cancels.
    let below = x.fma::<A>(T::of(LOG2_E), T::of(-0.5));
    let (n, r) = split::<A, T>(x, below + T::MAGIC);
    let p = T::expm1_tail_above::<A>(r).fma::<A>(r * r, r);
    let scale = T::power_of_two(n, 0);
    p.fma::<A>(scale, scale - T::of(1.0))
}

/// `n` in the low bits, and `p` with `e^(x + rest) = 2^n (1 + p)`.
#[inline(always)]
fn reduced<A: Arith, T: Float>(x: T, rest: Option<T>) -> (T::Bits, T) {
    let shifted = x.fma::<A>(T::of(LOG2_E), T::MAGIC);
    let Some(rest) = rest else {
        let (n, r) = split::<A, T>(x, shifted);
        return (n, T::exp_tail::<A>(r).fma::<A>(r * r, r));
    };
    // As `split`, and what r lacks is added to the small terms.
    let n = shifted - T::MAGIC;
    let head = (-n).fma::<A>(T::LN_2.0, x);
    let (r, r_rest) = head.fast_two_sum((-n).fma::<A>(T::LN_2.1, rest));
    (
        shifted.bits(),
        T::exp_tail::<A>(r).fma::<A>(r * r, r_rest) + r,
    )
}

/// `n` in the low bits, and `r` with `x = n log 2 + r`, where `shifted` is [`MAGIC`](Real::MAGIC)` + n`.
#[inline(always)]
fn split<A: Arith, T: Float>(x: T, shifted: T) -> (T::Bits, T) {
    let n = shifted - T::MAGIC;
    let r = (-n).fma::<A>(T::LN_2.0, x);
    (shifted.bits(), (-n).fma::<A>(T::LN_2.1, r))
}
