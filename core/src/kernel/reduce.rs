//! Reductions over any axes.
//!
//! Neighbouring axes that are all reduced or all kept count as one. One group of reduced axes is folded at a time,
//! the last one first, as the middle axis of `[a, r, b]`. The order of the operations depends on the shape alone,
//! so a strided view gives the same bits as its contiguous copy.

use super::lanes::{CHUNK, Pairwise, sum};
use super::leveled::leveled;
use super::number::Number;
use super::threads::{for_each_chunk, threads};
use super::vector::{Simd, prefetch};
use crate::dtype::Element;

/// How many rows are folded one after the other before the results are folded in pairs.
pub(super) const BLOCK: usize = 32;

/// How many rows are folded at once. Rows that are a multiple of 4 KiB apart share their places in the first-level cache, which
/// has to hold so many beside those that are asked for next.
const AT_ONCE: usize = 4;

/// How many columns are folded at a time: two such rows lie in the first-level cache beside what is read.
const STRIP: usize = 1024;

/// How many results of a long row are parts of the tree of all, which threads share.
const GROUP: usize = 64 * CHUNK;

/// What one thread reads in a nanosecond, about.
const BYTES_PER_NANO: usize = 60;

/// How many bytes are read for a part of the result that one thread computes.
const TASK_BYTES: usize = 1 << 18;

/// A way to make one number of several.
pub(super) trait Reduction<T>: Copy + Send + Sync + 'static {
    /// What no elements make.
    const EMPTY: T;
    fn pair(self, x: T, y: T) -> T;
    /// What elements that lie one after the other make.
    fn row<S: Simd>(self, xs: &[T]) -> T;
}

/// The sum.
#[derive(Clone, Copy)]
pub(super) struct Sum;

/// The greatest element; a NaN is greater than all others, and 0 than -0.
#[derive(Clone, Copy)]
pub(super) struct Max;

/// The least element; a NaN is less than all others, and -0 than 0.
#[derive(Clone, Copy)]
pub(super) struct Min;

impl<T: Number> Reduction<T> for Sum {
    const EMPTY: T = T::ZERO;
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.plus(y)
    }
    #[inline(always)]
    fn row<S: Simd>(self, xs: &[T]) -> T {
        sum::<S, T>(xs)
    }
}

// The shape rule refuses an extremum over no elements, so what these are of none is never a result.

impl<T: Number> Reduction<T> for Max {
    const EMPTY: T = T::ZERO;
    #[inline(always)]
    fn pair(self, x: T, y: T) -> T {
        x.greater(y)
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
    fn pair(self, x: T, y: T) -> T {
        x.less(y)
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

/// `[a, r, b]` to `[a, b]`.
pub(super) fn fold<T: Element, R: Reduction<T>>(
    xs: &[T],
    [a, r, b]: [usize; 3],
    out: &mut [T],
    how: R,
) {
    if r == 0 {
        out.fill(R::EMPTY);
        return;
    }
    if a * b == 0 {
        return;
    }
    let nanos = size_of_val(xs) / BYTES_PER_NANO;
    if a * b == 1 && r > GROUP {
        out[0] = fold_long(xs, how);
        return;
    }
    // Threads read whole rows, one after the other: pieces of rows are slower.
    if a == 1 && b > 1 && b <= 4 * STRIP && r >= 2 * BLOCK * PARTS {
        fold_tall(xs, [r, b], out, how);
        return;
    }
    let results = results_of_a_task::<T>([a, r, b]);
    for_each_chunk(out, results, nanos, |task, out| {
        let start = task * results;
        if b == 1 {
            fold_rows(&xs[start * r..][..out.len() * r], r, out, how);
        } else {
            fold_columns(xs, [r, b], start, out, how);
        }
    });
}

/// How many results are computed at a time. None depends on where they are cut.
fn results_of_a_task<T>([a, r, b]: [usize; 3]) -> usize {
    let results = TASK_BYTES / size_of::<T>() / r;
    match b {
        1 => results.max(1),
        // Long pieces of rows are read faster.
        _ => results.max((a * b).div_ceil(threads()).min(STRIP).next_multiple_of(64)),
    }
}

leveled! {
    fn fold_rows<S, T: Element>(xs: &[T], r: usize, out: &mut [T], how: impl Reduction<T>) {
        for (y, row) in out.iter_mut().zip(xs.chunks_exact(r)) {
            *y = how.row::<S>(row);
        }
    }
}

/// One long row. Groups of a power of 2 of chunks are whole parts of its tree.
fn fold_long<T: Element>(xs: &[T], how: impl Reduction<T>) -> T {
    let mut tree = Pairwise::new(T::default());
    for xs in xs.chunks(64 * GROUP) {
        let mut totals = [T::default(); 64];
        let totals = &mut totals[..xs.len().div_ceil(GROUP)];
        let nanos = size_of_val(xs) / BYTES_PER_NANO;
        for_each_chunk(totals, 1, nanos, |i, total| {
            let group = &xs[i * GROUP..xs.len().min((i + 1) * GROUP)];
            fold_rows(group, group.len(), total, how);
        });
        totals
            .iter()
            .for_each(|&total| tree.push(total, |x, y| how.pair(x, y)));
    }
    tree.finish(|x, y| how.pair(x, y)).unwrap_or_default()
}

/// Totals of columns. A vector of them lies in one cache line.
#[repr(align(64))]
struct Strip<T>([T; STRIP]);

/// Parts of the rows of a tall matrix, at most, that threads share.
const PARTS: usize = 8;

/// Few columns of many rows. Parts of the same power of 2 of blocks are whole parts of the tree of [`fold_strip`].
fn fold_tall<T: Element>(xs: &[T], [r, b]: [usize; 2], out: &mut [T], how: impl Reduction<T>) {
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

/// Those results of `[a, r, b]` to `[a, b]` that begin at `start`.
fn fold_columns<T: Element>(
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

/// The columns of `rows` rows that lie `stride` apart: blocks one after the other, then their totals in the pairs of
/// [`Pairwise`].
fn fold_strip<T: Element>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    if rows <= BLOCK {
        return fold_block(xs, stride, rows, out, how);
    }
    let half = BLOCK * rows.div_ceil(BLOCK).next_power_of_two() / 2;
    fold_strip(xs, stride, half, out, how);
    let mut later = Strip([T::default(); STRIP]);
    let later = &mut later.0[..out.len()];
    fold_strip(&xs[half * stride..], stride, rows - half, later, how);
    merge(out, later, how);
}

leveled! {
    /// Folds `later` into `out`, element by element.
    fn merge<A, T: Element>(out: &mut [T], later: &[T], how: impl Reduction<T>) {
        for (t, &x) in out.iter_mut().zip(later) {
            *t = how.pair(*t, x);
        }
    }
}

leveled! {
    /// At most [`BLOCK`] rows, one after the other.
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

/// Folds rows into `out`, one after the other; several at a time save loads and stores of `out`.
#[inline(always)]
fn fold_into<T: Element>(
    mut xs: &[T],
    stride: usize,
    mut rows: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    while rows >= AT_ONCE {
        // The rows after these: the hardware looks ahead in a page of 4 KiB alone.
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
    for j in 0..n {
        out[j] = rows.iter().fold(out[j], |t, row| how.pair(t, row[j]));
    }
}

leveled! {
    /// The sum of each row of `cols` elements, at most [`CHUNK`].
    pub(super) fn row_totals<S, T: Number>(xs: &[T], cols: usize, out: &mut [T]) {
        for (y, row) in out.iter_mut().zip(xs.chunks_exact(cols)) {
            *y = sum::<S, T>(row);
        }
    }
}

leveled! {
    /// Adds rows as long as `total` to it, one after the other; the last may be a part of one.
    pub(super) fn add_rows<A, T: Number>(total: &mut [T], xs: &[T]) {
        let cols = total.len().max(1);
        let (rows, part) = xs.split_at(xs.len() / cols * cols);
        fold_into(rows, cols, rows.len() / cols, total, Sum);
        for (t, &x) in total.iter_mut().zip(part) {
            *t = t.plus(x);
        }
    }
}

/// The sum of rows as long as `out`, in pairs of equal weight. What is left in `totals` means nothing.
pub(super) fn join<T: Number>(totals: &mut [T], out: &mut [T]) {
    join_from(totals, out.len(), 1);
    out.copy_from_slice(&totals[..out.len()]);
}

/// Adds up rows of `cols` numbers into the first, in pairs of equal weight. Of each `stride` rows, a power of 2, the first is
/// already their sum.
pub(super) fn join_from<T: Number>(totals: &mut [T], cols: usize, mut stride: usize) {
    let n = totals.len() / cols.max(1);
    while stride < n {
        for pair in totals.chunks_mut(2 * stride * cols) {
            if let Some((left, right)) = pair.split_at_mut_checked(stride * cols)
                && !right.is_empty()
            {
                merge(&mut left[..cols], &right[..cols], Sum);
            }
        }
        stride *= 2;
    }
}

/// The first index along the middle axis of the greatest or the least element, as `wins(x, best)` says; `most` finds the element.
pub(super) fn arg_extremum<T: Number>(
    xs: &[T],
    [a, r, b]: [usize; 3],
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy + Sync,
    most: impl Reduction<T>,
) {
    if a * r * b == 0 {
        return;
    }
    let nanos = size_of_val(xs) / BYTES_PER_NANO * 2;
    let results = results_of_a_task::<T>([a, r, b]);
    for_each_chunk(out, results, nanos, |task, mut out| {
        let mut start = task * results;
        if b == 1 {
            return arg_rows(&xs[start * r..][..out.len() * r], r, out, wins, most);
        }
        while !out.is_empty() {
            let (matrix, column) = (start / b, start % b);
            let n = out.len().min(b - column).min(STRIP);
            let (strip, rest) = out.split_at_mut(n);
            arg_strip(&xs[matrix * r * b..][..r * b], b, column, strip, wins);
            (start, out) = (start + n, rest);
        }
    });
}

leveled! {
    fn arg_rows<S, T: Number>(
        xs: &[T],
        r: usize,
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
        most: impl Reduction<T>,
    ) {
        for (at, row) in out.iter_mut().zip(xs.chunks_exact(r)) {
            let best = most.row::<S>(row);
            // It wins against all that are not equal to it.
            let mut part = 0;
            for xs in row.as_chunks::<64>().0 {
                let mut any = false;
                for &x in xs {
                    any |= !wins(best, x);
                }
                if any {
                    break;
                }
                part += 64;
            }
            let place = row[part..].iter().position(|&x| !wins(best, x));
            *at = (part + place.unwrap_or(0)) as i64;
        }
    }
}

leveled! {
    fn arg_strip<A, T: Number>(
        xs: &[T],
        stride: usize,
        column: usize,
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        let mut best = [T::ZERO; STRIP];
        let best = &mut best[..out.len()];
        best.copy_from_slice(&xs[column..][..out.len()]);
        out.fill(0);
        for (i, row) in xs.chunks_exact(stride).enumerate().skip(1) {
            let row = &row[column..][..out.len()];
            for ((at, best), &x) in out.iter_mut().zip(best.iter_mut()).zip(row) {
                let won = wins(x, *best);
                *best = if won { x } else { *best };
                *at = if won { i as i64 } else { *at };
            }
        }
    }
}
