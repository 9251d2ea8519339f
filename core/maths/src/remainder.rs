//! Remainders of truncated quotients that fit a vector, with the bits of `x % y`.
//!
//! Each function returns a remainder, and whether it is exact. A loop computes the others as `x % y`.
//! The quotient is computed in `f64`. The functions for floats of 64 bits need a fused multiply-add.

/// Bound of quotients of `f32`: the product with a divisor is exact, and rounding reaches no other integer.
const MOST_32: f64 = (1u64 << 29) as f64;

/// Bound of quotients of `f64`: rounding reaches at most the next integer.
const MOST_64: f64 = (1u64 << 52) as f64;

/// Number whose sum with an integer below `2^51` has the integer in its low bits.
const SHIFT: f64 = (3u64 << 51) as f64;

/// Returns `x % y`, and whether it is exact.
#[inline(always)]
pub fn f32(x: f32, y: f32) -> (f32, bool) {
    let (a, b) = (f64::from(x), f64::from(y));
    let quotient = a / b;
    let rest = a - quotient.trunc() * b;
    // An infinite divisor gives NaN.
    let exact = (quotient.abs() < MOST_32) & !rest.is_nan();
    ((rest as f32).copysign(x), exact)
}

/// Returns `x % y`, and whether it is exact.
#[inline(always)]
pub fn f64(x: f64, y: f64) -> (f64, bool) {
    let quotient = x / y;
    let rest = (-quotient.trunc()).mul_add(y, x);
    // The quotient was rounded to the next integer.
    let crossed = if x < 0.0 { rest > 0.0 } else { rest < 0.0 };
    let rest = if crossed {
        rest + y.abs().copysign(x)
    } else {
        rest
    };
    let exact = (quotient.abs() < MOST_64) & !rest.is_nan();
    (rest.copysign(x), exact)
}

/// Returns `x.wrapping_rem(y)`, or 0 if `y` is 0; it is always exact.
#[inline(always)]
pub fn i32(x: i32, y: i32) -> (i32, bool) {
    let rest = shifted_rest(f64::from(x), f64::from(y)) as i32;
    (if y == 0 { 0 } else { rest }, true)
}

/// Returns `x.wrapping_rem(y)`, or 0 if `y` is 0, and whether it is exact.
#[inline(always)]
pub fn i64(x: i64, y: i64) -> (i64, bool) {
    const HALF: i64 = 1 << 50;
    let rest = shifted_rest(x as f64, y as f64).wrapping_sub(SHIFT.to_bits()) as i64;
    let is_small = |x: i64| (x.wrapping_add(HALF) as u64) < 2 * HALF as u64;
    (if y == 0 { 0 } else { rest }, is_small(x) & is_small(y))
}

/// Returns the bits of the sum of [`SHIFT`] and the remainder of two integers.
#[inline(always)]
fn shifted_rest(x: f64, y: f64) -> u64 {
    (x - (x / y).trunc() * y + SHIFT).to_bits()
}
