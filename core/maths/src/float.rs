//! The two float types, and the operations on them that the functions are made of.

use crate::Arith;
use crate::erf::Erf;
use crate::exp::Exp;
use crate::log::Log;
use crate::pow::Pow;
use crate::sigmoid::Sigmoid;
use crate::trig::Trig;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// `f32` or `f64`.
pub trait Float: Exp + Log + Erf + Sigmoid + Pow + Trig {
    /// The nearest number of this type.
    fn of(x: f64) -> Self;
}

/// What the functions of this crate need to know of a float type.
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

    /// `1.5 * 2^p` where a number has `p + 1` digits. Adding it rounds to an integer, to nearest and ties to even,
    /// which the low bits of the sum hold in two's complement.
    const MAGIC: Self;
    /// The greatest factor by which [`Real::split`] splits a number, `2^(half of the digits) + 1`.
    const SPLITTER: Self;

    /// `self * b + c`.
    fn fma<A: Arith>(self, b: Self, c: Self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The absolute value of this with the sign of the other.
    fn copysign(self, sign: Self) -> Self;
    /// Whether it is no number.
    fn is_nan(self) -> bool;
    /// Whether the sign is set.
    fn is_negative(self) -> bool;
    /// The bits.
    fn bits(self) -> Self::Bits;
    /// [`MAGIC`](Real::MAGIC) for exponents: adding it to `n` makes the bits of which [`Real::power_of_two`] makes `2^(n + lift)`.
    fn magic_power(lift: i32) -> Self;
    /// See [`Real::magic_power`]. The exponent has to be that of a normal number.
    fn power_of_two(bits: Self::Bits) -> Self;
    /// [`MAGIC`](Real::MAGIC) for [`Real::powers_of_two`].
    fn magic_powers() -> Self;
    /// Two powers of two whose product is `2^n` and whose exponents differ by at most 1, from the bits of
    /// `magic_powers() + n`.
    fn powers_of_two(bits: Self::Bits) -> (Self, Self);

    /// This, or the bound if it is less than that. NaN stays.
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        if self < bound { bound } else { self }
    }

    /// This, or the bound if it is greater than that. NaN stays.
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        if self > bound { bound } else { self }
    }

    /// The value of the polynomial with these coefficients, the highest first: pairs of terms, in powers of the square
    /// (half of Estrin's scheme), and the last of an odd number by itself. It takes half as long as Horner's, and loops wait
    /// for it.
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

    /// The same by Horner's scheme, which is one multiplication less: for what nothing waits for.
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

    /// `a + b` and its rounding error (Knuth).
    #[inline(always)]
    fn two_sum(self, other: Self) -> (Self, Self) {
        let sum = self + other;
        let back = sum - self;
        (sum, (self - (sum - back)) + (other - back))
    }

    /// `a + b` and its rounding error, if `|a| >= |b|` or `a` is 0 (Dekker).
    #[inline(always)]
    fn fast_two_sum(self, other: Self) -> (Self, Self) {
        let sum = self + other;
        (sum, other - (sum - self))
    }

    /// Two parts of half the digits each (Veltkamp).
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let c = self * Self::SPLITTER;
        let head = c - (c - self);
        (head, self - head)
    }

    /// `a * b` and its rounding error, where neither over- nor underflows (Dekker).
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
                // What is above the exponent goes.
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
