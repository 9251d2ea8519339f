//! Sums of columns with the bits of sums of rows.

use super::operation::Sum;
use super::{BYTES_PER_NANO, fold, results_of_a_task};
use crate::simd::lanes::{CHUNK, Pairwise};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::LANES;
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

/// Number of sums of lanes that are in memory. The lanes `i + ROWS * j` are added up in registers.
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
        add_columns(&mut x, &y);
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
    let mut len = rows.min(ROWS);
    for (i, sums) in sums[..len].iter_mut().enumerate() {
        let xs = &xs[i * stride..];
        let done = sum_pieces::<T, 16>(xs, stride, rows - i, &mut sums[..n], 0);
        let done = sum_pieces::<T, 4>(xs, stride, rows - i, &mut sums[..n], done);
        sum_pieces::<T, 1>(xs, stride, rows - i, &mut sums[..n], done);
    }
    let mut half = len.next_power_of_two() / 2;
    while half > 0 {
        let (low, high) = sums[..len].split_at_mut(half);
        for (x, y) in low.iter_mut().zip(&*high) {
            add_columns(x, y);
        }
        (len, half) = (half, half / 2);
    }
}

/// Writes the sums of the lanes `0`, `ROWS`, `2 * ROWS`, ... for pieces of `W` columns from column `done` on. Returns the
/// first column without a sum.
#[inline(always)]
fn sum_pieces<T: Number, const W: usize>(
    xs: &[T],
    stride: usize,
    rows: usize,
    sums: &mut [T],
    mut done: usize,
) -> usize {
    while done + W <= sums.len() {
        let xs = &xs[done..];
        let lane = |j: usize| {
            let row = |i: usize| {
                *xs[i * stride..]
                    .first_chunk()
                    .expect("rows have `W` columns")
            };
            let first: [T; W] = row(ROWS * j);
            (ROWS * j + LANES..rows)
                .step_by(LANES)
                .fold(first, |sum, i| plus(sum, row(i)))
        };
        // The lower half of the lanes gets the upper one, as far as there are rows.
        let sum = match rows.div_ceil(ROWS) {
            1 => lane(0),
            2 => plus(lane(0), lane(1)),
            3 => plus(plus(lane(0), lane(2)), lane(1)),
            _ => plus(plus(lane(0), lane(2)), plus(lane(1), lane(3))),
        };
        sums[done..][..W].copy_from_slice(&sum);
        done += W;
    }
    done
}

#[inline(always)]
fn plus<T: Number, const W: usize>(mut xs: [T; W], ys: [T; W]) -> [T; W] {
    for (x, y) in xs.iter_mut().zip(ys) {
        *x = x.plus(y);
    }
    xs
}

/// Adds columns to others.
#[inline(always)]
fn add_columns<T: Number>(to: &mut [T; ACROSS], xs: &[T; ACROSS]) {
    for (y, x) in to.iter_mut().zip(xs) {
        *y = y.plus(*x);
    }
}
