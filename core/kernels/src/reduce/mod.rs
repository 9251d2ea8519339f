//! Reductions over any axes.
//!
//! Adjacent axes that are all reduced or all kept are merged. One group of reduced axes is folded
//! at a time, the longest one first, as the middle axis of `[a, r, b]`. The order of operations
//! depends on the shape alone, so a strided view gives the same bits as its contiguous copy.

mod across;
mod argument;
mod columns;
mod narrow;
mod operation;
mod places;
mod rows;
mod totals;
mod view;

#[cfg(test)]
mod tests;

pub use across::sum_across;
pub use argument::{arg_fold, arg_fold_view};
pub(crate) use columns::{BLOCK, STRIP, fold_strip, merge};
pub(crate) use operation::{Max, Reduction, Sum};
pub use totals::join_totals;
pub(crate) use totals::{FEW_COLS, add_rows, block_totals, join_from, row_totals};
pub use view::{fold_bools_view, fold_view};

use crate::memory::element::Element;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::{for_each_chunk, threads};
use columns::{PARTS, fold_tall};
use gradloom_ir::DType;
use narrow::{BOOLS, NARROW_COLS, fold_narrow, fold_narrow_bools, results_of_narrow};
use operation::{All, Any, Min, Product};
use places::{Places, fold_in_place};
use rows::{GROUP, fold_long, fold_row};

/// Approximate number of bytes that one thread reads in a nanosecond.
const BYTES_PER_NANO: usize = 60;

/// Number of bytes read for the part of a result that one thread computes.
const TASK_BYTES: usize = 1 << 18;

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

/// Reduces the middle axis: `[a, r, b]` to `[a, b]`. The kernel computes as many of the `a` matrices as it gets.
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

/// Reduces the middle axis of bools: `[a, r, b]` to `[a, b]`. The kernel computes as many of the `a` matrices as it gets.
pub fn fold_bools(arb: [usize; 3], by: BoolFold) -> Prepared {
    match by {
        BoolFold::Any => map(move |xs: &[bool], out: &mut [bool]| fold(xs, arb, out, Any)),
        BoolFold::All => map(move |xs: &[bool], out: &mut [bool]| fold(xs, arb, out, All)),
    }
}

/// Folds the middle axis: `[a, r, b]` to `[a, b]`. `out` may have fewer matrices.
pub(crate) fn fold<T: Element, R: Reduction<T>>(
    xs: &[T],
    [_, r, b]: [usize; 3],
    out: &mut [T],
    how: R,
) {
    let a = out.len().checked_div(b).unwrap_or(0);
    if r == 0 {
        out.fill(R::EMPTY);
        return;
    }
    if a * b == 0 {
        return;
    }
    let nanos = size_of_val(xs) / BYTES_PER_NANO;
    if a * b == 1 && r > GROUP {
        out[0] = fold_long(r, how, |part| fold_row(&xs[part], how));
        return;
    }
    // Threads read whole rows in sequence, which is faster than pieces of rows.
    if is_tall([a, r, b]) {
        fold_tall(xs, b, r, out, how);
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
    let columns = [(a, r * b), (b, 1)];
    let places = match b {
        1 => Places::Rows(&[(a, r)]),
        _ => Places::Columns(&columns, b),
    };
    fold_in_place(xs, [a, r, b], out, how, places);
}

/// Returns whether threads share the rows of a matrix instead of its columns.
fn is_tall([a, r, b]: [usize; 3]) -> bool {
    a == 1 && b > 1 && b <= 4 * STRIP && r >= 2 * BLOCK * PARTS
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
