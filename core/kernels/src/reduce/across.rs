//! Sums of columns with the bits of sums of rows.

use super::operation::Sum;
use super::{BYTES_PER_NANO, fold, results_of_a_task};
use crate::array;
use crate::simd::lanes::{CHUNK, Pairwise};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::{LANES, prefetch_elements};
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use gradloom_ir::DType;

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

/// Number of columns that are added up together: a long piece of each row, and `ROWS` pieces fit in the L1 cache.
const ACROSS: usize = 256;

/// Number of sums of lanes that are in memory at once. The lanes `i + ROWS * j` are added up one after the other.
const ROWS: usize = 16;

/// Sums of columns that are in memory.
type Sums<T> = [[T; ACROSS]; ROWS];

leveled! {
    /// Adds up the columns of `[a, r, b]` that have the results of `[a, b]` from `start` on, in the order of rows.
    fn sums_across<S, T: Number>(xs: &[T], rb: [usize; 2], start: usize, out: &mut [T]) {
        let [r, b] = rb;
        let mut sums = [[T::ZERO; ACROSS]; ROWS];
        let mut done = 0;
        while done < out.len() {
            let (matrix, column) = ((start + done) / b, (start + done) % b);
            let n = (out.len() - done).min(b - column).min(ACROSS);
            let xs = &xs[matrix * r * b..][..r * b];
            sum_chunks(&xs[column..], b, r, &mut out[done..done + n], &mut sums);
            done += n;
        }
    }
}

/// Adds up columns of `rows` rows that are `stride` apart, in the order of [`sum`](crate::simd::lanes::sum).
#[inline(always)]
fn sum_chunks<T: Number>(xs: &[T], stride: usize, rows: usize, out: &mut [T], sums: &mut Sums<T>) {
    let n = out.len();
    if rows <= CHUNK {
        sum_chunk(xs, stride, rows, n, sums);
        return out.copy_from_slice(&sums[0][..n]);
    }
    let mut tree = Pairwise::new([T::ZERO; ACROSS]);
    let plus = |mut x: [T; ACROSS], y: [T; ACROSS]| {
        add_to(&mut x, &y);
        x
    };
    for first in (0..rows).step_by(CHUNK) {
        let len = CHUNK.min(rows - first);
        sum_chunk(&xs[first * stride..], stride, len, n, sums);
        tree.push(sums[0], plus);
    }
    let total = tree.finish(plus).expect("there are rows");
    out.copy_from_slice(&total[..n]);
}

/// Leaves the sums of `n` columns of up to [`CHUNK`] rows in `sums[0]`. The other elements get any value.
#[inline(always)]
fn sum_chunk<T: Number>(xs: &[T], stride: usize, rows: usize, n: usize, sums: &mut Sums<T>) {
    // One lane at a time: rows that are read together may lie in one set of the cache.
    let mut totals = [[T::ZERO; ACROSS]; LANES / ROWS];
    let mut len = rows.min(ROWS);
    for (i, sum) in sums[..len].iter_mut().enumerate() {
        let n_lanes = (rows - i).div_ceil(ROWS).min(LANES / ROWS);
        let mut lanes: [&[T]; LANES / ROWS] = [&[]; _];
        for (j, (lane, total)) in lanes[..n_lanes].iter_mut().zip(&mut totals).enumerate() {
            let first = i + ROWS * j;
            let xs = &xs[first * stride..];
            *lane = match rows - first {
                ..=LANES => &xs[..n],
                rows => {
                    sum_lane(xs, stride, rows, &mut total[..n]);
                    &total[..n]
                }
            };
        }
        let sum = &mut sum[..n];
        // The lower half of the lanes gets the upper one, as far as there are rows.
        match (n_lanes, lanes) {
            (1, [a, ..]) => sum.copy_from_slice(a),
            (2, [a, b, ..]) => add_columns(sum, [a, b], |[a, b]| a.plus(b)),
            (3, [a, b, c, _]) => add_columns(sum, [a, b, c], |[a, b, c]| a.plus(c).plus(b)),
            (_, lanes) => add_columns(sum, lanes, |[a, b, c, d]| a.plus(c).plus(b.plus(d))),
        }
    }
    let mut half = len.next_power_of_two() / 2;
    while half > 0 {
        let (low, high) = sums[..len].split_at_mut(half);
        for (x, y) in low.iter_mut().zip(&*high) {
            add_to(&mut x[..n], &y[..n]);
        }
        (len, half) = (half, half / 2);
    }
}

/// Adds up the rows `0`, `LANES`, `2 * LANES`, ... of the columns of `out`, at least two rows.
#[inline(always)]
fn sum_lane<T: Number>(xs: &[T], stride: usize, rows: usize, out: &mut [T]) {
    let n = out.len();
    // The next row is that of the next lane, in other pages than the rows of this one.
    let row = |i: usize| {
        prefetch_elements(xs, (i + 1) * stride, n);
        &xs[i * stride..][..n]
    };
    for (y, (a, b)) in out.iter_mut().zip(row(0).iter().zip(row(LANES))) {
        *y = a.plus(*b);
    }
    let mut i = 2 * LANES;
    while i + LANES < rows {
        for (y, (a, b)) in out.iter_mut().zip(row(i).iter().zip(row(i + LANES))) {
            *y = y.plus(*a).plus(*b);
        }
        i += 2 * LANES;
    }
    if i < rows {
        for (y, x) in out.iter_mut().zip(row(i)) {
            *y = y.plus(*x);
        }
    }
}

/// Writes a sum of columns.
#[inline(always)]
fn add_columns<T: Number, const K: usize>(to: &mut [T], xs: [&[T]; K], sum: impl Fn([T; K]) -> T) {
    let xs = array::map(xs, |xs| &xs[..to.len()]);
    for (i, y) in to.iter_mut().enumerate() {
        *y = sum(array::map(xs, |xs| xs[i]));
    }
}

/// Adds columns to others.
#[inline(always)]
fn add_to<T: Number>(to: &mut [T], xs: &[T]) {
    for (y, x) in to.iter_mut().zip(xs) {
        *y = y.plus(*x);
    }
}
