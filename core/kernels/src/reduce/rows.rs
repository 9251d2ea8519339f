//! Reductions of rows of contiguous elements.

use super::BYTES_PER_NANO;
use super::operation::Reduction;
use crate::memory::element::Element;
use crate::simd::lanes::{CHUNK, Pairwise};
use crate::simd::leveled::leveled;
use crate::threads::for_each_chunk;
use std::ops::Range;
use std::slice;

/// Number of elements of a long row that form a subtree, the unit that threads share.
pub(super) const GROUP: usize = 64 * CHUNK;

/// Folds rows of `r` elements that are `stride` apart.
pub(super) fn fold_rows<T: Element>(
    xs: &[T],
    stride: usize,
    r: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    match (r, size_of::<T>()) {
        _ if stride != r => fold_rows_apart(xs, stride, r, out, how),
        (1, _) => out.copy_from_slice(&xs[..out.len()]),
        (2..=7, _) | (8, ..8) => fold_short_rows(xs, r, out, how),
        _ => fold_long_rows(xs, r, out, how),
    }
}

/// Calls a function that is generic in the type of elements and in the length of rows, 2 to 8.
macro_rules! of_length {
    ($r:expr, $f:ident($($arg:expr),*)) => {
        match $r {
            2 => $f::<_, 2>($($arg),*),
            3 => $f::<_, 3>($($arg),*),
            4 => $f::<_, 4>($($arg),*),
            5 => $f::<_, 5>($($arg),*),
            6 => $f::<_, 6>($($arg),*),
            7 => $f::<_, 7>($($arg),*),
            _ => $f::<_, 8>($($arg),*),
        }
    };
}

leveled! {
    fn fold_long_rows<S, T: Element>(xs: &[T], r: usize, out: &mut [T], how: impl Reduction<T>) {
        for (y, row) in out.iter_mut().zip(xs.chunks_exact(r)) {
            *y = how.row::<S>(row);
        }
    }
}

leveled! {
    /// As [`fold_long_rows`], which spends less on each row.
    fn fold_rows_apart<S, T: Element>(
        xs: &[T],
        stride: usize,
        r: usize,
        out: &mut [T],
        how: impl Reduction<T>,
    ) {
        for (i, y) in out.iter_mut().enumerate() {
            *y = how.row::<S>(&xs[i * stride..][..r]);
        }
    }
}

leveled! {
    fn fold_short_rows<S, T: Element>(xs: &[T], r: usize, out: &mut [T], how: impl Reduction<T>) {
        of_length!(r, fold_short(xs, out, how));
    }
}

/// Folds rows of `R` elements, up to 8. The lanes of vectors are rows.
///
/// The order is that of longer rows: the upper half of the elements is folded into the lower half until one is left.
#[inline(always)]
fn fold_short<T: Element, const R: usize>(xs: &[T], out: &mut [T], how: impl Reduction<T>) {
    for (y, row) in out.iter_mut().zip(xs.as_chunks::<R>().0) {
        let mut x = *row;
        fold_upper::<T, R, 4>(&mut x, how);
        fold_upper::<T, R, 2>(&mut x, how);
        fold_upper::<T, R, 1>(&mut x, how);
        *y = x[0];
    }
}

/// Folds elements `HALF..2 * HALF` into the first ones, as far as there are any.
#[inline(always)]
fn fold_upper<T: Element, const R: usize, const HALF: usize>(
    x: &mut [T; R],
    how: impl Reduction<T>,
) {
    for i in 0..HALF {
        if i + HALF < R {
            x[i] = how.pair(x[i], x[i + HALF]);
        }
    }
}

/// Folds one long row of `r` elements. Groups of a power of 2 of chunks are whole subtrees.
///
/// `group` folds some of the elements.
pub(super) fn fold_long<T: Element>(
    r: usize,
    how: impl Reduction<T>,
    group: impl Fn(Range<usize>) -> T + Sync,
) -> T {
    let mut tree = Pairwise::new(T::default());
    for start in (0..r).step_by(64 * GROUP) {
        let end = r.min(start + 64 * GROUP);
        let mut totals = [T::default(); 64];
        let totals = &mut totals[..(end - start).div_ceil(GROUP)];
        let nanos = (end - start) * size_of::<T>() / BYTES_PER_NANO;
        for_each_chunk(totals, 1, nanos, |i, total| {
            let start = start + i * GROUP;
            total[0] = group(start..end.min(start + GROUP));
        });
        totals
            .iter()
            .for_each(|&total| tree.push(total, |x, y| how.pair(x, y)));
    }
    tree.finish(|x, y| how.pair(x, y)).unwrap_or_default()
}

/// Folds a row.
pub(super) fn fold_row<T: Element>(row: &[T], how: impl Reduction<T>) -> T {
    let mut total = T::default();
    fold_rows(row, row.len(), row.len(), slice::from_mut(&mut total), how);
    total
}

pub(super) use of_length;
