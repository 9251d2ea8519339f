//! Products of strided matrices.
//!
//! Floats use our own loops ([`tile`], [`blocks`]) on CPUs with AVX2 or AVX-512, and
//! `matrixmultiply` elsewhere; integers use plain loops. The order of each sum depends on the three
//! lengths alone. Products of a vector and a matrix have an [order](single) of their own. In all
//! other products the inner length determines the order.

mod blocks;
mod ints;
mod outer;
mod pack;
mod part;
mod prefetch;
mod single;
mod small;
#[cfg(target_arch = "x86_64")]
mod squares;
mod stored;
mod tile;

use crate::simd::level::level;
use crate::simd::number::Number;
use crate::task::Prepared;
use crate::threads;
pub(crate) use blocks::{Epilogue, FinalBlock};
use blocks::{Finish, OutputPtr};
use gradloom_ir::DType;
use pack::MatrixPtr;
use std::ops::Range;
use std::sync::Arc;
pub use stored::product_of_stored;
use tile::TileElement;

/// A strided matrix in a slice: element `(i, j)` is `data[offset + i * rows + j * cols]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub offset: usize,
    pub rows: usize,
    pub cols: usize,
}

impl Matrix {
    /// Returns the index of the last element of an `m` by `n` matrix.
    fn last(self, m: usize, n: usize) -> usize {
        self.offset + (m - 1) * self.rows + (n - 1) * self.cols
    }

    /// Returns the matrix without its first `rows` rows.
    pub(crate) fn below(self, rows: usize) -> Matrix {
        Matrix {
            offset: self.offset + rows * self.rows,
            ..self
        }
    }

    /// Returns the transpose.
    pub(crate) fn transposed(self) -> Matrix {
        Matrix {
            rows: self.cols,
            cols: self.rows,
            ..self
        }
    }

    fn at<T>(self, data: *const T) -> MatrixPtr<T> {
        MatrixPtr {
            ptr: data.wrapping_add(self.offset),
            rows: self.rows,
            cols: self.cols,
        }
    }
}

/// Returns the kernel of a product.
pub fn product(dtype: DType, batch: Arc<Batch>) -> Prepared {
    fn typed<T: Gemm>(batch: Arc<Batch>) -> Prepared {
        Box::new(move |args, outs| {
            let out = T::slice_mut(&mut outs[0]);
            run(
                &batch,
                T::slice(args[0]),
                T::slice(args[1]),
                out,
                false,
                None,
            );
            Ok(())
        })
    }
    on_number!(dtype, typed(batch))
}

macro_rules! products_of_slices {
    ($($name:ident: $t:ty;)*) => {$(
        /// Computes `out = a b`, `[m, k]` times `[k, n]`, none of which is 0, with the kernel of
        /// the op. It exists for benchmarks.
        ///
        /// Each operand comes with the strides of its rows and columns; the result is in row-major
        /// order.
        pub fn $name(
            mkn: [usize; 3],
            a: (&[$t], [usize; 2]),
            b: (&[$t], [usize; 2]),
            out: &mut [$t],
        ) {
            product_of_slices(mkn, a, b, out);
        }
    )*};
}

products_of_slices! {
    product_f32: f32;
    product_f64: f64;
}

fn product_of_slices<T: Gemm>(
    mkn: [usize; 3],
    (a, [a_rows, a_cols]): (&[T], [usize; 2]),
    (b, [b_rows, b_cols]): (&[T], [usize; 2]),
    out: &mut [T],
) {
    let of = |rows, cols| Matrix {
        offset: 0,
        rows,
        cols,
    };
    let batch = Batch {
        mkn,
        a: of(a_rows, a_cols),
        b: of(b_rows, b_cols),
        out: of(mkn[2], 1),
        axes: Vec::new(),
        summed: Vec::new(),
        single: Batch::is_single(mkn),
    };
    run(&batch, a, b, out, false, None);
}

/// Copies an `m` by `n` matrix, neither of which is 0, into rows that are `stride` apart.
pub(crate) fn copy<T: Gemm>(
    [m, n]: [usize; 2],
    from: &[T],
    at: Matrix,
    to: &mut [T],
    stride: usize,
) {
    assert!(
        m > 0 && n > 0 && at.last(m, n) < from.len(),
        "the matrix must lie inside its buffer"
    );
    assert!(
        stride >= n && (m - 1) * stride + n <= to.len(),
        "the copy must lie inside its buffer"
    );
    // SAFETY: strides are not negative, so the last element is the farthest. It lies inside both
    // slices, as asserted, and `to` is borrowed mutably.
    unsafe { T::copy([m, n], at.at(from.as_ptr()), to.as_mut_ptr(), stride) }
}

/// Batch axis: its length and its strides in the left operand, the right operand and the result.
pub type BatchAxis = (usize, [usize; 3]);

/// Batch of products of the same size, with strided operands and results.
#[derive(Clone, Debug)]
pub struct Batch {
    /// `[m, k]` times `[k, n]`, none of which is 0.
    pub mkn: [usize; 3],
    pub a: Matrix,
    pub b: Matrix,
    pub out: Matrix,
    /// Axes along which each product has a result of its own.
    pub axes: Vec<BatchAxis>,
    /// Axes along which the products are added up: their strides in the result are 0.
    pub summed: Vec<BatchAxis>,
    /// True for products of a vector and a matrix, whose sums have an [order](single) of their own.
    pub single: bool,
}

impl Batch {
    /// Returns whether products with these lengths are [`Batch::single`]; `m` counts the rows of
    /// the whole batch.
    pub fn is_single(mkn: [usize; 3]) -> bool {
        single::is_single(mkn)
    }

    /// Returns whether the results fill a contiguous row-major range.
    pub fn is_dense(&self) -> bool {
        let [m, _, n] = self.mkn;
        let Matrix { rows, cols, .. } = self.out;
        let mut extent = m * n;
        let mut dense = (n == 1 || cols == 1) && (m == 1 || rows == n);
        for (len, strides) in self.axes.iter().rev() {
            dense &= *len == 1 || strides[2] == extent;
            extent *= len;
        }
        dense
    }
}

/// Computes the products, on several threads if that pays off.
///
/// `out = a b`, summed over [`Batch::summed`]; added to the previous contents of `out` if `add`. If
/// there is an epilogue, the results must be [dense](Batch::is_dense); it sees them as one matrix
/// with all their rows. With several products, the rows of each must be a multiple of the
/// epilogue's alignment.
pub(crate) fn run<T: Gemm>(
    batch: &Batch,
    a: &[T],
    b: &[T],
    out: &mut [T],
    add: bool,
    epilogue: Option<&Epilogue<'_, T>>,
) {
    check(batch, [a.len(), b.len(), out.len()], epilogue.is_some());
    let (a, b) = (batch.a.at(a.as_ptr()), batch.b.at(b.as_ptr()));
    let c = OutputPtr {
        ptr: out.as_mut_ptr().wrapping_add(batch.out.offset),
        stride: batch.out.rows,
    };
    let [m, k, n] = batch.mkn;
    let count = |axes: &[BatchAxis]| axes.iter().map(|axis| axis.0).product::<usize>();
    let (n_products, n_summed) = (count(&batch.axes), count(&batch.summed));
    let (compute, nanos): (Compute<T>, _) = match batch.single {
        true => (T::single, single::nanos::<T>(k, m.max(n))),
        // The elements of a small product take longer than its multiply-adds.
        false => (
            T::product,
            T::nanos(batch.mkn).max(single::nanos::<T>(m + n, k) + single::nanos::<T>(m, n)),
        ),
    };
    let product = |i: usize| {
        let [ia, ib, ic] = offsets(&batch.axes, i);
        let finish = epilogue.map(|epilogue| Finish {
            epilogue,
            result: c,
            row: ic / n,
            column: 0,
        });
        for s in 0..n_summed {
            let [sa, sb, _] = offsets(&batch.summed, s);
            let (a, b) = (a.after(ia + sa), b.after(ib + sb));
            let finish = finish.filter(|_| s + 1 == n_summed);
            // SAFETY: strides are not negative, so the last element is the farthest, and `check`
            // asserted that it lies inside its slice. `check` also asserted that the elements of
            // `out` are distinct, within a product and across products. `out` is borrowed mutably,
            // so it overlaps neither operand.
            unsafe {
                compute(
                    batch.mkn,
                    a,
                    b,
                    c.from(0, ic),
                    batch.out.cols,
                    add || s > 0,
                    finish,
                );
            }
        }
    };
    // Small products are computed by one call.
    let alike = batch.axes.len() == 1 && n_summed == 1 && !batch.single && epilogue.is_none();
    let some = |range: Range<usize>| {
        if alike && T::is_small(batch.mkn) {
            let steps = batch.axes[0].1;
            let [ia, ib, ic] = steps.map(|step| step * range.start);
            let (a, b, c) = (a.after(ia), b.after(ib), c.from(0, ic));
            // SAFETY: as for `product`. The products of one axis are equally far apart.
            unsafe { T::products(batch, a, b, c, add, range.len()) };
        } else {
            range.for_each(&product);
        }
    };
    // Few products are parallelised one by one, each within itself.
    let nanos = nanos.saturating_mul(n_summed);
    let more = epilogue.map_or(0, |epilogue| epilogue.nanos);
    let total = nanos.saturating_mul(n_products).saturating_add(more);
    let n_threads = threads::worth(total);
    if n_products < n_threads || n_threads < 2 {
        return some(0..n_products);
    }
    let step = n_products.div_ceil(4 * n_threads);
    threads::for_each(n_products.div_ceil(step), total, |i| {
        some(i * step..n_products.min((i + 1) * step));
    });
}

/// Returns the offsets of the operands and the result of product `i` from those of the first.
fn offsets(axes: &[BatchAxis], mut i: usize) -> [usize; 3] {
    let mut offsets = [0; 3];
    for &(len, strides) in axes.iter().rev() {
        let at = i % len;
        i /= len;
        for (offset, stride) in offsets.iter_mut().zip(strides) {
            *offset += at * stride;
        }
    }
    offsets
}

/// Asserts the bounds and the distinct results that [`run`] relies on.
fn check(batch: &Batch, [len_a, len_b, len_out]: [usize; 3], finish: bool) {
    let [m, k, n] = batch.mkn;
    assert!(m > 0 && k > 0 && n > 0, "a product must have elements");
    let last = |which: usize| {
        let axes = batch.axes.iter().chain(&batch.summed);
        axes.map(|(len, strides)| (len - 1) * strides[which])
            .sum::<usize>()
    };
    assert!(
        batch.a.last(m, k) + last(0) < len_a,
        "the left operand lies in its buffer"
    );
    assert!(
        batch.b.last(k, n) + last(1) < len_b,
        "the right operand lies in its buffer"
    );
    assert!(
        batch.out.last(m, n) + last(2) < len_out,
        "the result lies in its buffer"
    );
    let Matrix { rows, cols, .. } = batch.out;
    let mut extent = (n - 1) * cols + 1;
    let mut distinct = n == 1 || cols >= 1;
    let axes = batch.axes.iter().rev();
    for (len, stride) in [(m, rows)]
        .into_iter()
        .chain(axes.map(|(len, s)| (*len, s[2])))
    {
        distinct &= len == 1 || stride >= extent;
        extent += (len - 1) * stride;
    }
    assert!(distinct, "no two elements of the result share a place");
    let summed = batch.summed.iter().all(|(_, strides)| strides[2] == 0);
    assert!(summed, "products that are summed must share one result");
    assert!(
        !finish || batch.is_dense(),
        "an epilogue needs contiguous rows"
    );
}

/// Function that computes a product: [`Gemm::product`] or [`Gemm::single`].
type Compute<T> = unsafe fn(
    [usize; 3],
    MatrixPtr<T>,
    MatrixPtr<T>,
    OutputPtr<T>,
    usize,
    bool,
    Option<Finish<'_, T>>,
);

/// Element type of matrices.
pub(crate) trait Gemm: Number {
    /// Returns the estimated time of a product on one thread.
    fn nanos(mkn: [usize; 3]) -> usize;

    /// Computes `c = a b`, or `c += a b` if `add`; the columns of `c` are `cols` apart.
    ///
    /// # Safety
    ///
    /// The elements of `a` and `b` must be valid for reads and those of `c` for writes. The
    /// elements of `c` must be distinct and must not overlap `a` or `b`. If there is a `finish`,
    /// `c` must be contiguous in row-major order.
    unsafe fn product(
        mkn: [usize; 3],
        a: MatrixPtr<Self>,
        b: MatrixPtr<Self>,
        c: OutputPtr<Self>,
        cols: usize,
        add: bool,
        finish: Option<Finish<'_, Self>>,
    );

    /// Returns whether [`Gemm::products`] computes products with these lengths.
    fn is_small(_: [usize; 3]) -> bool {
        false
    }

    /// Computes [small](Gemm::is_small) products along the axis of a batch.
    ///
    /// # Safety
    ///
    /// As for [`Gemm::product`], for each of them.
    unsafe fn products(
        batch: &Batch,
        _: MatrixPtr<Self>,
        _: MatrixPtr<Self>,
        _: OutputPtr<Self>,
        _: bool,
        _: usize,
    ) {
        unreachable!("{:?} is not small", batch.mkn)
    }

    /// As [`Gemm::product`], with one row or one column and the order of sums of [`single`].
    ///
    /// # Safety
    ///
    /// As for [`Gemm::product`].
    unsafe fn single(
        mkn: [usize; 3],
        a: MatrixPtr<Self>,
        b: MatrixPtr<Self>,
        c: OutputPtr<Self>,
        cols: usize,
        add: bool,
        finish: Option<Finish<'_, Self>>,
    ) {
        // SAFETY: the caller guarantees the requirements of `product`.
        unsafe { Self::product(mkn, a, b, c, cols, add, finish) }
    }

    /// Copies `m` by `n` elements into rows that are `stride` apart.
    ///
    /// # Safety
    ///
    /// The elements that the strides reach must be valid for reads in `from` and for writes in
    /// `to`, and must not overlap.
    unsafe fn copy(mn: [usize; 2], from: MatrixPtr<Self>, to: *mut Self, stride: usize) {
        // SAFETY: the caller guarantees the requirements of `copy`, which are those of `copy_each`.
        unsafe { pack::copy_each(mn, from, to, stride) }
    }
}

macro_rules! floats {
    ($($t:ident: $gemm:ident;)*) => {$(
        impl Gemm for $t {
            unsafe fn copy(mn: [usize; 2], from: MatrixPtr<Self>, to: *mut Self, stride: usize) {
                match $t::tiles(level()) {
                    // SAFETY: the caller guarantees the requirements of `copy`, and the tiles are
                    // those of this CPU's level.
                    Some(tiles) => unsafe { pack::copy(tiles, mn, from, to, stride) },
                    // SAFETY: the caller guarantees the requirements of `copy`, which are those of
                    // `copy_each`.
                    None => unsafe { pack::copy_each(mn, from, to, stride) },
                }
            }

            fn is_small(mkn: [usize; 3]) -> bool {
                $t::tiles(level()).is_some() && small::is_small(mkn)
            }

            unsafe fn products(
                batch: &Batch,
                a: MatrixPtr<Self>,
                b: MatrixPtr<Self>,
                c: OutputPtr<Self>,
                add: bool,
                n: usize,
            ) {
                let (cols, steps) = (batch.out.cols, batch.axes[0].1);
                let tiles = $t::tiles(level()).expect("a level with small products has tiles");
                // SAFETY: the caller guarantees the requirements of `product` for each product, and the
                // tiles are those of this CPU's level.
                unsafe { small::products(tiles, batch.mkn, a, b, c, cols, add, n, steps) }
            }

            fn nanos(mkn: [usize; 3]) -> usize {
                match $t::tiles(level()) {
                    Some(tiles) => blocks::nanos(tiles, mkn),
                    None => mkn.iter().product::<usize>() / 8,
                }
            }

            unsafe fn single(
                [m, k, n]: [usize; 3],
                a: MatrixPtr<Self>,
                b: MatrixPtr<Self>,
                c: OutputPtr<Self>,
                cols: usize,
                add: bool,
                finish: Option<Finish<'_, Self>>,
            ) {
                let Some(tiles) = $t::tiles(level()) else {
                    // SAFETY: the caller guarantees the requirements of `product`.
                    return unsafe { Self::product([m, k, n], a, b, c, cols, add, finish) };
                };
                let (row, matrix, n_sums, stride) = match n {
                    1 => (b.transposed(), a.transposed(), m, c.stride),
                    _ => (a, b, n, cols),
                };
                // SAFETY: the caller guarantees the requirements of `product`, and the tiles are
                // those of this CPU's level. `m` or `n` is 1, so the operands are a vector and a
                // matrix.
                unsafe { single::product(tiles, [k, n_sums], row, matrix, (c.ptr, stride), add) };
                finish.into_iter().for_each(|f| f.call(0..m, 0..n, None));
            }

            unsafe fn product(
                [m, k, n]: [usize; 3],
                a: MatrixPtr<Self>,
                b: MatrixPtr<Self>,
                c: OutputPtr<Self>,
                cols: usize,
                add: bool,
                finish: Option<Finish<'_, Self>>,
            ) {
                match $t::tiles(level()) {
                    Some(tiles) if Self::is_small([m, k, n]) => {
                        // SAFETY: the caller guarantees the requirements of `product`, and the tiles
                        // are those of this CPU's level.
                        unsafe { small::products(tiles, [m, k, n], a, b, c, cols, add, 1, [0; 3]) };
                        finish.into_iter().for_each(|f| f.call(0..m, 0..n, None));
                    }
                    // SAFETY: the caller guarantees the requirements of `product`, and the tiles
                    // are those of this CPU's level.
                    Some(tiles) if cols == 1 || n == 1 => unsafe {
                        blocks::product(tiles, [m, k, n], a, b, c, add, finish)
                    },
                    // SAFETY: the same, with a contiguous result from `spread`.
                    Some(tiles) => unsafe {
                        spread([m, n], c, cols, add, |c| {
                            blocks::product(tiles, [m, k, n], a, b, c, add, None);
                        })
                    },
                    None => {
                        let [ar, ac, br, bc, cr, cc] =
                            [a.rows, a.cols, b.rows, b.cols, c.stride, cols].map(|s| s as isize);
                        let beta = if add { 1.0 } else { 0.0 };
                        // SAFETY: the caller guarantees that the strides stay inside valid,
                        // non-overlapping matrices.
                        unsafe {
                            matrixmultiply::$gemm(
                                m, k, n, 1.0, a.ptr, ar, ac, b.ptr, br, bc, beta, c.ptr, cr, cc,
                            );
                        }
                        finish.into_iter().for_each(|f| f.call(0..m, 0..n, None));
                    }
                }
            }
        }
    )*};
}

macro_rules! ints {
    ($($t:ty)*) => {$(
        impl Gemm for $t {
            fn nanos(mkn: [usize; 3]) -> usize {
                mkn.iter().product::<usize>() / 16
            }

            unsafe fn product(
                [m, k, n]: [usize; 3],
                a: MatrixPtr<Self>,
                b: MatrixPtr<Self>,
                c: OutputPtr<Self>,
                cols: usize,
                add: bool,
                finish: Option<Finish<'_, Self>>,
            ) {
                // SAFETY: the caller guarantees the requirements, and `spread` those of the result.
                unsafe {
                    if cols == 1 || n == 1 {
                        ints::product([m, k, n], a, b, c, add);
                    } else {
                        spread([m, n], c, cols, add, |c| ints::product([m, k, n], a, b, c, add));
                    }
                }
                finish.into_iter().for_each(|f| f.call(0..m, 0..n, None));
            }
        }
    )*};
}

floats! { f32: sgemm; f64: dgemm; }
ints! { i32 i64 }

/// Calls `product` with a contiguous result and copies it to `c`, whose columns are `cols` apart.
///
/// # Safety
///
/// The elements of `c` must be valid for reads and writes. `product` must write all of its result.
unsafe fn spread<T: Number>(
    [m, n]: [usize; 2],
    c: OutputPtr<T>,
    cols: usize,
    add: bool,
    product: impl FnOnce(OutputPtr<T>),
) {
    let mut whole = vec![T::ZERO; m * n];
    let places = || (0..m * n).map(|i| c.element(i / n, i % n * cols));
    if add {
        for (x, place) in whole.iter_mut().zip(places()) {
            // SAFETY: the place is an element of `c`, which the caller guarantees to be valid.
            *x = unsafe { place.read() };
        }
    }
    product(OutputPtr {
        ptr: whole.as_mut_ptr(),
        stride: n,
    });
    for (x, place) in whole.iter().zip(places()) {
        // SAFETY: the place is an element of `c`, which the caller guarantees to be valid.
        unsafe { place.write(*x) };
    }
}

#[cfg(test)]
mod tests;
