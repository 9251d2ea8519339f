//! Reductions of columns: rows are folded element by element.

use super::BYTES_PER_NANO;
use super::operation::Reduction;
use crate::array;
use crate::memory::element::Element;
use crate::simd::leveled::leveled;
use crate::simd::vector::prefetch_elements;
use crate::threads::for_each_chunk;
use std::ops::Range;

/// Number of rows that are folded in sequence before the results are folded in pairs.
pub(crate) const BLOCK: usize = 32;

/// Number of rows that are folded together.
///
/// Rows that are a multiple of 4 KiB apart map to the same sets of the L1 cache, which must hold
/// these rows and the prefetched ones.
const AT_ONCE: usize = 4;

/// Number of columns that are folded together.
pub(super) const WIDE: usize = 64;

/// Distance of rows in bytes above which a few whole rows are read at a time: long pieces are read faster.
pub(super) const LONG: usize = 2048;

/// Distance of rows in bytes up to which the hardware prefetches them.
const NEAR: usize = 1024;

/// Number of columns that are folded at a time: two such rows fit in the L1 cache beside the input.
pub(crate) const STRIP: usize = 1024;

/// Number of columns up to which a smaller memory for totals is initialised.
const NARROW: usize = 64;

/// Totals of columns, aligned so that no vector straddles two cache lines.
#[repr(align(64))]
pub(super) struct Strip<T, const N: usize = STRIP>(pub(super) [T; N]);

/// Maximum number of parts of the rows of a tall matrix that threads share.
pub(super) const PARTS: usize = 8;

/// Folds few columns of many rows that are `stride` apart. Parts of the same power of 2 of blocks are
/// whole subtrees of [`fold_strip`].
pub(super) fn fold_tall<T: Element>(
    xs: &[T],
    stride: usize,
    r: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    let part = BLOCK * r.div_ceil(BLOCK).div_ceil(PARTS).next_power_of_two();
    let n_parts = r.div_ceil(part);
    for (strip, out) in out.chunks_mut(STRIP).enumerate() {
        let (xs, n) = (&xs[strip * STRIP..], out.len());
        let mut totals = array::from_fn::<_, PARTS>(|_| Strip([T::default(); STRIP]));
        let nanos = r * n * size_of::<T>() / BYTES_PER_NANO;
        for_each_chunk(&mut totals[..n_parts], 1, nanos, |i, totals| {
            let rows = part.min(r - i * part);
            let xs = &xs[i * part * stride..];
            fold_strip(xs, stride, rows, &mut totals[0].0[..n], how);
        });
        let mut width = 1;
        while width < n_parts {
            for pair in totals[..n_parts].chunks_mut(2 * width) {
                if let Some((left, [right, ..])) = pair.split_at_mut_checked(width) {
                    merge(&mut left[0].0[..n], &right.0[..n], how);
                }
            }
            width *= 2;
        }
        out.copy_from_slice(&totals[0].0[..n]);
    }
}

/// Folds columns of `rows` rows that are `stride` apart.
///
/// Rows of a block are folded in sequence, and the totals of blocks in the pairs of [`Pairwise`].
pub(crate) fn fold_strip<T: Element>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    fold_blocks(0, rows, out, how, &|first, rows, out: &mut [T]| {
        fold_block(&xs[first * stride..], stride, rows, out, how);
    });
}

/// Folds columns of `rows` rows from `first` on.
///
/// `block` folds up to [`BLOCK`] rows in sequence: it gets the number of the first one and their number.
pub(super) fn fold_blocks<T: Element>(
    first: usize,
    rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
    block: &impl Fn(usize, usize, &mut [T]),
) {
    if rows <= BLOCK {
        return block(first, rows, out);
    }
    if out.len() <= NARROW {
        let later = &mut Strip([T::default(); NARROW]).0;
        return fold_halves(first, rows, out, later, how, block);
    }
    let later = &mut Strip([T::default(); STRIP]).0;
    fold_halves(first, rows, out, later, how, block);
}

/// Folds the first rows, a power of 2 of blocks, and the others, with memory for these.
fn fold_halves<T: Element>(
    first: usize,
    rows: usize,
    out: &mut [T],
    later: &mut [T],
    how: impl Reduction<T>,
    block: &impl Fn(usize, usize, &mut [T]),
) {
    let half = BLOCK * rows.div_ceil(BLOCK).next_power_of_two() / 2;
    let later = &mut later[..out.len()];
    fold_blocks(first, half, out, how, block);
    fold_blocks(first + half, rows - half, later, how, block);
    merge(out, later, how);
}

leveled! {
    /// Folds `later` into `out`, element by element.
    pub(crate) fn merge<A, T: Element>(out: &mut [T], later: &[T], how: impl Reduction<T>) {
        for (t, &x) in out.iter_mut().zip(later) {
            *t = how.pair(*t, x);
        }
    }
}

leveled! {
    /// Folds up to [`BLOCK`] rows in sequence.
    pub(super) fn fold_block<A, T: Element>(
        xs: &[T],
        stride: usize,
        rows: usize,
        out: &mut [T],
        how: impl Reduction<T>,
    ) {
        out.copy_from_slice(&xs[..out.len()]);
        fold_into(xs.get(stride..).unwrap_or_default(), stride, rows - 1, out, how);
    }
}

leveled! {
    /// Folds contiguous rows into `out` in sequence.
    pub(super) fn fold_more<A, T: Element>(xs: &[T], out: &mut [T], how: impl Reduction<T>) {
        fold_into(xs, out.len(), xs.len() / out.len(), out, how);
    }
}

/// Folds rows into `out` in sequence.
#[inline(always)]
pub(super) fn fold_into<T: Element>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    if rows == 0 {
        return;
    }
    let mut at = 0;
    if stride * size_of::<T>() > LONG {
        at = out.len() / WIDE * WIDE;
        fold_long_pieces(xs, stride, rows, out.as_chunks_mut().0, how);
    }
    while at < out.len() {
        let (xs, to) = (&xs[at..], &mut out[at..]);
        at += match to.len() {
            WIDE.. => fold_piece::<WIDE, T>(xs, stride, rows, to, how),
            16.. => fold_piece::<16, T>(xs, stride, rows, to, how),
            4.. => fold_piece::<4, T>(xs, stride, rows, to, how),
            3 => fold_piece::<3, T>(xs, stride, rows, to, how),
            2 => fold_piece::<2, T>(xs, stride, rows, to, how),
            _ => fold_piece::<1, T>(xs, stride, rows, to, how),
        };
    }
}

/// Folds long pieces of rows into `out`, several rows at a time to save loads and stores of `out`.
#[inline(always)]
fn fold_long_pieces<T: Element>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [[T; WIDE]],
    how: impl Reduction<T>,
) {
    let mut done = 0;
    while done + AT_ONCE <= rows {
        let after = done + AT_ONCE;
        prefetch_rows(
            xs,
            stride,
            after..rows.min(after + AT_ONCE),
            out.len() * WIDE,
        );
        let x = long_pieces::<AT_ONCE, T>(xs, stride, done, out.len());
        for (i, y) in out.iter_mut().enumerate() {
            for j in 0..WIDE {
                y[j] = how.all::<AT_ONCE>(y[j], array::from_fn(|row| x[row][i][j]));
            }
        }
        done += AT_ONCE;
    }
    while done < rows {
        let [x] = long_pieces::<1, T>(xs, stride, done, out.len());
        for (y, x) in out.iter_mut().zip(x) {
            for j in 0..WIDE {
                y[j] = how.pair(y[j], x[j]);
            }
        }
        done += 1;
    }
}

/// Returns the first `n` pieces of columns of rows from `first` on.
#[inline(always)]
fn long_pieces<const ROWS: usize, T>(
    xs: &[T],
    stride: usize,
    first: usize,
    n: usize,
) -> [&[[T; WIDE]]; ROWS] {
    array::from_fn(|row| &xs[(first + row) * stride..].as_chunks().0[..n])
}

/// Folds `N` columns of rows into `out`, several rows at a time, and returns `N`.
///
/// The number of columns is a constant, so the compiler can keep the results in registers.
#[inline(always)]
fn fold_piece<const N: usize, T: Element>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) -> usize {
    let out = out.first_chunk_mut::<N>().expect("there are `N` results");
    let mut y = *out;
    let mut done = 0;
    while done + AT_ONCE <= rows {
        let after = done + AT_ONCE;
        prefetch_rows(xs, stride, after..rows.min(after + AT_ONCE), N);
        let x = pieces::<N, AT_ONCE, T>(xs, stride, done);
        for j in 0..N {
            y[j] = how.all::<AT_ONCE>(y[j], array::from_fn(|row| x[row][j]));
        }
        done += AT_ONCE;
    }
    while done < rows {
        let [x] = pieces::<N, 1, T>(xs, stride, done);
        for j in 0..N {
            y[j] = how.pair(y[j], x[j]);
        }
        done += 1;
    }
    *out = y;
    N
}

/// Returns the first `N` columns of rows from `first` on.
#[inline(always)]
pub(super) fn pieces<const N: usize, const ROWS: usize, T>(
    xs: &[T],
    stride: usize,
    first: usize,
) -> [&[T; N]; ROWS] {
    array::from_fn(|row| {
        let columns = xs[(first + row) * stride..].first_chunk::<N>();
        columns.expect("a row has `N` columns")
    })
}

/// Prefetches the first columns of rows: the hardware prefetches within a page only.
#[inline(always)]
pub(super) fn prefetch_rows<T>(xs: &[T], stride: usize, rows: Range<usize>, cols: usize) {
    if stride > NEAR / size_of::<T>() {
        for row in rows {
            prefetch_elements(xs, row * stride, cols);
        }
    }
}
