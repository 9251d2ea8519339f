//! Reductions of columns: rows are folded element by element.

use super::BYTES_PER_NANO;
use super::operation::Reduction;
use crate::memory::element::Element;
use crate::simd::leveled::leveled;
use crate::simd::vector::prefetch;
use crate::threads::for_each_chunk;

/// Number of rows that are folded in sequence before the results are folded in pairs.
pub(crate) const BLOCK: usize = 32;

/// Number of rows that are folded together.
///
/// Rows that are a multiple of 4 KiB apart map to the same sets of the L1 cache, which must hold
/// these rows and the prefetched ones.
const AT_ONCE: usize = 4;

/// Number of columns that are folded at a time: two such rows fit in the L1 cache beside the input.
pub(crate) const STRIP: usize = 1024;

/// Number of columns up to which a smaller memory for totals is initialised.
const NARROW: usize = 64;

/// Totals of columns, aligned so that no vector straddles two cache lines.
#[repr(align(64))]
pub(super) struct Strip<T, const N: usize = STRIP>(pub(super) [T; N]);

/// Maximum number of parts of the rows of a tall matrix that threads share.
pub(super) const PARTS: usize = 8;

/// Folds few columns of many rows. Parts of the same power of 2 of blocks are whole subtrees of
/// [`fold_strip`].
pub(super) fn fold_tall<T: Element>(
    xs: &[T],
    [r, b]: [usize; 2],
    out: &mut [T],
    how: impl Reduction<T>,
) {
    let part = BLOCK * r.div_ceil(BLOCK).div_ceil(PARTS).next_power_of_two();
    let n_parts = r.div_ceil(part);
    for (strip, out) in out.chunks_mut(STRIP).enumerate() {
        let (xs, n) = (&xs[strip * STRIP..], out.len());
        let mut totals = std::array::from_fn::<_, PARTS, _>(|_| Strip([T::default(); STRIP]));
        let nanos = r * n * size_of::<T>() / BYTES_PER_NANO;
        for_each_chunk(&mut totals[..n_parts], 1, nanos, |i, totals| {
            let rows = part.min(r - i * part);
            fold_strip(&xs[i * part * b..], b, rows, &mut totals[0].0[..n], how);
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

/// Folds `[a, r, b]` to the results of `[a, b]` from `start` on.
pub(super) fn fold_columns<T: Element>(
    xs: &[T],
    [r, b]: [usize; 2],
    mut start: usize,
    mut out: &mut [T],
    how: impl Reduction<T>,
) {
    while !out.is_empty() {
        let (matrix, column) = (start / b, start % b);
        let n = out.len().min(b - column).min(STRIP);
        let (strip, rest) = out.split_at_mut(n);
        let matrix = &xs[matrix * r * b..][..r * b];
        fold_strip(&matrix[column..], b, r, strip, how);
        (start, out) = (start + n, rest);
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
    if rows <= BLOCK {
        return fold_block(xs, stride, rows, out, how);
    }
    if out.len() <= NARROW {
        return fold_halves(
            xs,
            stride,
            rows,
            out,
            &mut Strip([T::default(); NARROW]).0,
            how,
        );
    }
    fold_halves(
        xs,
        stride,
        rows,
        out,
        &mut Strip([T::default(); STRIP]).0,
        how,
    );
}

/// Folds the first rows, a power of 2 of blocks, and the others, with memory for these.
fn fold_halves<T: Element>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [T],
    later: &mut [T],
    how: impl Reduction<T>,
) {
    let half = BLOCK * rows.div_ceil(BLOCK).next_power_of_two() / 2;
    let later = &mut later[..out.len()];
    fold_strip(xs, stride, half, out, how);
    fold_strip(&xs[half * stride..], stride, rows - half, later, how);
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
    fn fold_block<A, T: Element>(
        xs: &[T],
        stride: usize,
        rows: usize,
        out: &mut [T],
        how: impl Reduction<T>,
    ) {
        out.copy_from_slice(&xs[..out.len()]);
        let after = |rows: usize| xs.get(rows * stride..).unwrap_or_default();
        if rows >= AT_ONCE {
            fold_more::<{ AT_ONCE - 1 }, T>(after(1), stride, out, how);
            fold_into(after(AT_ONCE), stride, rows - AT_ONCE, out, how);
        } else {
            fold_into(after(1), stride, rows - 1, out, how);
        }
    }
}

/// Folds rows into `out` in sequence, several at a time to save loads and stores of `out`.
#[inline(always)]
pub(super) fn fold_into<T: Element>(
    mut xs: &[T],
    stride: usize,
    mut rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    while rows >= AT_ONCE {
        // Prefetches the rows after these: the hardware prefetches within a page only.
        for row in AT_ONCE..rows.min(2 * AT_ONCE) {
            for at in (0..out.len()).step_by(64 / size_of::<T>()) {
                prefetch(xs.as_ptr().wrapping_add(row * stride + at));
            }
        }
        fold_more::<AT_ONCE, T>(xs, stride, out, how);
        xs = xs.get(AT_ONCE * stride..).unwrap_or_default();
        rows -= AT_ONCE;
    }
    while rows > 0 {
        fold_more::<1, T>(xs, stride, out, how);
        (xs, rows) = (xs.get(stride..).unwrap_or_default(), rows - 1);
    }
}

#[inline(always)]
fn fold_more<const N: usize, T: Element>(
    xs: &[T],
    stride: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    let n = out.len();
    let rows: [&[T]; N] = std::array::from_fn(|i| &xs[i * stride..][..n]);
    // The length of a piece is a constant, so its loop has no columns that are folded alone.
    let (pieces, rest) = out.as_chunks_mut::<64>();
    let split = rows.map(|row| row.as_chunks::<64>());
    for (i, piece) in pieces.iter_mut().enumerate() {
        let rows: [&[T; 64]; N] = std::array::from_fn(|row| &split[row].0[i]);
        for (j, t) in piece.iter_mut().enumerate() {
            *t = how.all::<N>(*t, std::array::from_fn(|row| rows[row][j]));
        }
    }
    let rows = split.map(|(_, row)| &row[..rest.len()]);
    for (j, t) in rest.iter_mut().enumerate() {
        *t = how.all::<N>(*t, std::array::from_fn(|row| rows[row][j]));
    }
}
