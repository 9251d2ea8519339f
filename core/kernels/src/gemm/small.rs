//! Small products with one row, one column or one step, of which a batch has many.
//!
//! Each sum is a chain of fused multiply-adds from 0 in the order of the steps, as in the tiles, so it has their
//! bits. The set-up of the tiles would take longer than the product.

use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack::MatrixPtr;
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use gradloom_maths::Arith;

/// Maximum number of elements of a result.
const ELEMENTS: usize = 64;
/// Maximum length of a sum.
const STEPS: usize = 32;

/// Returns whether a product is computed in this way.
pub(crate) fn is_small([m, k, n]: [usize; 3]) -> bool {
    m * n <= ELEMENTS && k <= STEPS && (m == 1 || n == 1 || k == 1)
}

/// Products whose operands and results are `steps` apart, all of whose elements are valid.
struct Small<T> {
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    cols: usize,
    add: bool,
    n_products: usize,
    steps: [usize; 3],
}

/// Computes `c = a b`, or `c += a b` if `add`, for products whose operands and results are `steps` apart;
/// the columns of `c` are `cols` apart.
///
/// # Safety
///
/// The elements of `a` and `b` must be valid for reads and those of `c` for writes. The elements of `c` must be
/// distinct and must not overlap `a` or `b`.
#[expect(
    clippy::too_many_arguments,
    reason = "they are those of a product, and of a batch"
)]
pub(crate) unsafe fn products<T: Float>(
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    cols: usize,
    add: bool,
    n_products: usize,
    steps: [usize; 3],
) {
    sums(&Small {
        mkn,
        a,
        b,
        c,
        cols,
        add,
        n_products,
        steps,
    });
}

leveled! {
    fn sums<S, T: Float>(of: &Small<T>) {
        let [m, k, n] = of.mkn;
        // Sums with one factor in common are a row of the result, or its column.
        let (n_rows, len) = if n == 1 { (1, m) } else { (m, n) };
        for product in 0..of.n_products {
            let [a, b, c] = of.steps.map(|step| product * step);
            let (a, b, c) = (of.a.after(a), of.b.after(b), of.c.from(0, c));
            for row in 0..n_rows {
                let line = match n {
                    1 => Line { k, x: b.transposed(), y: a.transposed() },
                    _ => Line { k, x: a.from(row, 0), y: b },
                };
                let mut first = 0;
                while first < len {
                    let z = |l: usize| match n {
                        1 => c.element(first + l, 0),
                        _ => c.element(row, (first + l) * of.cols),
                    };
                    // SAFETY: the sums belong to the product, and a `Small` has valid elements.
                    first += unsafe {
                        match (len - first, line.y.cols) {
                            (AT_ONCE.., 1) => line.write::<S, AT_ONCE>(first, 1, of.add, z),
                            (AT_ONCE.., stride) => line.write::<S, AT_ONCE>(first, stride, of.add, z),
                            (_, stride) => line.write::<S, 1>(first, stride, of.add, z),
                        }
                    };
                }
            }
        }
    }
}

/// Number of sums that are computed at a time.
const AT_ONCE: usize = 8;

/// A row `x` of `k` elements and a matrix `y` with as many rows.
struct Line<T> {
    k: usize,
    x: MatrixPtr<T>,
    y: MatrixPtr<T>,
}

impl<T: Float> Line<T> {
    /// Writes `N` products with columns of the matrix, which are `stride` apart, and returns `N`.
    ///
    /// # Safety
    ///
    /// The elements must be valid, and `z` must return the places of the results.
    #[inline(always)]
    unsafe fn write<S: Arith, const N: usize>(
        &self,
        first: usize,
        stride: usize,
        add: bool,
        z: impl Fn(usize) -> *mut T,
    ) -> usize {
        let mut sums = [T::ZERO; N];
        for p in 0..self.k {
            let y = self.y.element(p, first);
            // SAFETY: the caller guarantees valid elements.
            let x = unsafe { self.x.element(0, p).read() };
            for (l, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the same.
                *sum = x.fma::<S>(unsafe { y.wrapping_add(l * stride).read() }, *sum);
            }
        }
        for (l, sum) in sums.into_iter().enumerate() {
            // SAFETY: the same.
            unsafe { *z(l) = if add { z(l).read().plus(sum) } else { sum } };
        }
        N
    }
}
