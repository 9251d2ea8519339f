//! Small products, of which a batch has many.
//!
//! Each sum is a chain of fused multiply-adds from 0 in the order of the steps, as in the tiles, so it has their
//! bits. The set-up of the tiles would take longer than the product.

use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack::{self, MatVecs, MatrixPtr};
use crate::gemm::tile::{TileElement, Tiles};
use crate::simd::leveled::leveled;
use crate::simd::number::{Float, Number};
use crate::simd::vector::{Simd, Vector};
use gradloom_maths::Arith;

/// Maximum number of elements of a result with one row or column, or of a single step.
const ELEMENTS: usize = 64;
/// Maximum number of rows, and of columns, of other results.
const SIDE: usize = 16;
/// Maximum length of a sum.
const STEPS: usize = 32;

/// Returns whether a product is computed in this way.
pub(crate) fn is_small([m, k, n]: [usize; 3]) -> bool {
    let thin = m == 1 || n == 1 || k == 1;
    k <= STEPS && (is_block([m, n]) || thin && m * n <= ELEMENTS)
}

/// Returns whether a small product is computed in rows of vectors.
fn is_block([m, n]: [usize; 2]) -> bool {
    (2..=SIDE).contains(&m) && (2..=SIDE).contains(&n)
}

/// Products whose operands and results are `steps` apart, all of whose elements are valid.
struct Small<T: 'static> {
    mkn: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    cols: usize,
    add: bool,
    n_products: usize,
    steps: [usize; 3],
    tiles: &'static Tiles<T>,
}

/// Computes `c = a b`, or `c += a b` if `add`, for products whose operands and results are `steps` apart;
/// the columns of `c` are `cols` apart.
///
/// # Safety
///
/// The elements of `a` and `b` must be valid for reads and those of `c` for writes. The elements of `c` must be
/// distinct and must not overlap `a` or `b`. The tiles must be those of this CPU.
#[expect(
    clippy::too_many_arguments,
    reason = "they are those of a product, and of a batch"
)]
pub(crate) unsafe fn products<T: TileElement>(
    tiles: &'static Tiles<T>,
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
        tiles,
    });
}

leveled! {
    fn sums<S, T: TileElement>(of: &Small<T>) {
        let [m, k, n] = of.mkn;
        if let Some(products) = mat_vecs(of) {
            // SAFETY: a `Small` has valid elements, and tiles of this CPU.
            return unsafe { (of.tiles.mat_vecs)(&products) };
        }
        if is_block([m, n]) {
            // SAFETY: a `Small` has valid elements, and a block has at most these sizes.
            return unsafe { blocks::<S, T>(of) };
        }
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
                            (AT_ONCE.., 1) => line.write::<S, AT_ONCE, false>(first, 1, of.add, z),
                            (AT_ONCE.., s) => line.write::<S, AT_ONCE, true>(first, s, of.add, z),
                            (_, s) => line.write::<S, 1, true>(first, s, of.add, z),
                        }
                    };
                }
            }
        }
    }
}

/// Returns products with a vector whose matrices have contiguous rows, so that they are transposed in registers: loads
/// of single elements take longer.
fn mat_vecs<T: TileElement>(of: &Small<T>) -> Option<MatVecs<T>> {
    let ([m, k, n], [a, b, c]) = (of.mkn, of.steps);
    let (matrix, vector, rows, stride, steps) = match (m, n) {
        (_, 1) => (of.a, of.b, m, of.c.stride, [a, b, c]),
        (1, _) => (of.b.transposed(), of.a.transposed(), n, of.cols, [b, a, c]),
        _ => return None,
    };
    let fits =
        matrix.cols == 1 && matrix.rows != 1 && stride == 1 && k > 1 && rows >= of.tiles.side;
    fits.then_some(MatVecs {
        n_products: of.n_products,
        size: [rows, k],
        a: (matrix.ptr, matrix.rows),
        x: (vector.ptr, vector.rows),
        y: of.c.ptr,
        steps,
        add: of.add,
    })
}

/// Computes products with more than one row and column.
///
/// # Safety
///
/// The elements must be valid, and [`is_block`] and [`is_small`] must hold.
#[inline(always)]
unsafe fn blocks<S: Simd, T: TileElement>(of: &Small<T>) {
    let [m, k, n] = of.mkn;
    // A right operand without contiguous rows is copied. Otherwise there is nothing to initialise.
    let mut copies = None;
    for product in 0..of.n_products {
        let [a, b, c] = of.steps.map(|step| product * step);
        let (a, mut b, c) = (of.a.after(a), of.b.after(b), of.c.from(0, c));
        if b.cols != 1 {
            let copy = copies.get_or_insert([T::ZERO; STEPS * SIDE]).as_mut_ptr();
            // SAFETY: the operand has `k <= STEPS` rows of `n <= SIDE` elements, which are valid, and the
            // tiles are those of this CPU.
            unsafe { pack::copy(of.tiles, [k, n], b, copy, n) };
            b = MatrixPtr {
                ptr: copy,
                rows: n,
                cols: 1,
            };
        }
        let width = T::Vectors::<S>::N;
        for j in (0..n).step_by(width) {
            let width = width.min(n - j);
            let mut i = 0;
            while i < m {
                let (a, b) = (a.from(i, 0), b.from(0, j));
                let z = |row: usize, column: usize| c.element(i + row, (j + column) * of.cols);
                let sizes = [k, width, of.cols];
                // SAFETY: the rows and columns belong to the product, and rows of `b` are
                // contiguous.
                i += unsafe {
                    match m - i {
                        8.. => rows::<S, T, 8>(sizes, a, b, of.add, z),
                        4.. => rows::<S, T, 4>(sizes, a, b, of.add, z),
                        2.. => rows::<S, T, 2>(sizes, a, b, of.add, z),
                        _ => rows::<S, T, 1>(sizes, a, b, of.add, z),
                    }
                };
            }
        }
    }
}

/// Writes `N` rows of a product with `width` columns, at most one vector, and returns `N`.
///
/// The places of the results, which `z` returns for a row and a column, are `cols` apart in a row.
///
/// # Safety
///
/// The elements must be valid. The columns of `b` must be contiguous.
#[inline(always)]
unsafe fn rows<S: Simd, T: Float, const N: usize>(
    [k, width, cols]: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    add: bool,
    z: impl Fn(usize, usize) -> *mut T,
) -> usize {
    type Of<S, T> = <T as Number>::Vectors<S>;
    let whole = width == Of::<S, T>::N;
    let mut sums = [Of::<S, T>::splat(T::ZERO); N];
    for p in 0..k {
        let y = b.element(p, 0);
        // SAFETY: the caller guarantees `width` elements.
        let y = unsafe {
            match whole {
                true => Of::<S, T>::load(y),
                false => Of::<S, T>::load_some(y, width),
            }
        };
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller guarantees the element.
            let x = unsafe { a.element(i, p).read() };
            *sum = Of::<S, T>::splat(x).fma(y, *sum);
        }
    }
    for (i, mut sum) in sums.into_iter().enumerate() {
        if cols == 1 {
            let z = z(i, 0);
            // SAFETY: the caller guarantees `width` elements.
            unsafe {
                if add {
                    sum = Of::<S, T>::load_some(z, width).plus(sum);
                }
                match whole {
                    true => sum.store(z),
                    false => sum.store_some(z, width),
                }
            }
        } else {
            let mut each = [T::ZERO; SIDE];
            // SAFETY: a vector has at most `SIDE` elements.
            unsafe { sum.store(each.as_mut_ptr()) };
            for (j, sum) in each[..width].iter().enumerate() {
                let z = z(i, j);
                // SAFETY: the caller guarantees the element.
                unsafe { *z = if add { z.read().plus(*sum) } else { *sum } };
            }
        }
    }
    N
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
    /// If the columns are `APART`, their elements are loaded one by one: a vector of them takes longer
    /// to build than it saves.
    ///
    /// # Safety
    ///
    /// The elements must be valid, and `z` must return the places of the results.
    #[inline(always)]
    unsafe fn write<S: Arith, const N: usize, const APART: bool>(
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
                let y = y.wrapping_add(l * stride);
                // SAFETY: the same. A volatile load stays a load of one element.
                let y = unsafe { if APART { y.read_volatile() } else { y.read() } };
                *sum = x.fma::<S>(y, *sum);
            }
        }
        for (l, sum) in sums.into_iter().enumerate() {
            // SAFETY: the same.
            unsafe { *z(l) = if add { z(l).read().plus(sum) } else { sum } };
        }
        N
    }
}
