//! Sums of totals that other kernels have written.

use super::columns::{BLOCK, fold_into, merge};
use super::operation::Sum;
use super::rows::fold_rows;
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

/// Writes the sum of each row of `cols` elements.
pub(crate) fn row_totals<T: Number>(xs: &[T], cols: usize, out: &mut [T]) {
    fold_rows(xs, cols, cols, out, Sum);
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

/// Maximum number of columns of [`block_totals`].
pub(crate) const FEW_COLS: usize = 4;

/// Number of blocks that are added up together: each is a chain of additions.
const BLOCKS: usize = 4;

leveled! {
    /// Writes the totals of the columns of blocks of [`BLOCK`] rows, with 2 to [`FEW_COLS`] columns.
    pub(crate) fn block_totals<S, T: Number>(xs: &[T], cols: usize, totals: &mut [T]) {
        match cols {
            2 => totals_of_few::<T, 2>(xs, totals),
            3 => totals_of_few::<T, 3>(xs, totals),
            _ => totals_of_few::<T, FEW_COLS>(xs, totals),
        }
    }
}

#[inline(always)]
fn totals_of_few<T: Number, const N: usize>(xs: &[T], totals: &mut [T]) {
    let (blocks, _) = xs.as_chunks::<N>().0.as_chunks::<BLOCK>();
    let (totals, _) = totals.as_chunks_mut::<N>();
    let (several, rest) = blocks.as_chunks::<BLOCKS>();
    let (of_several, of_rest) = totals.as_chunks_mut::<BLOCKS>();
    (of_several.iter_mut().zip(several)).for_each(|(to, blocks)| *to = totals_of_blocks(blocks));
    for (to, block) in of_rest.iter_mut().zip(rest) {
        [*to] = totals_of_blocks(std::array::from_ref(block));
    }
}

/// Returns the totals of the columns of blocks. Rows are added in sequence.
#[inline(always)]
fn totals_of_blocks<T: Number, const N: usize, const B: usize>(
    blocks: &[[[T; N]; BLOCK]; B],
) -> [[T; N]; B] {
    let mut totals = blocks.map(|rows| rows[0]);
    for row in 1..BLOCK {
        for (totals, rows) in totals.iter_mut().zip(blocks) {
            for (total, x) in totals.iter_mut().zip(rows[row]) {
                *total = total.plus(x);
            }
        }
    }
    totals
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
