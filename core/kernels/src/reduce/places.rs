//! Reductions of strided elements where they lie.

use super::columns::{STRIP, fold_block, fold_blocks, fold_strip};
use super::operation::Reduction;
use super::rows::fold_rows;
use super::{BYTES_PER_NANO, results_of_a_task};
use crate::memory::element::Element;
use crate::memory::layout::distance;
use crate::threads::for_each_chunk;

/// Places of the elements of `[a, r, b]`, with the lengths and strides of the kept axes.
#[derive(Clone, Copy)]
pub(super) enum Places<'a> {
    /// Rows of contiguous elements. Each result has one.
    Rows(&'a [(usize, usize)]),
    /// Rows at a stride. A result has an element of each, and the innermost kept axis is contiguous.
    Columns(&'a [(usize, usize)], usize),
}

/// Folds the middle axis of `[a, r, b]` without a copy.
pub(super) fn fold_in_place<T: Element>(
    xs: &[T],
    arb: [usize; 3],
    out: &mut [T],
    how: impl Reduction<T>,
    places: Places<'_>,
) {
    let r = arb[1];
    let nanos = arb.iter().product::<usize>() * size_of::<T>() / BYTES_PER_NANO;
    match places {
        Places::Rows(kept) => {
            let stride = kept.last().map_or(r, |axis| axis.1);
            in_place::<T, _, _>(out, arb, nanos, kept, || {
                |at, piece: &mut [T]| fold_rows(&xs[at..], stride, r, piece, how)
            });
        }
        Places::Columns(kept, stride) => {
            let (b, inner) = (arb[2], kept.last().map_or(usize::MAX, |axis| axis.0));
            let results = results_of_a_task::<T>(arb);
            for_each_chunk(out, results, nanos, |task, mut out| {
                let mut start = task * results;
                while !out.is_empty() {
                    let n = out.len().min(b - start % b).min(STRIP);
                    let (strip, rest) = out.split_at_mut(n);
                    if n <= inner - start % inner {
                        fold_strip(&xs[distance(kept, start)..], stride, r, strip, how);
                    } else {
                        // All pieces of some rows before other rows, which are in other pages.
                        fold_blocks(0, r, strip, how, &|first, rows, out: &mut [T]| {
                            pieces(kept, start, out, |at, piece| {
                                fold_block(&xs[at + first * stride..], stride, rows, piece, how);
                            });
                        });
                    }
                    (start, out) = (start + n, rest);
                }
            });
        }
    }
}

/// Writes the results, of elements of type `T`, in pieces that lie along the innermost kept axis.
///
/// Each task calls `begin` for a function that gets the place of the first element and the results of a piece.
pub(super) fn in_place<T, U: Send, W: FnMut(usize, &mut [U])>(
    out: &mut [U],
    arb: [usize; 3],
    nanos: usize,
    kept: &[(usize, usize)],
    begin: impl Fn() -> W + Sync,
) {
    let results = results_of_a_task::<T>(arb);
    for_each_chunk(out, results, nanos, |task, out| {
        pieces(kept, task * results, out, begin());
    });
}

/// Calls `write` for results from `start` on, in pieces that lie along the innermost kept axis.
fn pieces<U>(
    kept: &[(usize, usize)],
    mut start: usize,
    mut out: &mut [U],
    mut write: impl FnMut(usize, &mut [U]),
) {
    let inner = kept.last().map_or(usize::MAX, |axis| axis.0);
    while !out.is_empty() {
        let n = out.len().min(inner - start % inner);
        let (piece, later) = out.split_at_mut(n);
        write(distance(kept, start), piece);
        (start, out) = (start + n, later);
    }
}
