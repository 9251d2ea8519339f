//! What kernels need to know of numbers, beyond what all elements have.

use crate::dtype::Element;

/// A type of numbers. Integers wrap.
pub(crate) trait Number: Element {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The quotient by a count.
    fn over(self, n: usize) -> Self;
    /// Whether this is greater, or a NaN where the other is none.
    fn above(self, other: Self) -> bool;
    /// Whether this is less, or a NaN where the other is none.
    fn below(self, other: Self) -> bool;
}

/// A type of floats.
pub(crate) trait Float: Number {
    fn minus(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
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
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn over(self, n: usize) -> Self {
                (i128::from(self) / (n as i128).max(1)) as Self
            }
            fn above(self, other: Self) -> bool {
                self > other
            }
            fn below(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn over(self, n: usize) -> Self {
                self / n as $t
            }
            fn above(self, other: Self) -> bool {
                self > other || (self.is_nan() && !other.is_nan())
            }
            fn below(self, other: Self) -> bool {
                self < other || (self.is_nan() && !other.is_nan())
            }
        }

        impl Float for $t {
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn exp(self) -> Self {
                $t::exp(self)
            }
            fn ln(self) -> Self {
                $t::ln(self)
            }
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            fn recip(self) -> Self {
                $t::recip(self)
            }
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            fn of(x: f64) -> Self {
                x as $t
            }
        }
    )*};
}

ints! { i32 i64 }
floats! { f32 f64 }
