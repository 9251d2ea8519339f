//! Products of integers, by tiles whose sums stay in registers.

use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack::{self, MatrixPtr};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;

/// Number of rows of a tile.
const ROWS: usize = 4;

/// Number of columns of most tiles, and of those at the end.
const COLUMNS: usize = 64;
const LAST_COLUMNS: usize = 8;

/// Product `c = a b`, or `c += a b`. The rows of `c` are contiguous.
struct Product<T> {
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    add: bool,
}

/// Computes `c = a b`, or `c += a b` if `add`. The rows of `c` are contiguous.
///
/// # Safety
///
/// The elements of `a` and `b` must be valid for reads and those of `c` for writes. The elements of `c` must be distinct
/// and must not overlap `a` or `b`.
pub(super) unsafe fn product<T: Number>(
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    add: bool,
) {
    let [m, k, n] = mkn;
    if m == 1 && n > 1 && b.rows == 1 {
        // A single row is a column of the transposed product, whose matrix has contiguous rows.
        let c = OutputPtr { stride: 1, ..c };
        // SAFETY: the operands and the result are the same.
        return unsafe { product([n, k, 1], b.transposed(), a.transposed(), c, add) };
    }
    let mut product = Product { mkn, a, b, c, add };
    // The tiles read vectors of `b`, and sums for a single column those of `a`.
    let mut rows = Vec::new();
    let (from, shape) = match n {
        1 => (b.transposed(), [1, k]),
        _ => (b, [k, n]),
    };
    if from.cols != 1 {
        rows.resize(k * n, T::ZERO);
        // SAFETY: the caller guarantees the elements of `b`, and there is space for as many.
        unsafe { pack::copy_each(shape, from, rows.as_mut_ptr(), shape[1]) };
        product.b = MatrixPtr {
            ptr: rows.as_ptr(),
            rows: n,
            cols: 1,
        };
    }
    if n == 1 && a.cols == 1 {
        sums(&product);
    } else {
        tiles(&product);
    }
}

leveled! {
    /// Writes a single column. The rows of `a` and the column of `b` are contiguous.
    fn sums<S, T: Number>(of: &Product<T>) {
        let [m, k, _] = of.mkn;
        // SAFETY: the caller of `product` guarantees the elements of the operands and of the result.
        let column = unsafe { std::slice::from_raw_parts(of.b.ptr, k) };
        for i in 0..m {
            // SAFETY: the same.
            let (row, z) = unsafe {
                let row = std::slice::from_raw_parts(of.a.element(i, 0), k);
                (row, &mut *of.c.element(i, 0))
            };
            let first = if of.add { *z } else { T::ZERO };
            *z = (row.iter().zip(column)).fold(first, |sum, (x, y)| sum.plus(x.times(*y)));
        }
    }
}

leveled! {
    fn tiles<S, T: Number>(of: &Product<T>) {
        let n = of.mkn[2];
        let mut j = 0;
        while j < n {
            j += match n - j {
                COLUMNS.. => columns::<T, COLUMNS>(of, j),
                LAST_COLUMNS.. => columns::<T, LAST_COLUMNS>(of, j),
                _ => columns::<T, 1>(of, j),
            };
        }
    }
}

/// Writes `N` columns of the result from `j` on. Returns their number.
#[inline(always)]
fn columns<T: Number, const N: usize>(of: &Product<T>, j: usize) -> usize {
    let [m, _, n] = of.mkn;
    assert!(j + N <= n);
    let mut i = 0;
    while i < m {
        // SAFETY: the tile lies in the result. The caller of `product` guarantees the elements.
        unsafe {
            if i + ROWS <= m {
                tile::<T, ROWS, N>(of, [i, j]);
                i += ROWS;
            } else {
                tile::<T, 1, N>(of, [i, j]);
                i += 1;
            }
        }
    }
    N
}

/// Writes `M` rows and `N` columns of the result from element `(i, j)` on.
///
/// # Safety
///
/// The tile must lie in the result, and the elements that it reads and writes must be valid.
#[inline(always)]
unsafe fn tile<T: Number, const M: usize, const N: usize>(of: &Product<T>, [i, j]: [usize; 2]) {
    let mut sums = [[T::ZERO; N]; M];
    for p in 0..of.mkn[1] {
        // SAFETY: the caller guarantees the elements. The rows of `b` are contiguous.
        let ys = unsafe { &*of.b.element(p, j).cast::<[T; N]>() };
        for (m, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller guarantees the elements.
            let x = unsafe { of.a.element(i + m, p).read() };
            (sums.iter_mut().zip(ys)).for_each(|(sum, y)| *sum = sum.plus(x.times(*y)));
        }
    }
    for (m, sums) in sums.iter().enumerate() {
        // SAFETY: the caller guarantees the elements. The rows of the result are contiguous.
        let to = unsafe { &mut *of.c.element(i + m, j).cast::<[T; N]>() };
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = if of.add { to.plus(*sum) } else { *sum };
        }
    }
}
