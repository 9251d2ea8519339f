//! The float types, and the operations that the functions are built from.

use crate::Arith;
use crate::bessel::Bessel;
use crate::erf::Erf;
use crate::erf_inv::InverseErf;
use crate::exp::Exp;
use crate::gamma::Polygamma;
use crate::incomplete_gamma::IncompleteGamma;
use crate::log::Log;
use crate::pow::Pow;
use crate::sigmoid::Sigmoid;
use crate::trig::Trig;
use crate::zeta::Zeta;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A float type: `f32` or `f64`.
pub trait Float:
    Exp + Log + Erf + InverseErf + Bessel + Sigmoid + Pow + Trig + Zeta + Polygamma + IncompleteGamma
{
    /// Returns the number of this type nearest to `x`.
    fn of(x: f64) -> Self;
    /// Returns the number in double precision.
    fn wide(self) -> f64;
}

/// The operations and constants of a float type that the functions need.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The unsigned integer of the same size.
    type Bits: Copy;

    /// `1.5 * 2^p` for a type with `p + 1` digits.
    ///
    /// Adding it to a number rounds to an integer, to nearest with ties to even. The low bits of
    /// the sum hold the integer in two's complement.
    const MAGIC: Self;
    /// The factor of Veltkamp's splitting in [`Real::split`], `2^(half of the digits) + 1`.
    const SPLITTER: Self;

    /// Returns `self * b + c`.
    fn fma<A: Arith>(self, b: Self, c: Self) -> Self;
    /// Returns the absolute value.
    fn abs(self) -> Self;
    /// Returns the absolute value with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// Returns whether this is a NaN.
    fn is_nan(self) -> bool;
    /// Returns whether the sign bit is set.
    fn is_negative(self) -> bool;
    /// Returns the bits.
    fn bits(self) -> Self::Bits;
    /// Returns [`MAGIC`](Real::MAGIC) plus an offset for [`Real::power_of_two`].
    ///
    /// From the bits of `magic_power(lift) + n`, that function makes `2^(n + lift)`.
    fn magic_power(lift: i32) -> Self;
    /// Returns a power of two. See [`Real::magic_power`]. The result must be a normal number.
    fn power_of_two(bits: Self::Bits) -> Self;
    /// Returns [`MAGIC`](Real::MAGIC) plus an offset for [`Real::powers_of_two`].
    fn magic_powers() -> Self;
    /// Returns two powers of two whose product is `2^n`, from the bits of `magic_powers() + n`.
    ///
    /// Their exponents differ by at most 1, so they are normal where `2^n` is not.
    fn powers_of_two(bits: Self::Bits) -> (Self, Self);

    /// Returns the larger of this and `bound`. NaN stays NaN.
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        if self < bound { bound } else { self }
    }

    /// Returns the smaller of this and `bound`. NaN stays NaN.
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        if self > bound { bound } else { self }
    }

    /// Returns the value of the polynomial with these coefficients, the highest first.
    ///
    /// Pairs of terms are summed in powers of the square (half of Estrin's scheme). The chain of
    /// dependent operations is half as long as in Horner's scheme.
    #[inline(always)]
    fn polynomial<A: Arith, const N: usize>(self, coefficients: [Self; N]) -> Self {
        let square = self * self;
        let mut value = coefficients[0].fma::<A>(self, coefficients[1]);
        let mut i = 2;
        while i + 1 < N {
            let pair = coefficients[i].fma::<A>(self, coefficients[i + 1]);
            value = value.fma::<A>(square, pair);
            i += 2;
        }
        if i < N {
            value = value.fma::<A>(self, coefficients[i]);
        }
        value
    }

    /// Returns the value of the same polynomial by Horner's scheme.
    ///
    /// It has one multiplication less than [`Real::polynomial`] but a longer dependency chain.
    #[inline(always)]
    fn horner<A: Arith, const N: usize>(self, coefficients: [Self; N]) -> Self {
        let mut value = coefficients[0];
        let mut i = 1;
        while i < N {
            value = value.fma::<A>(self, coefficients[i]);
            i += 1;
        }
        value
    }

    /// Returns `a + b` and its rounding error (Knuth).
    #[inline(always)]
    fn two_sum(self, other: Self) -> (Self, Self) {
        let sum = self + other;
        let back = sum - self;
        (sum, (self - (sum - back)) + (other - back))
    }

    /// Returns `a + b` and its rounding error, if `|a| >= |b|` or `a` is 0 (Dekker).
    #[inline(always)]
    fn fast_two_sum(self, other: Self) -> (Self, Self) {
        let sum = self + other;
        (sum, other - (sum - self))
    }

    /// Splits a number into two parts of half the digits each (Veltkamp).
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let c = self * Self::SPLITTER;
        let head = c - (c - self);
        (head, self - head)
    }

    /// Returns `a * b` and its rounding error, if the product is in the normal range (Dekker).
    #[inline(always)]
    fn two_product<A: Arith>(self, other: Self) -> (Self, Self) {
        let product = self * other;
        if A::FUSED {
            return (product, self.fma::<A>(other, -product));
        }
        let ((a, b), (c, d)) = (self.split(), other.split());
        (product, ((a * c - product) + a * d + b * c) + b * d)
    }
}

macro_rules! floats {
    ($($t:ident $bits:ident $fma:ident $mantissa:literal $bias:literal $splitter:literal)*) => {$(
        impl Float for $t {
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
        }

        impl Real for $t {
            type Bits = $bits;

            const MAGIC: Self = 1.5 * (1u64 << $mantissa) as $t;
            const SPLITTER: Self = $splitter;

            #[inline(always)]
            fn fma<A: Arith>(self, b: Self, c: Self) -> Self {
                A::$fma(self, b, c)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                self.copysign(sign)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            #[inline(always)]
            fn bits(self) -> $bits {
                self.to_bits()
            }
            #[inline(always)]
            fn magic_power(lift: i32) -> Self {
                Self::MAGIC + ($bias + lift) as $t
            }
            #[inline(always)]
            fn power_of_two(bits: $bits) -> Self {
                // The shift drops the bits above the exponent.
                $t::from_bits(bits << $mantissa)
            }
            #[inline(always)]
            fn magic_powers() -> Self {
                Self::MAGIC + (2 * $bias) as $t
            }
            #[inline(always)]
            fn powers_of_two(bits: $bits) -> (Self, Self) {
                let half = bits >> 1;
                let other = bits.wrapping_sub(half);
                ($t::from_bits(half << $mantissa), $t::from_bits(other << $mantissa))
            }
        }
    )*};
}

floats! {
    f32 u32 fma32 23 127 4097.0
    f64 u64 fma64 52 1023 134217729.0
}
