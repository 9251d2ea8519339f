//! Small products with one row, one column or one step, of which a batch has many.
//!
//! Each sum is a chain of fused multiply-adds from 0 in the order of the steps, as in the tiles, so it has their
//! bits. The set-up of the tiles would take longer than the product.

use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack::MatrixPtr;
use crate::simd::leveled::leveled;
use crate::simd::number::Float;

/// Maximum number of elements of a result.
const ELEMENTS: usize = 64;
/// Maximum length of a sum.
const STEPS: usize = 32;

/// Returns whether a product is computed in this way.
pub(crate) fn is_small([m, k, n]: [usize; 3]) -> bool {
    m * n <= ELEMENTS && k <= STEPS && (m == 1 || n == 1 || k == 1)
}

/// Operands and result of a product, all of whose elements are valid.
struct Small<T> {
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    cols: usize,
    add: bool,
}

/// Computes `c = a b`, or `c += a b` if `add`; the columns of `c` are `cols` apart.
///
/// # Safety
///
/// The elements of `a` and `b` must be valid for reads and those of `c` for writes. The elements of `c` must be
/// distinct and must not overlap `a` or `b`.
pub(crate) unsafe fn product<T: Float>(
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    cols: usize,
    add: bool,
) {
    sums(&Small {
        mkn,
        a,
        b,
        c,
        cols,
        add,
    });
}

leveled! {
    fn sums<S, T: Float>(of: &Small<T>) {
        let [m, k, n] = of.mkn;
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let mut sum = T::ZERO;
            for p in 0..k {
                // SAFETY: `i < m`, `p < k` and `j < n`, and a `Small` has valid elements there.
                let (x, y) = unsafe { (of.a.element(i, p).read(), of.b.element(p, j).read()) };
                sum = x.fma::<S>(y, sum);
            }
            let z = of.c.element(i, j * of.cols);
            // SAFETY: the same.
            unsafe { *z = if of.add { z.read().plus(sum) } else { sum } };
        }
    }
}
