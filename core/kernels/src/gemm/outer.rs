//! Products with an inner length of 1: each row of the result is a multiple of one row.
//!
//! Memory bounds them, so the rows are written one after the other, each from its first element to its last.

use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack::MatrixPtr;
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Computes `c = a b`, or `c += a b` if `add`, with `m` elements of `a` and `n` of `b`, which are contiguous.
///
/// # Safety
///
/// The elements of `a` and `b` must be valid for reads and those of `c` for writes. Those of `c` must be distinct
/// and must not overlap `a` or `b`.
pub(crate) unsafe fn outer<T: Float>(
    [m, n]: [usize; 2],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    add: bool,
) {
    // SAFETY: the caller guarantees that the `n` elements of `b` can be read, and nothing writes them.
    let row = unsafe { from_raw_parts(b.ptr, n) };
    // SAFETY: row `i` of the result and element `i` of the column are valid, and the rows are distinct.
    let rows =
        (0..m).map(|i| unsafe { (*a.element(i, 0), from_raw_parts_mut(c.element(i, 0), n)) });
    multiples(row, &mut rows.into_iter(), add);
}

leveled! {
    /// Writes the multiple of a row for each factor, or adds it.
    fn multiples<S, T: Float>(
        row: &[T],
        rows: &mut dyn Iterator<Item = (T, &mut [T])>,
        add: bool,
    ) {
        for (factor, out) in rows {
            for (z, x) in out.iter_mut().zip(row) {
                // As the tiles: a chain of one step from 0.
                let xy = factor.fma::<S>(*x, T::ZERO);
                *z = if add { z.plus(xy) } else { xy };
            }
        }
    }
}
