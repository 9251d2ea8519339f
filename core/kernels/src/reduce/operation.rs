//! Operations that fold elements to one.

use crate::simd::lanes::{CHUNK, product, sum};
use crate::simd::number::Number;
use crate::simd::vector::Simd;

/// Associative operation that folds elements to one.
pub(crate) trait Reduction<T>: Copy + Send + Sync + 'static {
    /// Result of folding no elements.
    const EMPTY: T;
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
        match T::TYPE.is_float() {
            true => product::<T::Vectors<S>>(xs),
            // Integers may be multiplied in any order.
            false => xs.iter().fold(T::ONE, |y, x| y.times(*x)),
        }
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
        for xs in xs.chunks(CHUNK) {
            if fold_bools(xs, |x, y| x | y) {
                return true;
            }
        }
        false
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
        for xs in xs.chunks(CHUNK) {
            if !fold_bools(xs, |x, y| x & y) {
                return false;
            }
        }
        true
    }
}

impl<T: Number> Reduction<T> for Sum {
    const EMPTY: T = T::ZERO;
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.plus(y)
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[T]) -> T {
        match T::TYPE.is_float() {
            true => sum::<S, T>(xs),
            // Integers may be added in any order.
            false => xs.iter().fold(T::ZERO, |y, x| y.plus(*x)),
        }
    }
}

// The shape rule refuses the extremum of no elements, so `EMPTY` of these is never a result.

impl<T: Number> Reduction<T> for Max {
    const EMPTY: T = T::ZERO;
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
        T::row_greatest::<S>(xs)
    }
}

impl<T: Number> Reduction<T> for Min {
    const EMPTY: T = T::ZERO;
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
        T::row_least::<S>(xs)
    }
}

/// Folds at least one bool by a function for which repeated elements do not matter.
#[inline(always)]
fn fold_bools(xs: &[bool], f: impl Fn(bool, bool) -> bool) -> bool {
    match xs.len() {
        64.. => fold_chunks::<64>(xs, f),
        16.. => fold_chunks::<16>(xs, f),
        8.. => fold_chunks::<8>(xs, f),
        _ => xs.iter().copied().reduce(f).unwrap_or_default(),
    }
}

/// Folds at least `N` bools as vectors. The last vector may overlap the one before.
#[inline(always)]
fn fold_chunks<const N: usize>(xs: &[bool], f: impl Fn(bool, bool) -> bool) -> bool {
    let mut lanes = *xs.last_chunk::<N>().expect("there are as many elements");
    for chunk in xs.as_chunks::<N>().0 {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, *x);
        }
    }
    lanes.into_iter().reduce(f).unwrap_or_default()
}
