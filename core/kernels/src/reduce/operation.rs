//! Operations that fold elements to one.

use super::rows::MIDDLE;
use crate::simd::lanes::{CHUNK, sum};
use crate::simd::number::Number;
use crate::simd::vector::Simd;

/// Associative operation that folds elements to one.
pub(crate) trait Reduction<T>: Copy + Send + Sync + 'static {
    /// Result of folding no elements.
    const EMPTY: T;
    /// Returns the number of elements from which [`row`](Self::row) is faster than folding columns of rows.
    #[inline(always)]
    fn least_row(self) -> usize {
        MIDDLE + 1
    }
    fn pair(self, x: T, y: T) -> T;
    /// Folds elements to `first`, in sequence if the order matters.
    #[inline(always)]
    fn all<const N: usize>(self, first: T, others: [T; N]) -> T {
        others.into_iter().fold(first, |x, y| self.pair(x, y))
    }
    /// Folds contiguous elements.
    fn row<S: Simd>(self, xs: &[T]) -> T;
}

/// Sum.
#[derive(Clone, Copy)]
pub(crate) struct Sum;

/// Maximum. NaN is greater than any number, and 0 is greater than -0.
#[derive(Clone, Copy)]
pub(crate) struct Max;

/// Minimum. NaN is less than any number, and -0 is less than 0.
#[derive(Clone, Copy)]
pub(crate) struct Min;

/// Product.
#[derive(Clone, Copy)]
pub(crate) struct Product;

/// Whether an element is true.
#[derive(Clone, Copy)]
pub(crate) struct Any;

/// Whether all elements are true.
#[derive(Clone, Copy)]
pub(crate) struct All;

impl<T: Number> Reduction<T> for Product {
    const EMPTY: T = T::ONE;
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.times(y)
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[T]) -> T {
        let mut lanes = [T::ONE; 32];
        let (chunks, rest) = xs.as_chunks::<32>();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane = lane.times(*x);
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane = lane.times(*x);
        }
        let mut half = lanes.len() / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = lanes[i].times(lanes[i + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

impl Reduction<bool> for Any {
    const EMPTY: bool = false;
    #[inline(always)]
    fn pair(self, x: bool, y: bool) -> bool {
        x | y
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[bool]) -> bool {
        xs.chunks(CHUNK)
            .any(|xs| xs.iter().fold(false, |y, x| y | x))
    }
}

impl Reduction<bool> for All {
    const EMPTY: bool = true;
    #[inline(always)]
    fn pair(self, x: bool, y: bool) -> bool {
        x & y
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[bool]) -> bool {
        xs.chunks(CHUNK)
            .all(|xs| xs.iter().fold(true, |y, x| y & x))
    }
}

impl<T: Number> Reduction<T> for Sum {
    const EMPTY: T = T::ZERO;
    #[inline(always)]
    fn least_row(self) -> usize {
        if T::TYPE.is_float() { 8 } else { MIDDLE + 1 }
    }
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.plus(y)
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[T]) -> T {
        sum::<S, T>(xs)
    }
}

// The shape rule refuses the extremum of no elements, so `EMPTY` of these is never a result.

impl<T: Number> Reduction<T> for Max {
    const EMPTY: T = T::ZERO;
    #[inline(always)]
    fn least_row(self) -> usize {
        8
    }
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.greater(y)
    }
    #[inline(always)]
    fn all<const N: usize>(self, first: T, others: [T; N]) -> T {
        first.greatest(others)
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[T]) -> T {
        let mut most = T::LEAST;
        for x in xs {
            most = most.max(if x.is_number() { x.key() } else { T::GREATEST });
        }
        T::of_key(most)
    }
}

impl<T: Number> Reduction<T> for Min {
    const EMPTY: T = T::ZERO;
    #[inline(always)]
    fn least_row(self) -> usize {
        8
    }
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.less(y)
    }
    #[inline(always)]
    fn all<const N: usize>(self, first: T, others: [T; N]) -> T {
        first.least(others)
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[T]) -> T {
        let mut least = T::GREATEST;
        for x in xs {
            least = least.min(if x.is_number() { x.key() } else { T::LEAST });
        }
        T::of_key(least)
    }
}
