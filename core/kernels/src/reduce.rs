//! Reductions over any axes.
//!
//! Adjacent axes that are all reduced or all kept are merged. One group of reduced axes is folded
//! at a time, the longest one first, as the middle axis of `[a, r, b]`. The order of operations
//! depends on the shape alone, so a strided view gives the same bits as its contiguous copy.

use crate::memory::element::Element;
use crate::memory::layout::Layout;
use crate::memory::scratch::{Plain, with_scratch};
use crate::movement::blocks::{Columns, RowBlock, WIDE};
use crate::movement::copy;
use crate::simd::lanes::{CHUNK, Pairwise, sum};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::{LANES, Simd, prefetch};
use crate::task::{Prepared, map};
use crate::threads::{for_each_chunk, threads};
use gradloom_ir::DType;

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

/// Number of elements of a long row that form a subtree, the unit that threads share.
const GROUP: usize = 64 * CHUNK;

/// Approximate number of bytes that one thread reads in a nanosecond.
const BYTES_PER_NANO: usize = 60;

/// Number of bytes read for the part of a result that one thread computes.
const TASK_BYTES: usize = 1 << 18;

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

/// Reduction of an axis to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Sum.
    Sum,
    /// Greatest element, or NaN if there is one.
    Max,
    /// Least element, or NaN if there is one.
    Min,
    /// Product.
    Product,
}

/// Reduction of an axis of bools to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolFold {
    /// True if an element is true.
    Any,
    /// True if all elements are true.
    All,
}

/// Reduces the middle axis: `[a, r, b]` to `[a, b]`.
pub fn fold_axis(dtype: DType, arb: [usize; 3], by: Fold) -> Prepared {
    fn typed<T: Number>(arb: [usize; 3], by: Fold) -> Prepared {
        match by {
            Fold::Sum => map(move |xs: &[T], out: &mut [T]| fold(xs, arb, out, Sum)),
            Fold::Max => map(move |xs: &[T], out: &mut [T]| fold(xs, arb, out, Max)),
            Fold::Min => map(move |xs: &[T], out: &mut [T]| fold(xs, arb, out, Min)),
            Fold::Product => map(move |xs: &[T], out: &mut [T]| fold(xs, arb, out, Product)),
        }
    }
    on_number!(dtype, typed(arb, by))
}

/// Adds up the middle axis, `[a, r, b]` to `[a, b]`, with the bits of the sums of contiguous rows of `r` elements.
pub fn sum_across(dtype: DType, arb: [usize; 3]) -> Prepared {
    fn typed<T: Number>(arb: [usize; 3]) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            let [a, r, b] = arb;
            if b == 1 || r * a * b == 0 {
                return fold(xs, arb, out, Sum);
            }
            let nanos = size_of_val(xs) / BYTES_PER_NANO;
            let results = results_of_a_task::<T>(arb);
            for_each_chunk(out, results, nanos, |task, out| {
                sums_across(xs, [r, b], task * results, out);
            });
        })
    }
    on_number!(dtype, typed(arb))
}

/// Reduces the middle axis of the elements of a layout: `[a, r, b]` to `[a, b]`.
///
/// The kernel copies a part of the elements at a time, which stays in the cache, and folds it as
/// [`fold_axis`] does. Returns `None` if the parts would be too large or too thin.
pub fn fold_view(dtype: DType, layout: &Layout, arb: [usize; 3], by: Fold) -> Option<Prepared> {
    fn typed<T: Number + Plain>(parts: ViewParts, by: Fold) -> Prepared {
        match by {
            Fold::Sum => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Sum)),
            Fold::Max => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Max)),
            Fold::Min => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Min)),
            Fold::Product => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Product)),
        }
    }
    let parts = ViewParts::new(layout, arb, dtype.size())?;
    Some(on_number!(dtype, typed(parts, by)))
}

/// Size of the part of a view that is copied at a time, in bytes.
const PART_BYTES: usize = 1 << 17;

/// Number of indices of a part from which it has whole cache lines of an operand with other axes innermost.
const PART_LEN: usize = 16;

/// A view of `[a, r, b]`, divided along its first kept axis.
struct ViewParts {
    arb: [usize; 3],
    /// Length of the axis, and its stride in the operand.
    axis: (usize, usize),
    /// Number of indices of a part, and the copy of one.
    part: (usize, copy::Copy),
    /// The same for the last part.
    last: (usize, copy::Copy),
}

impl ViewParts {
    fn new(layout: &Layout, arb: [usize; 3], size: usize) -> Option<ViewParts> {
        let [a, r, b] = arb;
        if a * b <= 1 || layout.numel() == 0 {
            return None;
        }
        // Without axes before the reduced ones, the first kept axis comes after them.
        let mut before = 1;
        let axis = layout.shape.iter().position(|&len| {
            let is_kept = len > 1 && (a > 1 || before == r);
            before *= len;
            is_kept
        })?;
        let len = layout.shape[axis];
        let most = PART_BYTES / (layout.numel() / len * size);
        let mut n = if most >= len {
            len
        } else {
            most / PART_LEN * PART_LEN
        };
        // One column would be folded as a row, in another order.
        while n > 1 && len % n == 1 {
            n -= 1;
        }
        if n < PART_LEN.min(len) - 1 || n == 0 {
            return None;
        }
        let part = |n| (n, copy::Copy::new(&layout.narrow(axis, 0, n, 1), size));
        Some(ViewParts {
            arb,
            axis: (len, layout.strides[axis]),
            part: part(n),
            last: part(len - (len - 1) / n * n),
        })
    }

    fn fold<T: Number + Plain>(&self, xs: &[T], out: &mut [T], how: impl Reduction<T>) {
        let [a, r, b] = self.arb;
        let (len, stride) = self.axis;
        let results = a * b / len;
        let nanos = a * r * b * size_of::<T>() / BYTES_PER_NANO * 4;
        for_each_chunk(out, self.part.0 * results, nanos, |i, out| {
            let (n, copy) = match out.len() == self.part.0 * results {
                true => &self.part,
                false => &self.last,
            };
            let arb = if a > 1 {
                [a / len * n, r, b]
            } else {
                [1, r, b / len * n]
            };
            with_scratch([arb.iter().product()], |[part]: [&mut [T]; 1]| {
                copy.run(&xs[i * self.part.0 * stride..], part);
                fold(part, arb, out, how);
            });
        });
    }
}

/// Reduces the middle axis of bools: `[a, r, b]` to `[a, b]`.
pub fn fold_bools(arb: [usize; 3], by: BoolFold) -> Prepared {
    match by {
        BoolFold::Any => map(move |xs: &[bool], out: &mut [bool]| fold(xs, arb, out, Any)),
        BoolFold::All => map(move |xs: &[bool], out: &mut [bool]| fold(xs, arb, out, All)),
    }
}

/// Writes the first index along the middle axis of the greatest or least element.
///
/// # Panics
///
/// Panics if `by` is the sum or the product.
pub fn arg_fold(dtype: DType, arb: [usize; 3], by: Fold) -> Prepared {
    fn typed<T: Number>(arb: [usize; 3], by: Fold) -> Prepared {
        match by {
            Fold::Sum | Fold::Product => panic!("only a maximum or minimum has an index"),
            Fold::Max => map(move |xs: &[T], out: &mut [i64]| {
                arg_extremum(xs, arb, out, T::above, Max);
            }),
            Fold::Min => map(move |xs: &[T], out: &mut [i64]| {
                arg_extremum(xs, arb, out, T::below, Min);
            }),
        }
    }
    on_number!(dtype, typed(arb, by))
}

/// Adds up the totals that a group has written for each `cols` results: the results are the totals and their sums.
pub fn join_totals(dtype: DType, cols: usize) -> Prepared {
    fn typed<T: Number>(cols: usize) -> Prepared {
        Box::new(move |_, outs| {
            let [totals, out] = outs else {
                unreachable!("the kernel writes the totals and their sum")
            };
            let (totals, out) = (T::slice_mut(totals), T::slice_mut(out));
            let len = totals.len() / (out.len() / cols);
            let parts = totals.chunks_exact_mut(len).zip(out.chunks_exact_mut(cols));
            parts.for_each(|(totals, out)| join(totals, out));
            Ok(())
        })
    }
    on_number!(dtype, typed(cols))
}

/// Folds the middle axis: `[a, r, b]` to `[a, b]`.
pub(crate) fn fold<T: Element, R: Reduction<T>>(
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
    // Threads read whole rows in sequence, which is faster than pieces of rows.
    if a == 1 && b > 1 && b <= 4 * STRIP && r >= 2 * BLOCK * PARTS {
        fold_tall(xs, [r, b], out, how);
        return;
    }
    if let Some(results) = results_of_narrow::<T>([a, r, b]) {
        return for_each_chunk(out, results, nanos, |task, out| {
            fold_narrow(&xs[task * results * r..], [r, b], out, how);
        });
    }
    if size_of::<T>() == 1 && r > 1 && (2..NARROW_COLS).contains(&b) && r * b <= BOOLS {
        let results = TASK_BYTES / (r * b) * b;
        return for_each_chunk(out, results, nanos, |task, out| {
            fold_narrow_bools(&xs[task * results * r..], [r, b], out, how);
        });
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

/// Returns the number of results that a task computes. It does not affect their values.
fn results_of_a_task<T>([a, r, b]: [usize; 3]) -> usize {
    let results = TASK_BYTES / size_of::<T>() / r;
    match b {
        1 => results.max(1),
        // Long pieces of rows are read faster.
        _ => results.max((a * b).div_ceil(threads()).min(STRIP).next_multiple_of(64)),
    }
}

fn fold_rows<T: Element>(xs: &[T], r: usize, out: &mut [T], how: impl Reduction<T>) {
    match (r, size_of::<T>()) {
        (2..=7, _) | (8, ..8) => fold_short_rows(xs, r, out, how),
        (..=MIDDLE, 4..) if r < how.least_row() && out.len() >= MANY => {
            fold_middle_rows(xs, r, out, how)
        }
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
    fn fold_middle_rows<S, T: Element>(xs: &[T], r: usize, out: &mut [T], how: impl Reduction<T>) {
        match size_of::<T>() {
            4 => by_columns::<S, T, 16>(xs, r, out, how),
            _ => by_columns::<S, T, 8>(xs, r, out, how),
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

/// Number of rows or matrices from which they are transposed to be folded.
const MANY: usize = 16;

/// Number of elements of rows that are transposed to be folded.
const MIDDLE: usize = 64;

/// Folds rows of up to [`MIDDLE`] elements, of which `N` fill a line. The lanes of vectors are rows.
#[inline(always)]
fn by_columns<S: Simd, T: Element, const N: usize>(
    xs: &[T],
    r: usize,
    out: &mut [T],
    how: impl Reduction<T>,
) {
    let width = WIDE * N;
    let mut cols = Columns::<T, N, { MIDDLE * WIDE }>([[T::default(); N]; MIDDLE * WIDE]);
    for (i, out) in out.chunks_mut(width).enumerate() {
        read_columns::<S, T, N>(&xs[i * width * r..], r, out.len(), &mut cols.0);
        let cols = cols.0.as_flattened_mut();
        let mut half = r.next_power_of_two() / 2;
        let mut len = r;
        while half > 0 {
            let (low, high) = cols[..len * width].split_at_mut(half * width);
            for (x, y) in low.iter_mut().zip(&*high) {
                *x = how.pair(*x, *y);
            }
            (len, half) = (half, half / 2);
        }
        out.copy_from_slice(&cols[..out.len()]);
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

/// Folds one long row. Groups of a power of 2 of chunks are whole subtrees.
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

/// Totals of columns, aligned so that no vector straddles two cache lines.
#[repr(align(64))]
struct Strip<T, const N: usize = STRIP>([T; N]);

/// Maximum number of parts of the rows of a tall matrix that threads share.
const PARTS: usize = 8;

/// Folds few columns of many rows. Parts of the same power of 2 of blocks are whole subtrees of
/// [`fold_strip`].
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

/// Number of columns from which the columns of each matrix are folded alone.
const NARROW_COLS: usize = 16;

/// Maximum number of elements of a matrix that is folded together with others.
const NARROW_MATRIX: usize = 256;

/// Returns the number of results of a task on matrices that are small and have few columns.
///
/// Returns `None` if the columns of each matrix are folded alone.
fn results_of_narrow<T>([a, r, b]: [usize; 3]) -> Option<usize> {
    let many = a >= MANY && a * r * b >= MANY * NARROW_MATRIX;
    let narrow = many && (2..NARROW_COLS).contains(&b) && r * b <= NARROW_MATRIX;
    let matrices = TASK_BYTES / (size_of::<T>() * r * b);
    (narrow && size_of::<T>() >= 4).then(|| matrices.next_multiple_of(64) * b)
}

leveled! {
    /// Folds the columns of narrow matrices. The lanes of vectors are matrices.
    fn fold_narrow<S, T: Element>(
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
    fn arg_narrow<S, T: Number>(
        xs: &[T],
        rb: [usize; 2],
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        let find = |cols: &[T], places: &mut [i64]| arg_strip(cols, places.len(), 0, places, wins);
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
    fold: impl Fn(&[T], &mut [U]),
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

/// Maximum number of bools of a narrow matrix that is folded in halves.
const BOOLS: usize = 4096;

leveled! {
    /// Folds the columns of narrow matrices of bools: the last half of the rows into the first one, until one is left.
    fn fold_narrow_bools<S, T: Element>(
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

/// Folds `[a, r, b]` to the results of `[a, b]` from `start` on.
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

/// Number of columns whose lanes are added up together. The L1 cache holds them.
const ACROSS: usize = 64;

leveled! {
    /// Adds up the columns of `[a, r, b]` that have the results of `[a, b]` from `start` on, in the order of rows.
    fn sums_across<S, T: Number>(xs: &[T], rb: [usize; 2], start: usize, out: &mut [T]) {
        let [r, b] = rb;
        let mut lanes = [[T::ZERO; ACROSS]; LANES];
        let mut done = 0;
        while done < out.len() {
            let (matrix, column) = ((start + done) / b, (start + done) % b);
            let n = (out.len() - done).min(b - column).min(ACROSS);
            let xs = &xs[matrix * r * b..][..r * b];
            sum_chunks(&xs[column..], b, r, &mut out[done..done + n], &mut lanes);
            done += n;
        }
    }
}

/// Adds up columns of `rows` rows that are `stride` apart, in the order of [`sum`].
#[inline(always)]
fn sum_chunks<T: Number>(
    xs: &[T],
    stride: usize,
    rows: usize,
    out: &mut [T],
    lanes: &mut [[T; ACROSS]; LANES],
) {
    let n = out.len();
    if rows <= CHUNK {
        return out.copy_from_slice(&sum_chunk(xs, stride, rows, n, lanes)[..n]);
    }
    let mut tree = Pairwise::new([T::ZERO; ACROSS]);
    let plus = |mut x: [T; ACROSS], y: [T; ACROSS]| {
        add_columns(&mut x, &y);
        x
    };
    for first in (0..rows).step_by(CHUNK) {
        let len = CHUNK.min(rows - first);
        tree.push(
            sum_chunk(&xs[first * stride..], stride, len, n, lanes),
            plus,
        );
    }
    let total = tree.finish(plus).expect("there are rows");
    out.copy_from_slice(&total[..n]);
}

/// Returns the sums of `n` columns of up to [`CHUNK`] rows. The other elements have any value.
#[inline(always)]
fn sum_chunk<T: Number>(
    xs: &[T],
    stride: usize,
    rows: usize,
    n: usize,
    lanes: &mut [[T; ACROSS]; LANES],
) -> [T; ACROSS] {
    let mut len = rows.min(LANES);
    for (i, lane) in lanes[..len].iter_mut().enumerate() {
        lane[..n].copy_from_slice(&xs[i * stride..][..n]);
        for i in (i + LANES..rows).step_by(LANES) {
            add_columns(lane, &xs[i * stride..][..n]);
        }
    }
    let mut half = len.next_power_of_two() / 2;
    while half > 0 {
        let (low, high) = lanes[..len].split_at_mut(half);
        for (x, y) in low.iter_mut().zip(&*high) {
            add_columns(x, y);
        }
        (len, half) = (half, half / 2);
    }
    lanes[0]
}

/// Adds elements to those of the first columns.
#[inline(always)]
fn add_columns<T: Number>(to: &mut [T; ACROSS], xs: &[T]) {
    // The loop over all columns has a constant length.
    match <&[T; ACROSS]>::try_from(xs) {
        Ok(xs) => {
            for i in 0..ACROSS {
                to[i] = to[i].plus(xs[i]);
            }
        }
        Err(_) => {
            for (y, x) in to.iter_mut().zip(xs) {
                *y = y.plus(*x);
            }
        }
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
fn fold_into<T: Element>(
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

leveled! {
    /// Writes the sum of each row of `cols` elements, at most [`CHUNK`].
    pub(crate) fn row_totals<S, T: Number>(xs: &[T], cols: usize, out: &mut [T]) {
        for (y, row) in out.iter_mut().zip(xs.chunks_exact(cols)) {
            *y = sum::<S, T>(row);
        }
    }
}

leveled! {
    /// Adds rows of the length of `total` to it in sequence; the last row may be incomplete.
    pub(crate) fn add_rows<A, T: Number>(total: &mut [T], xs: &[T]) {
        let cols = total.len().max(1);
        let (rows, part) = xs.split_at(xs.len() / cols * cols);
        fold_into(rows, cols, rows.len() / cols, total, Sum);
        for (t, &x) in total.iter_mut().zip(part) {
            *t = t.plus(x);
        }
    }
}

/// Sums rows of the length of `out`, in pairs of equal weight. Overwrites `totals`.
pub(crate) fn join<T: Number>(totals: &mut [T], out: &mut [T]) {
    join_from(totals, out.len(), 1);
    out.copy_from_slice(&totals[..out.len()]);
}

/// Adds up rows of `cols` numbers into the first, in pairs of equal weight.
///
/// The first of each `stride` rows, a power of 2, must already hold their sum.
pub(crate) fn join_from<T: Number>(totals: &mut [T], cols: usize, mut stride: usize) {
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

/// Writes the first index along the middle axis of the extremum.
///
/// `wins(x, best)` is the strict order, and `most` finds the extremum.
pub(crate) fn arg_extremum<T: Number>(
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
    if let Some(results) = results_of_narrow::<T>([a, r, b]) {
        return for_each_chunk(out, results, nanos, |task, out| {
            arg_narrow(&xs[task * results * r..], [r, b], out, wins);
        });
    }
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

fn arg_rows<T: Number>(
    xs: &[T],
    r: usize,
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy,
    most: impl Reduction<T>,
) {
    match (r, size_of::<T>()) {
        (2..=7, _) | (8, 4) => arg_short_rows(xs, r, out, wins),
        (9..=MIDDLE, 4) if out.len() >= MANY => arg_middle_rows(xs, r, out, wins),
        _ => arg_long_rows(xs, r, out, wins, most),
    }
}

leveled! {
    fn arg_short_rows<S, T: Number>(
        xs: &[T],
        r: usize,
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        of_length!(r, arg_short(xs, out, wins));
    }
}

leveled! {
    fn arg_middle_rows<S, T: Number>(
        xs: &[T],
        r: usize,
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        arg_by_columns::<S, T, 16>(xs, r, out, wins);
    }
}

leveled! {
    fn arg_long_rows<S, T: Number>(
        xs: &[T],
        r: usize,
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
        most: impl Reduction<T>,
    ) {
        for (at, row) in out.iter_mut().zip(xs.chunks_exact(r)) {
            let best = most.row::<S>(row);
            // The extremum wins against every element that is not equal to it.
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

/// Writes the first index of the extremum of each row of `R` elements. The lanes of vectors are rows.
#[inline(always)]
fn arg_short<T: Number, const R: usize>(
    xs: &[T],
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    for (at, row) in out.iter_mut().zip(xs.as_chunks::<R>().0) {
        let (mut best, mut place) = (row[0], 0u32);
        for (i, &x) in row.iter().enumerate().skip(1) {
            let won = wins(x, best);
            best = if won { x } else { best };
            place = if won { i as u32 } else { place };
        }
        *at = i64::from(place);
    }
}

/// Writes the first index of the extremum of rows of up to [`MIDDLE`] elements, of which `N` fill a line.
#[inline(always)]
fn arg_by_columns<S: Simd, T: Number, const N: usize>(
    xs: &[T],
    r: usize,
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    let width = WIDE * N;
    let mut cols = Columns::<T, N, { MIDDLE * WIDE }>([[T::ZERO; N]; MIDDLE * WIDE]);
    let mut best = [T::ZERO; 64];
    let (mut at, mut places) = ([0; 64], [0; 64]);
    let (best, at, places) = (&mut best[..width], &mut at[..width], &mut places[..width]);
    for (i, out) in out.chunks_mut(width).enumerate() {
        read_columns::<S, T, N>(&xs[i * width * r..], r, out.len(), &mut cols.0);
        let cols = &cols.0.as_flattened()[..r * width];
        best.copy_from_slice(&cols[..width]);
        arg_columns(cols, width, best, at, places, wins);
        out.copy_from_slice(&places[..out.len()]);
    }
}

/// Number of rows of a strip whose indices are counted from the same one.
const ARG_ROWS: usize = 256;

leveled! {
    fn arg_strip<A, T: Number>(
        xs: &[T],
        stride: usize,
        column: usize,
        out: &mut [i64],
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        let mut best = Strip([T::ZERO; STRIP]);
        let mut at = Strip([0; STRIP]);
        let (best, at) = (&mut best.0[..out.len()], &mut at.0[..out.len()]);
        best.copy_from_slice(&xs[column..][..out.len()]);
        arg_columns(&xs[column..], stride, best, at, out, wins);
    }
}

/// Writes the first index of the extremum of columns, of which the first elements are in `best`.
///
/// Rows are `stride` apart, and the last one may be incomplete. `best` and `at` are overwritten.
#[inline(always)]
fn arg_columns<T: Number>(
    xs: &[T],
    stride: usize,
    best: &mut [T],
    at: &mut [u32],
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    out.fill(0);
    let rows = xs.len().div_ceil(stride);
    for first in (1..rows).step_by(ARG_ROWS) {
        let some = ARG_ROWS.min(rows - first);
        at.fill(0);
        let mut i = 0;
        while i < some {
            let from = &xs[(first + i) * stride..];
            let number = i as u32 + 1;
            i += match some - i {
                8.. => arg_more::<T, 8>(from, stride, number, best, at, wins),
                _ => arg_more::<T, 1>(from, stride, number, best, at, wins),
            };
        }
        for (out, at) in out.iter_mut().zip(&*at) {
            let new = first as i64 + i64::from(*at) - 1;
            *out = if *at > 0 { new } else { *out };
        }
    }
}

/// Compares `N` rows with the best elements of columns, and returns `N`. The rows have numbers from `first` on.
#[inline(always)]
fn arg_more<T: Number, const N: usize>(
    xs: &[T],
    stride: usize,
    first: u32,
    best: &mut [T],
    at: &mut [u32],
    wins: impl Fn(T, T) -> bool + Copy,
) -> usize {
    let n = best.len();
    let rows: [&[T]; N] = std::array::from_fn(|i| &xs[i * stride..][..n]);
    let step = |mut found: (T, u32), x: [T; N]| {
        for (i, x) in x.into_iter().enumerate() {
            let won = wins(x, found.0);
            let number = first + i as u32;
            found = (
                if won { x } else { found.0 },
                if won { number } else { found.1 },
            );
        }
        found
    };
    // The length of a piece is a constant, so its loop has no columns that are compared alone.
    let split = rows.map(|row| row.as_chunks::<32>());
    let (pieces, rest) = best.as_chunks_mut::<32>();
    let (places, rest_at) = at.as_chunks_mut::<32>();
    for (i, (best, at)) in pieces.iter_mut().zip(places).enumerate() {
        let rows: [&[T; 32]; N] = std::array::from_fn(|row| &split[row].0[i]);
        for j in 0..32 {
            (best[j], at[j]) = step((best[j], at[j]), std::array::from_fn(|row| rows[row][j]));
        }
    }
    let rows = split.map(|(_, row)| &row[..rest.len()]);
    for (j, (best, at)) in rest.iter_mut().zip(rest_at).enumerate() {
        (*best, *at) = step((*best, *at), std::array::from_fn(|row| rows[row][j]));
    }
    N
}

#[cfg(test)]
mod tests {
    use super::{BoolFold, Fold, arg_fold, fold_axis, fold_bools, fold_view, sum_across};
    use crate::memory::{Data, DataMut, Layout};
    use crate::simd::number::Number;
    use gradloom_ir::DType;
    use std::cmp::Ordering;
    use std::fmt::Debug;

    const SIZES: [[usize; 3]; 36] = [
        [1, 1, 1],
        [2, 0, 3],
        [0, 2, 3],
        [2, 3, 0],
        [1, 7, 1],
        [3, 65, 1],
        [4, 1000, 1],
        [1, 2, 2],
        [2, 5, 3],
        [3, 4, 7],
        [2, 33, 15],
        [1, 100, 50],
        [2, 70, 65],
        [1, 9, 67],
        [2, 3, 129],
        [1, 600, 21],
        [1, 3, 1100],
        [70, 2, 1],
        [70, 3, 1],
        [33, 4, 1],
        [70, 5, 1],
        [70, 6, 1],
        [71, 7, 1],
        [70, 8, 1],
        [70, 9, 1],
        [131, 13, 1],
        [70, 16, 1],
        [65, 17, 1],
        [70, 33, 1],
        [130, 64, 1],
        [70, 65, 1],
        [570, 5, 2],
        [130, 40, 3],
        [265, 17, 15],
        [33, 1, 7],
        [64, 128, 2],
    ];

    /// Calls `check` with each column of the middle axis and the index of its result.
    fn columns<T: Copy>(xs: &[T], [a, r, b]: [usize; 3], mut check: impl FnMut(usize, Vec<T>)) {
        for i in 0..a * b {
            let column = (0..r).map(|row| xs[(i / b * r + row) * b + i % b]);
            check(i, column.collect());
        }
    }

    #[test]
    fn sums_across_rows_have_the_bits_of_sums_of_rows() {
        let long = [
            [1, 1023, 66],
            [2, 1025, 3],
            [1, 2048, 130],
            [3, 3100, 5],
            [1, 5000, 65],
        ];
        for [a, r, b] in SIZES.into_iter().chain(long) {
            let mut xs: Vec<f32> = (0..a * r * b)
                .map(|i| (i * 7919 % 1009) as f32 / 7.0 - 60.0)
                .collect();
            xs.iter_mut().step_by(29).for_each(|x| *x = -0.0);
            let mut rows = Vec::new();
            columns(&xs, [a, r, b], |_, column| rows.extend(column));
            let (mut found, mut want) = (vec![9.0f32; a * b], vec![7.0f32; a * b]);
            let kernel = sum_across(DType::F32, [a, r, b]);
            kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
            let kernel = fold_axis(DType::F32, [a * b, r, 1], Fold::Sum);
            kernel(&[Data::F32(&rows)], &mut [DataMut::F32(&mut want)]).unwrap();
            let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&want), "{:?}", [a, r, b]);
        }
    }

    /// Order of numbers of a maximum, in which NaN is above and zeros differ.
    fn float_order(x: f64, y: f64, nan: Ordering) -> Ordering {
        match (x.is_nan(), y.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => nan,
            (false, true) => nan.reverse(),
            (false, false) => x.total_cmp(&y),
        }
    }

    fn extrema<T: Number + Debug>(
        dtype: DType,
        of: impl Fn(usize) -> T,
        order: impl Fn(T, T, Ordering) -> Ordering,
        data: impl Fn(&[T]) -> Data<'_>,
        data_mut: impl Fn(&mut [T]) -> DataMut<'_>,
    ) {
        for arb in SIZES {
            let [a, r, b] = arb;
            let xs: Vec<T> = (0..a * r * b).map(&of).collect();
            for (by, above) in [(Fold::Max, Ordering::Greater), (Fold::Min, Ordering::Less)] {
                if r == 0 {
                    continue;
                }
                let mut found = vec![T::ONE; a * b];
                fold_axis(dtype, arb, by)(&[data(&xs)], &mut [data_mut(&mut found)]).unwrap();
                let mut places = vec![9; a * b];
                let kernel = arg_fold(dtype, arb, by);
                kernel(&[data(&xs)], &mut [DataMut::I64(&mut places)]).unwrap();
                columns(&xs, arb, |i, column| {
                    let best = |x: T, y: T| if order(y, x, above) == above { y } else { x };
                    let want = column[1..].iter().fold(column[0], |x, y| best(x, *y));
                    let same = order(want, found[i], above).is_eq();
                    assert!(same, "{by:?} {arb:?} {i}: {:?} {want:?}", found[i]);
                    // The order of indices has equal zeros.
                    let equal = |x: &T| *x == want || (!x.is_number() && !want.is_number());
                    let place = column.iter().position(equal).unwrap();
                    assert_eq!(places[i], place as i64, "index of {by:?} {arb:?} {i}");
                });
            }
        }
    }

    #[test]
    fn extrema_of_any_axis_are_those_of_the_definition() {
        // Columns with NaN, with zeros of both signs as extrema, and with infinities.
        let number = |i: usize| match (i * 7919 % 1013, i % 5) {
            (0..3, _) => f64::NAN,
            (3..6, _) => f64::INFINITY,
            (6..9, _) => f64::NEG_INFINITY,
            (x, 0) => [-0.0, 0.0][x % 2],
            (x, 1) => -((x % 3) as f64) * 0.0,
            (x, 2) => (x % 4) as f64 - 3.0,
            (x, _) => x as f64 - 500.0,
        };
        extrema(
            DType::F64,
            number,
            float_order,
            |x| Data::F64(x),
            |x| DataMut::F64(x),
        );
        extrema(
            DType::F32,
            |i| number(i) as f32,
            |x, y, nan| float_order(f64::from(x), f64::from(y), nan),
            |x| Data::F32(x),
            |x| DataMut::F32(x),
        );
        let int = |i: usize| match i * 7919 % 1013 {
            0 => i64::MIN,
            1 => i64::MAX,
            x => x as i64 - 500,
        };
        extrema(
            DType::I64,
            int,
            |x, y, _| x.cmp(&y),
            |x| Data::I64(x),
            |x| DataMut::I64(x),
        );
        extrema(
            DType::I32,
            |i| int(i) as i32,
            |x, y, _| x.cmp(&y),
            |x| Data::I32(x),
            |x| DataMut::I32(x),
        );
    }

    #[test]
    fn negative_nan_is_found() {
        for n in [1, 2, 5, 16, 40, 100] {
            for at in 0..n {
                let mut xs = vec![1.0f32; 3 * n];
                xs[3 * at + 1] = -f32::NAN;
                for by in [Fold::Max, Fold::Min] {
                    let mut found = [0.0; 3];
                    let kernel = fold_axis(DType::F32, [1, n, 3], by);
                    kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
                    assert!(found[1].is_nan() && found[0] == 1.0 && found[2] == 1.0);
                }
            }
        }
    }

    #[test]
    fn sums_and_products_of_any_axis_are_those_of_the_definition() {
        for arb in SIZES {
            let [a, r, b] = arb;
            let ints: Vec<i64> = (0..a * r * b)
                .map(|i| (i * 7919 % 1013) as i64 - 500)
                .collect();
            let odd: Vec<i64> = ints.iter().map(|x| x | 1).collect();
            let mut found = vec![9; a * b];
            let mut run = |xs: &[i64], by| {
                fold_axis(DType::I64, arb, by)(&[Data::I64(xs)], &mut [DataMut::I64(&mut found)])
                    .unwrap();
                found.clone()
            };
            let [sums, products] = [run(&ints, Fold::Sum), run(&odd, Fold::Product)];
            columns(&ints, arb, |i, column| {
                assert_eq!(sums[i], column.iter().sum(), "{arb:?} {i}")
            });
            columns(&odd, arb, |i, column| {
                let product = column.iter().fold(1i64, |x, y| x.wrapping_mul(*y));
                assert_eq!(products[i], product, "{arb:?} {i}");
            });
            let floats: Vec<f64> = ints.iter().map(|x| 1.0 + *x as f64 / 1e4).collect();
            for by in [Fold::Sum, Fold::Product] {
                let mut found = vec![9.0; a * b];
                let kernel = fold_axis(DType::F64, arb, by);
                kernel(&[Data::F64(&floats)], &mut [DataMut::F64(&mut found)]).unwrap();
                columns(&floats, arb, |i, column| {
                    let want: f64 = match by {
                        Fold::Sum => column.iter().sum(),
                        _ => column.iter().product(),
                    };
                    assert!(
                        (found[i] - want).abs() <= 1e-12 * want.abs(),
                        "{by:?} {arb:?} {i}"
                    );
                });
            }
        }
    }

    fn folded(xs: &[f32], arb: [usize; 3], by: Fold) -> Vec<u32> {
        let mut found = vec![9.0; arb[0] * arb[2]];
        let kernel = fold_axis(DType::F32, arb, by);
        kernel(&[Data::F32(xs)], &mut [DataMut::F32(&mut found)]).unwrap();
        found.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn rows_of_up_to_64_elements_are_folded_in_halves() {
        let number = |i: usize| (i * 7919 % 1013) as f32 / 97.0 - 4.0;
        for r in 2..=64 {
            let a = 150;
            let xs: Vec<f32> = (0..a * r).map(number).collect();
            for by in [Fold::Sum, Fold::Product] {
                let want = xs.chunks(r).map(|row| {
                    let mut x = row.to_vec();
                    let mut half = r.next_power_of_two() / 2;
                    while half > 0 {
                        for i in half..x.len() {
                            match by {
                                Fold::Sum => x[i - half] += x[i],
                                _ => x[i - half] *= x[i],
                            }
                        }
                        x.truncate(half);
                        half /= 2;
                    }
                    x[0].to_bits()
                });
                let want: Vec<u32> = want.collect();
                assert_eq!(folded(&xs, [a, r, 1], by), want, "{by:?} of {r}");
            }
        }
    }

    #[test]
    fn matrices_are_folded_to_the_bits_of_each_alone() {
        let number = |i: usize| (i * 7919 % 1013) as f32 / 97.0 - 4.0;
        for [a, r, b] in [
            [570, 5, 2],
            [130, 40, 3],
            [265, 17, 15],
            [200, 100, 2],
            [464, 3, 4],
        ] {
            let xs: Vec<f32> = (0..a * r * b).map(number).collect();
            for by in [Fold::Sum, Fold::Product, Fold::Max] {
                let alone = xs.chunks(r * b).flat_map(|xs| folded(xs, [1, r, b], by));
                let alone: Vec<u32> = alone.collect();
                assert_eq!(folded(&xs, [a, r, b], by), alone, "{by:?} of {a} {r} {b}");
            }
        }
    }

    #[test]
    fn bools_of_any_axis_are_folded() {
        for arb in SIZES {
            let [a, r, b] = arb;
            for odd in [true, false] {
                let xs: Vec<bool> = (0..a * r * b).map(|i| odd == (i * 7919 % 97 < 2)).collect();
                for (by, all) in [(BoolFold::Any, false), (BoolFold::All, true)] {
                    let mut found = vec![u8::from(!all); a * b];
                    fold_bools(arb, by)(&[Data::Bool(&xs)], &mut [DataMut::Bool(&mut found)])
                        .unwrap();
                    columns(&xs, arb, |i, column| {
                        let want = if all {
                            !column.contains(&false)
                        } else {
                            column.contains(&true)
                        };
                        assert_eq!(found[i], u8::from(want), "{by:?} {arb:?} {i}");
                    });
                }
            }
        }
    }

    #[test]
    fn a_view_is_folded_to_the_bits_of_its_copy() {
        let shapes = [
            [70, 50, 33],
            [4, 900, 65],
            [130, 3, 17],
            [1, 2000, 49],
            [300, 1, 97],
        ];
        let orders = [[1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]];
        for (shape, order) in shapes.iter().flat_map(|s| orders.map(|o| (s, o))) {
            let layout = Layout::contiguous(shape).permute(&order);
            let xs: Vec<f32> = (0..layout.numel())
                .map(|i| (i * 7919 % 1013) as f32 / 97.0)
                .collect();
            let mut copied = vec![0.0; xs.len()];
            let copy = crate::movement::copy(DType::F32, &layout);
            copy(&[Data::F32(&xs)], &mut [DataMut::F32(&mut copied)]).unwrap();
            let [x, y, z] = layout.shape[..] else {
                unreachable!()
            };
            for arb in [
                [1, x, y * z],
                [x, y, z],
                [x * y, z, 1],
                [x, y * z, 1],
                [1, x * y, z],
            ] {
                for by in [Fold::Sum, Fold::Product, Fold::Max] {
                    let Some(kernel) = fold_view(DType::F32, &layout, arb, by) else {
                        continue;
                    };
                    let [mut found, mut want] = [(); 2].map(|()| vec![9.0f32; arb[0] * arb[2]]);
                    kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
                    let kernel = fold_axis(DType::F32, arb, by);
                    kernel(&[Data::F32(&copied)], &mut [DataMut::F32(&mut want)]).unwrap();
                    let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&found), bits(&want), "{by:?} {arb:?} of {layout:?}");
                }
            }
        }
    }
}
