//! Reductions of the columns of many small matrices, which are folded together.

use super::TASK_BYTES;
use super::argument::{Best, arg_strip};
use super::columns::{STRIP, Strip, fold_strip};
use super::operation::Reduction;
use crate::memory::element::Element;
use crate::movement::blocks::{Columns, RowBlock, WIDE};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::Simd;

/// Number of matrices from which they are transposed to be folded.
const MANY: usize = 16;

/// Number of columns from which the columns of each matrix are folded alone.
pub(super) const NARROW_COLS: usize = 16;

/// Maximum number of elements of a matrix that is folded together with others.
const NARROW_MATRIX: usize = 256;

/// Returns the number of results of a task on matrices that are small and have few columns.
///
/// Returns `None` if the columns of each matrix are folded alone.
pub(super) fn results_of_narrow<T>([a, r, b]: [usize; 3]) -> Option<usize> {
    let many = a >= MANY && a * r * b >= MANY * NARROW_MATRIX;
    let narrow = many && (2..NARROW_COLS).contains(&b) && r * b <= NARROW_MATRIX;
    let matrices = TASK_BYTES / (size_of::<T>() * r * b);
    (narrow && size_of::<T>() >= 4).then(|| matrices.next_multiple_of(64) * b)
}

leveled! {
    /// Folds the columns of narrow matrices. The lanes of vectors are matrices.
    pub(super) fn fold_narrow<S, T: Element>(
        xs: &[T],
        rb: [usize; 2],
        out: &mut [T],
        how: impl Reduction<T>,
    ) {
        let fold = |cols: &[T], totals: &mut [T]| fold_strip(cols, totals.len(), rb[0], totals, how);
        match size_of::<T>() {
            4 => narrow::<S, T, T, 16>(xs, rb, out, fold),
            _ => narrow::<S, T, T, 8>(xs, rb, out, fold),
        }
    }
}

leveled! {
    /// Writes the indices of extrema of the columns of narrow matrices.
    pub(super) fn arg_narrow<S, T: Number>(
        xs: &[T],
        rb: [usize; 2],
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        let mut best = Best::new();
        let find = |cols: &[T], places: &mut [i64]| {
            arg_strip(cols, places.len(), rb[0], places, &mut best, wins);
        };
        match size_of::<T>() {
            4 => narrow::<S, T, i64, 16>(xs, rb, out, find),
            _ => narrow::<S, T, i64, 8>(xs, rb, out, find),
        }
    }
}

/// Calls `fold` with matrices side by side, of which row `i` has column `j` of the first matrix, then of the second.
#[inline(always)]
fn narrow<S: Simd, T: Element, U: Copy + Default, const N: usize>(
    xs: &[T],
    [r, b]: [usize; 2],
    out: &mut [U],
    mut fold: impl FnMut(&[T], &mut [U]),
) {
    const LEN: usize = NARROW_MATRIX * WIDE;
    let width = WIDE * N;
    let mut cols = Columns::<T, N, LEN>([[T::default(); N]; LEN]);
    let mut totals = Strip([U::default(); STRIP]);
    for (i, out) in out.chunks_mut(b * width).enumerate() {
        let n = out.len() / b;
        read_columns::<S, T, N>(&xs[i * width * r * b..], r * b, n, &mut cols.0);
        let totals = &mut totals.0[..b * width];
        fold(&cols.0.as_flattened()[..r * b * width], totals);
        for (lane, out) in out.chunks_exact_mut(b).enumerate() {
            for (y, totals) in out.iter_mut().zip(totals.chunks_exact(width)) {
                *y = totals[lane];
            }
        }
    }
}

/// Writes the columns of the first `n_rows` rows of `r` elements. A column has [`WIDE`] lines.
#[inline(always)]
fn read_columns<S: Simd, T: Element, const N: usize>(
    xs: &[T],
    r: usize,
    n_rows: usize,
    cols: &mut [[T; N]],
) {
    for group in 0..n_rows.div_ceil(N) {
        let xs = &xs[group * N * r..];
        let block = RowBlock::<T, N>::new(N.min(n_rows - group * N), r);
        for first in (0..r).step_by(N) {
            block.read::<S, WIDE>(&xs[first..], &mut cols[first * WIDE + group..]);
        }
    }
}

/// Maximum number of bools of a narrow matrix that is folded in halves.
pub(super) const BOOLS: usize = 4096;

leveled! {
    /// Folds the columns of narrow matrices of bools: the last half of the rows into the first one, until one is left.
    pub(super) fn fold_narrow_bools<S, T: Element>(
        xs: &[T],
        rb: [usize; 2],
        out: &mut [T],
        how: impl Reduction<T>,
    ) {
        let [r, b] = rb;
        let mut part = [T::default(); BOOLS];
        for (xs, out) in xs.chunks_exact(r * b).zip(out.chunks_exact_mut(b)) {
            let mut rows = r - r / 2;
            let (first, last) = xs.split_at(rows * b);
            part[..first.len()].copy_from_slice(first);
            for (y, x) in part.iter_mut().zip(last) {
                *y = how.pair(*y, *x);
            }
            while rows > 1 {
                let kept = rows - rows / 2;
                let (first, last) = part[..rows * b].split_at_mut(kept * b);
                for (y, x) in first.iter_mut().zip(&*last) {
                    *y = how.pair(*y, *x);
                }
                rows = kept;
            }
            out.copy_from_slice(&part[..b]);
        }
    }
}
