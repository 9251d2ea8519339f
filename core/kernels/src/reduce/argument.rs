//! Indices of extrema.

use super::columns::{LONG, STRIP, Strip, pieces, prefetch_rows};
use super::narrow::{arg_narrow, results_of_narrow};
use super::operation::{Max, Min, Reduction};
use super::places::{Places, in_place};
use super::rows::of_length;
use super::view::{Direct, Gathered, PART, View};
use super::{BYTES_PER_NANO, Fold, results_of_a_task};
use crate::array;
use crate::memory::layout::Layout;
use crate::memory::scratch::Plain;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
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

/// As [`arg_fold`], for the elements of a layout. Returns `None` if a copy would be faster.
pub fn arg_fold_view(dtype: DType, layout: &Layout, arb: [usize; 3], by: Fold) -> Option<Prepared> {
    fn typed<T: Number + Plain>(view: View, by: Fold) -> Prepared {
        match by {
            Fold::Sum | Fold::Product => panic!("only a maximum or minimum has an index"),
            Fold::Max => map(move |xs: &[T], out: &mut [i64]| {
                arg_view(xs, &view, out, T::above, Max);
            }),
            Fold::Min => map(move |xs: &[T], out: &mut [i64]| {
                arg_view(xs, &view, out, T::below, Min);
            }),
        }
    }
    let view = View::new(layout, arb, dtype.size())?;
    // Columns that are not contiguous are copied faster than they are gathered one row after the other.
    let columns = matches!(view, View::Direct(Direct::Gathered(_))) && arb[2] > 1;
    (!columns).then(|| on_number!(dtype, typed(view, by)))
}

/// Writes the first index along the middle axis of the extremum of a view.
fn arg_view<T: Number + Plain>(
    xs: &[T],
    view: &View,
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy + Sync,
    most: impl Reduction<T>,
) {
    match view {
        View::Direct(Direct::InPlace(view)) => {
            let xs = view.elements(xs);
            arg_in_place(xs, view.arb, out, wins, most, view.places());
        }
        View::Direct(Direct::Gathered(view)) => arg_gathered(xs, view, out, wins, most),
        View::Parts(view) => view.for_each(xs, out, |xs, arb, out: &mut [i64]| {
            arg_extremum(xs, arb, out, wins, most);
        }),
    }
}

/// Writes the first index of the extremum of each row of a view, of which a part is copied at a time.
fn arg_gathered<T: Number>(
    xs: &[T],
    view: &Gathered,
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy + Sync,
    most: impl Reduction<T>,
) {
    let r = view.arb[1];
    let results = results_of_a_task::<T>(view.arb);
    for_each_chunk(out, results, view.nanos::<T>(), |task, out| {
        let part = &mut Strip([T::default(); PART]).0;
        let start = task * results;
        if r <= PART {
            return view.for_each_rows(xs, start, out, part, |xs, out| {
                arg_rows(xs, r, r, out, wins, most);
            });
        }
        for (i, place) in out.iter_mut().enumerate() {
            let (row, mut best) = ((start + i) * r..(start + i + 1) * r, None);
            view.for_each_part(xs, row, part, |first, xs| {
                let mut at = [0];
                arg_rows(xs, xs.len(), xs.len(), &mut at, wins, most);
                let x = xs[at[0] as usize];
                if best.is_none_or(|best| wins(x, best)) {
                    (best, *place) = (Some(x), first as i64 + at[0]);
                }
            });
        }
    });
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
    let columns = [(a, r * b), (b, 1)];
    let places = match b {
        1 => Places::Rows(&[(a, r)]),
        _ => Places::Columns(&columns, b),
    };
    arg_in_place(xs, [a, r, b], out, wins, most, places);
}

/// Writes the first index along the middle axis of the extremum without a copy.
fn arg_in_place<T: Number>(
    xs: &[T],
    arb: [usize; 3],
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy + Sync,
    most: impl Reduction<T>,
    places: Places<'_>,
) {
    let r = arb[1];
    let nanos = arb.iter().product::<usize>() * size_of::<T>() / BYTES_PER_NANO * 2;
    match places {
        Places::Rows(kept) => {
            let stride = kept.last().map_or(r, |axis| axis.1);
            in_place::<T, _, _>(out, arb, nanos, kept, || {
                |at, piece: &mut [i64]| arg_rows(&xs[at..], stride, r, piece, wins, most)
            });
        }
        Places::Columns(kept, stride) => in_place::<T, _, _>(out, arb, nanos, kept, || {
            let mut best = Best::new();
            move |at, piece: &mut [i64]| {
                for (i, strip) in piece.chunks_mut(STRIP).enumerate() {
                    arg_strip(&xs[at + i * STRIP..], stride, r, strip, &mut best, wins);
                }
            }
        }),
    }
}

/// Writes the first indices of the extrema of rows that are `stride` apart.
pub(super) fn arg_rows<T: Number>(
    xs: &[T],
    stride: usize,
    r: usize,
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool + Copy,
    most: impl Reduction<T>,
) {
    match (r, size_of::<T>()) {
        (2..=7, _) | (8, 4) if stride == r => arg_short_rows(xs, r, out, wins),
        _ => arg_long_rows(xs, stride, r, out, most),
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
    fn arg_long_rows<S, T: Number>(
        xs: &[T],
        stride: usize,
        r: usize,
        out: &mut [i64],
        most: impl Reduction<T>,
    ) {
        for (i, at) in out.iter_mut().enumerate() {
            let row = &xs[i * stride..][..r];
            let best = most.row::<S>(row);
            *at = match best.is_number() {
                true => T::row_index::<S>(row, best),
                false => row.iter().position(|x| !x.is_number()),
            }
            .unwrap_or(0) as i64;
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

/// Number of rows whose indices are counted from the same one.
const COUNTED: usize = 1 << 30;

/// Number of columns that are compared together.
const COLS: usize = 32;

/// Number of rows that are compared together.
const AT_ONCE: usize = 4;

/// The best elements of columns, and the numbers of their rows.
pub(super) struct Best<T> {
    elements: Strip<T>,
    rows: Strip<u32>,
}

impl<T: Number> Best<T> {
    pub(super) fn new() -> Best<T> {
        Best {
            elements: Strip([T::ZERO; STRIP]),
            rows: Strip([0; STRIP]),
        }
    }
}

leveled! {
    /// Writes the first indices of the extrema of columns of rows that are `stride` apart.
    ///
    /// `best` is overwritten.
    pub(super) fn arg_strip<A, T: Number>(
        xs: &[T],
        stride: usize,
        rows: usize,
        out: &mut [i64],
        best: &mut Best<T>,
        wins: impl Fn(T, T) -> bool + Copy,
    ) {
        let elements = &mut best.elements.0[..out.len()];
        let at = &mut best.rows.0[..out.len()];
        elements.copy_from_slice(&xs[..out.len()]);
        out.fill(0);
        for start in (1..rows).step_by(COUNTED) {
            let some = COUNTED.min(rows - start);
            at.fill(0);
            let xs = &xs[start * stride..];
            match stride * size_of::<T>() {
                ..=LONG => arg_pieces(xs, stride, some, elements, at, wins),
                _ => arg_long(xs, stride, some, elements, at, wins),
            }
            for (out, at) in out.iter_mut().zip(&*at) {
                let new = start as i64 + i64::from(*at) - 1;
                *out = if *at > 0 { new } else { *out };
            }
        }
    }
}

/// Compares rows with the best elements of columns, a piece of columns at a time. The number of row `i` is `i + 1`.
#[inline(always)]
fn arg_pieces<T: Number>(
    xs: &[T],
    stride: usize,
    rows: usize,
    best: &mut [T],
    at: &mut [u32],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    let mut done = 0;
    while done < best.len() {
        let (xs, best, at) = (&xs[done..], &mut best[done..], &mut at[done..]);
        done += match best.len() {
            COLS.. => arg_piece::<COLS, T>(xs, stride, rows, best, at, wins),
            8.. => arg_piece::<8, T>(xs, stride, rows, best, at, wins),
            _ => arg_piece::<1, T>(xs, stride, rows, best, at, wins),
        };
    }
}

/// Compares rows with the best elements of `N` columns, and returns `N`.
#[inline(always)]
fn arg_piece<const N: usize, T: Number>(
    xs: &[T],
    stride: usize,
    rows: usize,
    best: &mut [T],
    at: &mut [u32],
    wins: impl Fn(T, T) -> bool + Copy,
) -> usize {
    let best = best.first_chunk_mut::<N>().expect("there are `N` columns");
    let at = at.first_chunk_mut::<N>().expect("there are `N` columns");
    let (mut y, mut place) = (*best, *at);
    let mut done = 0;
    while done + AT_ONCE <= rows {
        let after = done + AT_ONCE;
        prefetch_rows(xs, stride, after..rows.min(after + AT_ONCE), N);
        let x = pieces::<N, AT_ONCE, T>(xs, stride, done);
        compare(x, done + 1, &mut y, &mut place, wins);
        done += AT_ONCE;
    }
    while done < rows {
        let x = pieces::<N, 1, T>(xs, stride, done);
        compare(x, done + 1, &mut y, &mut place, wins);
        done += 1;
    }
    (*best, *at) = (y, place);
    N
}

/// Compares rows with the best elements. The first row has the number `first`.
#[inline(always)]
fn compare<const N: usize, const ROWS: usize, T: Number>(
    rows: [&[T; N]; ROWS],
    first: usize,
    best: &mut [T; N],
    at: &mut [u32; N],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    for j in 0..N {
        let (mut y, mut place) = (best[j], at[j]);
        for (i, row) in rows.iter().enumerate() {
            let won = wins(row[j], y);
            y = if won { row[j] } else { y };
            place = if won { (first + i) as u32 } else { place };
        }
        (best[j], at[j]) = (y, place);
    }
}

/// Compares long pieces of rows with the best elements of columns. The number of row `i` is `i + 1`.
#[inline(always)]
fn arg_long<T: Number>(
    xs: &[T],
    stride: usize,
    rows: usize,
    best: &mut [T],
    at: &mut [u32],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    let mut done = 0;
    while done < rows {
        let (from, number) = (&xs[done * stride..], done as u32 + 1);
        done += match rows - done {
            8.. => compare_long::<T, 8>(from, stride, number, best, at, wins),
            _ => compare_long::<T, 1>(from, stride, number, best, at, wins),
        };
    }
}

/// Compares `N` rows with the best elements of columns, and returns `N`. The rows have numbers from `first` on.
#[inline(always)]
fn compare_long<T: Number, const N: usize>(
    xs: &[T],
    stride: usize,
    first: u32,
    best: &mut [T],
    at: &mut [u32],
    wins: impl Fn(T, T) -> bool + Copy,
) -> usize {
    let n = best.len();
    let rows: [&[T]; N] = array::from_fn(|i| &xs[i * stride..][..n]);
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
    let split = array::map(rows, |row| row.as_chunks::<COLS>());
    let (pieces, rest) = best.as_chunks_mut::<COLS>();
    let (places, rest_at) = at.as_chunks_mut::<COLS>();
    for (i, (best, at)) in pieces.iter_mut().zip(places).enumerate() {
        let rows: [&[T; COLS]; N] = array::from_fn(|row| &split[row].0[i]);
        for j in 0..COLS {
            (best[j], at[j]) = step((best[j], at[j]), array::from_fn(|row| rows[row][j]));
        }
    }
    let rows = array::map(split, |(_, row)| &row[..rest.len()]);
    for (j, (best, at)) in rest.iter_mut().zip(rest_at).enumerate() {
        (*best, *at) = step((*best, *at), array::from_fn(|row| rows[row][j]));
    }
    N
}
