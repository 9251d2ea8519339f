//! Products of integers: tiles of four rows and four vectors stay in registers.

use super::MatrixPtr;
use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::Vector;

/// Number of rows of a tile, and of its vectors.
const TILE: usize = 4;

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
        let ([m, _, n], lanes) = (of.mkn, <T::Vectors<S>>::N);
        let mut j = 0;
        while j < n {
            let whole = j + TILE * lanes <= n;
            let some = if whole { TILE * lanes } else { lanes.min(n - j) };
            for i in (0..m).step_by(TILE) {
                // SAFETY: the tile lies in the result. The caller of `product` guarantees the elements.
                unsafe {
                    match (i + TILE <= m, whole) {
                        (true, true) => tile::<T::Vectors<S>, TILE, TILE>(of, [i, j], lanes),
                        (true, false) => tile::<T::Vectors<S>, TILE, 1>(of, [i, j], some),
                        (false, true) => (i..m).for_each(|i| tile::<T::Vectors<S>, 1, TILE>(of, [i, j], lanes)),
                        (false, false) => (i..m).for_each(|i| tile::<T::Vectors<S>, 1, 1>(of, [i, j], some)),
                    }
                }
            }
            j += some;
        }
    }
}

/// Writes `M` rows of `K` vectors, each of which has `n` elements.
///
/// # Safety
///
/// The tile must lie in the result, and the elements that it reads and writes must be valid.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "loops with indices are unrolled, and the sums stay in registers"
)]
unsafe fn tile<V: Vector, const M: usize, const K: usize>(
    of: &Product<V::T>,
    [i, j]: [usize; 2],
    n: usize,
) {
    let mut sums = [[V::splat(V::T::ZERO); K]; M];
    // SAFETY: the caller guarantees the elements.
    unsafe {
        let load = |from: *const V::T| match K {
            1 => V::load_some(from, n),
            _ => V::load(from),
        };
        for p in 0..of.mkn[1] {
            let mut ys = [V::splat(V::T::ZERO); K];
            for k in 0..K {
                ys[k] = load(of.b.element(p, j + k * V::N));
            }
            for m in 0..M {
                let x = V::splat(of.a.element(i + m, p).read());
                for k in 0..K {
                    sums[m][k] = x.fma(ys[k], sums[m][k]);
                }
            }
        }
        for m in 0..M {
            for k in 0..K {
                let to = of.c.element(i + m, j + k * V::N);
                let sum = match of.add {
                    true => load(to).plus(sums[m][k]),
                    false => sums[m][k],
                };
                match K {
                    1 => sum.store_some(to, n),
                    _ => sum.store(to),
                }
            }
        }
    }
}
