//! Indices of extrema.

use super::columns::{STRIP, Strip};
use super::narrow::{arg_narrow, results_of_narrow};
use super::operation::{Max, Min, Reduction};
use super::rows::{MANY, MIDDLE, of_length, read_columns};
use super::{BYTES_PER_NANO, Fold, results_of_a_task};
use crate::movement::blocks::{Columns, WIDE};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::Simd;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use gradloom_ir::DType;

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
    pub(super) fn arg_strip<A, T: Number>(
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
