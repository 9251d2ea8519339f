//! What kernels need to know of numbers, beyond what all elements have.

use crate::dtype::Element;
use gradloom_ir::op::element::{exp, log};
use gradloom_maths::Arith;

/// A type of numbers. Integers wrap.
pub(crate) trait Number: Element {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The quotient by a count.
    fn over(self, n: usize) -> Self;
    /// An integer in the order of the numbers.
    type Key: Copy + Ord + Send + Sync;
    const LEAST: Self::Key;
    const GREATEST: Self::Key;
    /// A NaN may have any key, and -0 is below 0.
    fn key(self) -> Self::Key;
    /// The number of a key; of [`Number::LEAST`] and [`Number::GREATEST`] for floats a NaN.
    fn of_key(key: Self::Key) -> Self;
    fn is_number(self) -> bool;
    /// Whether this is greater, or a NaN where the other is none.
    fn above(self, other: Self) -> bool;
    /// Whether the other is not [above](Number::above) this.
    fn at_least(self, other: Self) -> bool;
    /// Whether the other is not [below](Number::below) this.
    fn at_most(self, other: Self) -> bool;
    /// Whether this is less, or a NaN where the other is none.
    fn below(self, other: Self) -> bool;
}

/// A type of floats.
pub(crate) trait Float: Number {
    fn minus(self, other: Self) -> Self;
    /// As the op `exp`.
    fn exp<A: Arith>(self) -> Self;
    /// As the op `log`.
    fn log<A: Arith>(self) -> Self;
    /// `self * b + c`.
    fn fma<A: Arith>(self, b: Self, c: Self) -> Self;
    fn sqrt(self) -> Self;
    fn recip(self) -> Self;
    fn is_finite(self) -> bool;
    fn of(x: f64) -> Self;
}

macro_rules! ints {
    ($($t:ty)*) => {$(
        impl Number for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            type Key = $t;
            const LEAST: $t = <$t>::MIN;
            const GREATEST: $t = <$t>::MAX;
            #[inline(always)]
            fn key(self) -> $t {
                self
            }
            #[inline(always)]
            fn of_key(key: $t) -> Self {
                key
            }
            #[inline(always)]
            fn is_number(self) -> bool {
                true
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn over(self, n: usize) -> Self {
                (i128::from(self) / (n as i128).max(1)) as Self
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                self > other
            }
            #[inline(always)]
            fn at_least(self, other: Self) -> bool {
                self >= other
            }
            #[inline(always)]
            fn at_most(self, other: Self) -> bool {
                self <= other
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ident $key:ident $fma:ident;)*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            type Key = $key;
            const LEAST: $key = $key::MIN;
            const GREATEST: $key = $key::MAX;
            #[inline(always)]
            fn key(self) -> $key {
                // The bits of a negative number fall where the number rises: all but the sign are turned.
                let bits = self.to_bits() as $key;
                bits ^ ((bits >> ($key::BITS - 1)) & $key::MAX)
            }
            #[inline(always)]
            fn of_key(key: $key) -> Self {
                let bits = key ^ ((key >> ($key::BITS - 1)) & $key::MAX);
                $t::from_bits(bits as _)
            }
            #[inline(always)]
            fn is_number(self) -> bool {
                !self.is_nan()
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn over(self, n: usize) -> Self {
                self / n as $t
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                (self > other) | (self.is_nan() & !other.is_nan())
            }
            #[inline(always)]
            fn at_least(self, other: Self) -> bool {
                (self >= other) | self.is_nan()
            }
            #[inline(always)]
            fn at_most(self, other: Self) -> bool {
                (self <= other) | self.is_nan()
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                (self < other) | (self.is_nan() & !other.is_nan())
            }
        }

        impl Float for $t {
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn exp<A: Arith>(self) -> Self {
                exp::$t::<A>(self)
            }
            #[inline(always)]
            fn log<A: Arith>(self) -> Self {
                log::$t::<A>(self)
            }
            #[inline(always)]
            fn fma<A: Arith>(self, b: Self, c: Self) -> Self {
                A::$fma(self, b, c)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn recip(self) -> Self {
                $t::recip(self)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
        }
    )*};
}

ints! { i32 i64 }
floats! { f32 i32 fma32; f64 i64 fma64; }
