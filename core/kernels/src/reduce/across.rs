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
