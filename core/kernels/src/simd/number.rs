//! Numeric and float element types of kernels.

use crate::memory::element::Element;
use crate::simd::lanes::{extremum, index_of};
use crate::simd::vector::{Array, Floats, Simd, Vector};
use gradloom_ir::op::element::{exp, log};
use gradloom_maths::Arith;
use gradloom_maths::exp_of;

/// Numeric element type. Integer arithmetic wraps.
pub(crate) trait Number: Element {
    const ZERO: Self;
    const ONE: Self;
    /// Additive identity that preserves -0.0.
    const NOTHING: Self;
    /// Vectors of a SIMD level.
    type Vectors<S: Simd>: Vector<T = Self>;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Returns `self * b + c`; for floats, fused if the level has it.
    fn fma<A: Arith>(self, b: Self, c: Self) -> Self;
    /// Returns the quotient by a count.
    fn over(self, n: usize) -> Self;
    /// Returns the factor whose products are the quotients by `n`, if there is one.
    fn reciprocal(n: usize) -> Option<Self>;
    /// Integer that orders the numbers.
    type Key: Copy + Ord + Send + Sync;
    const LEAST: Self::Key;
    const GREATEST: Self::Key;
    /// Returns the key of a number. The key of NaN is arbitrary, and -0 is below 0.
    fn key(self) -> Self::Key;
    /// Returns the number with this key; for floats, [`Number::LEAST`] and [`Number::GREATEST`]
    /// give NaN.
    fn of_key(key: Self::Key) -> Self;
    fn is_number(self) -> bool;
    /// Returns whether `self` is greater, where NaN is greater than any number.
    fn above(self, other: Self) -> bool;
    /// Returns the greatest of the numbers, or NaN if there is one; 0 is greater than -0.
    fn greatest<const N: usize>(self, others: [Self; N]) -> Self;
    /// Returns the least of the numbers, or NaN if there is one; -0 is less than 0.
    fn least<const N: usize>(self, others: [Self; N]) -> Self;
    /// Returns the [greatest](Self::greatest) of two numbers.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        self.greatest([other])
    }
    /// Returns the [least](Self::least) of two numbers.
    #[inline(always)]
    fn less(self, other: Self) -> Self {
        self.least([other])
    }
    /// Returns whether `self` is less, where NaN is less than any number.
    fn below(self, other: Self) -> bool;
    /// Returns the [greatest](Self::greatest) of at least one number.
    fn row_greatest<S: Simd>(xs: &[Self]) -> Self;
    /// Returns the [least](Self::least) of at least one number.
    fn row_least<S: Simd>(xs: &[Self]) -> Self;
    /// Returns the first index of a number, where zeros are equal.
    fn row_index<S: Simd>(xs: &[Self], number: Self) -> Option<usize>;
}

/// Float element type.
pub(crate) trait Float: Number + PartialOrd {
    /// Vectors of a SIMD level, the same as [`Number::Vectors`].
    type Floats<S: Simd>: Floats<T = Self>;
    /// Argument from which downwards the exponential rounds to 0, even times 100.
    const EXP_LEAST: Self;
    /// `log 2` in two parts. The product of the first with an exponent is exact.
    const LN_2: (Self, Self);
    /// `1.5 * 2^p`: adding it rounds to an integer.
    const MAGIC: Self;
    /// Coefficients of `(e^r - 1 - r) / r^2`, highest degree first.
    const EXP_TAIL: &[Self];
    /// Returns `self 2^n`, rounded once, as [`Floats::scaled`].
    fn scaled(self, n: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    /// Returns `e^self`, as the op `exp`.
    fn exp<A: Arith>(self) -> Self;
    /// Returns the natural logarithm, as the op `log`.
    fn log<A: Arith>(self) -> Self;
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
            const NOTHING: Self = 0;
            type Vectors<S: Simd> = Array<$t>;
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
            fn fma<A: Arith>(self, b: Self, c: Self) -> Self {
                self.times(b).plus(c)
            }
            #[inline(always)]
            fn over(self, n: usize) -> Self {
                (i128::from(self) / (n as i128).max(1)) as Self
            }
            #[inline(always)]
            fn reciprocal(_: usize) -> Option<Self> {
                None
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                self > other
            }
            #[inline(always)]
            fn greatest<const N: usize>(self, others: [Self; N]) -> Self {
                others.into_iter().fold(self, Ord::max)
            }
            #[inline(always)]
            fn least<const N: usize>(self, others: [Self; N]) -> Self {
                others.into_iter().fold(self, Ord::min)
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn row_greatest<S: Simd>(xs: &[Self]) -> Self {
                xs.iter().fold(<$t>::MIN, |most, x| most.max(*x))
            }
            #[inline(always)]
            fn row_least<S: Simd>(xs: &[Self]) -> Self {
                xs.iter().fold(<$t>::MAX, |least, x| least.min(*x))
            }
            #[inline(always)]
            fn row_index<S: Simd>(xs: &[Self], number: Self) -> Option<usize> {
                index_by_parts(xs, number)
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ident $key:ident $fma:ident $vector:ident $lift:literal;)*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NOTHING: Self = -0.0;
            type Vectors<S: Simd> = S::$vector;
            type Key = $key;
            const LEAST: $key = $key::MIN;
            const GREATEST: $key = $key::MAX;
            #[inline(always)]
            fn fma<A: Arith>(self, b: Self, c: Self) -> Self {
                A::$fma(self, b, c)
            }
            #[inline(always)]
            fn key(self) -> $key {
                // The bits of negative floats descend as the number ascends, so all bits but the
                // sign are flipped.
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
            fn reciprocal(n: usize) -> Option<Self> {
                n.is_power_of_two().then(|| 1.0 / n as $t)
            }
            #[inline(always)]
            #[expect(
                clippy::neg_cmp_op_on_partial_ord,
                reason = "true if one is NaN, which takes no comparison more"
            )]
            fn above(self, other: Self) -> bool {
                !(self <= other) & !other.is_nan()
            }
            #[inline(always)]
            fn greatest<const N: usize>(self, others: [Self; N]) -> Self {
                // A selection is one instruction, which returns the second of equal operands.
                let most = others.into_iter().fold(self, |y, x| if x > y { x } else { y });
                // The greatest is negative if all are. This corrects the sign of a zero.
                let all = others.into_iter().fold(self.to_bits(), |y, x| y & x.to_bits());
                let most = $t::from_bits(most.to_bits() & (all | !(-0.0 as $t).to_bits()));
                if any_nan(self, others) { $t::NAN } else { most }
            }
            #[inline(always)]
            fn least<const N: usize>(self, others: [Self; N]) -> Self {
                let least = others.into_iter().fold(self, |y, x| if x < y { x } else { y });
                // The least is negative if any is. This corrects the sign of a zero.
                let any = others.into_iter().fold(self.to_bits(), |y, x| y | x.to_bits());
                let least = $t::from_bits(least.to_bits() | (any & (-0.0 as $t).to_bits()));
                if any_nan(self, others) { $t::NAN } else { least }
            }
            #[inline(always)]
            #[expect(
                clippy::neg_cmp_op_on_partial_ord,
                reason = "true if one is NaN, which takes no comparison more"
            )]
            fn below(self, other: Self) -> bool {
                !(self >= other) & !other.is_nan()
            }
            #[inline(always)]
            fn row_greatest<S: Simd>(xs: &[Self]) -> Self {
                if S::FUSED {
                    return extremum::<S::$vector, false>(xs);
                }
                // The compiler orders the keys as vectors at the baseline level, too.
                let key = |x: &$t| if x.is_number() { x.key() } else { Self::GREATEST };
                Self::of_key(xs.iter().fold(Self::LEAST, |most, x| most.max(key(x))))
            }
            #[inline(always)]
            fn row_least<S: Simd>(xs: &[Self]) -> Self {
                if S::FUSED {
                    return extremum::<S::$vector, true>(xs);
                }
                let key = |x: &$t| if x.is_number() { x.key() } else { Self::LEAST };
                Self::of_key(xs.iter().fold(Self::GREATEST, |least, x| least.min(key(x))))
            }
            #[inline(always)]
            fn row_index<S: Simd>(xs: &[Self], number: Self) -> Option<usize> {
                if S::FUSED {
                    return index_of::<S::$vector>(xs, number);
                }
                index_by_parts(xs, number)
            }
        }

        impl Float for $t {
            type Floats<S: Simd> = S::$vector;
            const EXP_LEAST: Self = exp_of::$t::LEAST;
            const LN_2: (Self, Self) = exp_of::$t::LN_2;
            const MAGIC: Self = 1.5 * (1u64 << ($t::MANTISSA_DIGITS - 1)) as $t;
            const EXP_TAIL: &[Self] = &exp_of::$t::TAIL;
            #[inline(always)]
            fn scaled(self, n: Self) -> Self {
                // The factor 2^n is split in two, so that only the last product may be denormal.
                // The low bits of the sum hold `n`.
                const BIAS: $key = $t::MAX_EXP as $key - 1;
                const SHIFT: u32 = $t::MANTISSA_DIGITS - 1;
                let power = |n: $key| $t::from_bits((n.wrapping_add(BIAS) << SHIFT) as _);
                let n = (n + Self::MAGIC).to_bits() as $key;
                self * power(n.wrapping_add($lift)) * power(-$lift)
            }
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

/// Returns the first index of a number, where zeros are equal.
#[inline(always)]
fn index_by_parts<T: Number>(xs: &[T], number: T) -> Option<usize> {
    let mut before = before_part::<_, 64>(xs, number);
    before += before_part::<_, 8>(&xs[before..], number);
    Some(before + xs[before..].iter().position(|x| *x == number)?)
}

/// Returns the number of elements before the first `N`, as vectors, that contain a number.
#[inline(always)]
fn before_part<T: Number, const N: usize>(xs: &[T], number: T) -> usize {
    let mut before = 0;
    for part in xs.as_chunks::<N>().0 {
        let mut any = false;
        for x in part {
            any |= *x == number;
        }
        if any {
            break;
        }
        before += N;
    }
    before
}

/// Returns whether a number is NaN. One instruction tests two.
#[inline(always)]
fn any_nan<T: Number, const N: usize>(first: T, others: [T; N]) -> bool {
    let is_nan = |x: T| !x.is_number();
    let (pairs, rest) = others.as_chunks::<2>();
    let rest = rest.iter().fold(is_nan(first), |nan, x| nan | is_nan(*x));
    (pairs.iter()).fold(rest, |nan, [x, y]| nan | (is_nan(*x) | is_nan(*y)))
}

ints! { i32 i64 }
floats! { f32 i32 fma32 F32 64; f64 i64 fma64 F64 512; }
