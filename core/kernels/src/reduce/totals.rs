//! Sums of totals that other kernels have written.

use super::columns::{fold_into, merge};
use super::operation::Sum;
use crate::simd::lanes::sum;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::task::Prepared;
use gradloom_ir::DType;

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
