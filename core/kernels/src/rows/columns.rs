//! Kernels on columns: the kernels on rows, along axes that are not the last ones.
//!
//! An operand is `[a, r, b, c]`, and `r` and `c` are reduced. The rows of a matrix `[r, b c]` are combined element by
//! element, and then each `c` neighbours of the result. No operand is copied: a strip of columns that fits in a cache
//! is read several times.

use super::forward::{Exp, Minus, Normalization, Root, RowMode, Square};
use super::jacobians::{FromMean, JacobianRow, Product, Subtraction, Weighted};
use crate::array;
use crate::memory::scratch::{Plain, with_scratch};
use crate::reduce::{self, Max, Reduction, Sum, fold_strip};
use crate::simd::lanes::{Map, add, map, map_add};
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::simd::vector::{Floats, Simd};
use crate::threads::{ColumnsMut, for_each_columns, threads};

/// Sizes `[r, b, c]` of a matrix.
pub(crate) type Sizes = [usize; 3];

/// Least number of columns of a strip, unless the matrix has fewer.
const LEAST: usize = 256;

/// Number of rows whose sums are added up before they are added to the others.
const SUMMED_ROWS: usize = 64;

/// Returns the number of columns of the strips of `a` matrices, a multiple of `c`.
///
/// Long rows are read faster, even if the strip does not fit a cache: rows of 1 KiB that are 4 KiB apart took up to
/// 2.4 times as long as rows of 4 KiB. With several threads, each has a strip.
fn strip_len(a: usize, [_, b, c]: Sizes) -> usize {
    let width = b * c;
    let shared = width.div_ceil(LEAST).min(threads().div_ceil(a.max(1)));
    let n_strips = width.div_ceil(reduce::STRIP).max(shared);
    match c {
        // No vector is in two strips.
        1 => b.div_ceil(n_strips).next_multiple_of(16).min(b),
        _ => b.div_ceil(n_strips) * c,
    }
}

/// Columns of a matrix that are read.
#[derive(Clone, Copy)]
struct Columns<'a, T> {
    xs: &'a [T],
    stride: usize,
    rows: usize,
    n: usize,
}

impl<'a, T: Float> Columns<'a, T> {
    #[inline(always)]
    fn row(self, i: usize) -> &'a [T] {
        &self.xs[i * self.stride..][..self.n]
    }

    /// Folds all rows, and then each `c` neighbours, which all get the result.
    #[inline(always)]
    fn fold<S: Simd>(self, c: usize, out: &mut [T], how: impl Reduction<T>) {
        for (i, out) in out.chunks_mut(reduce::STRIP).enumerate() {
            fold_strip(
                &self.xs[i * reduce::STRIP..],
                self.stride,
                self.rows,
                out,
                how,
            );
        }
        join::<S, T>(c, out, how);
    }
}

/// Columns of operands and of a result, and how the result is written.
struct Strip<'a, T, const N: usize> {
    args: [Columns<'a, T>; N],
    out: ColumnsMut<'a, T>,
    /// Index of the first column, among those of all matrices.
    first: usize,
    /// Number of neighbours that are reduced.
    c: usize,
    non_temporal: bool,
}

/// Calls `f` with each strip of matrices, and with scratch of the number of its columns.
///
/// The result has the size of the operands, or one row that has one element for `c` columns if `FOLDS`. An element
/// takes `nanos`.
fn for_each_strip<T: Float + Plain, const N: usize, const FOLDS: bool>(
    args: [&[T]; N],
    out: &mut [T],
    sizes: Sizes,
    nanos: f64,
    mode: RowMode,
    f: impl Fn(Strip<'_, T, N>, [&mut [T]; 3]) + Sync,
) {
    let [r, b, c] = sizes;
    let width = b * c;
    let a = args[0].len() / (r * width);
    let (n_rows, of_column) = if FOLDS { (1, c) } else { (r, 1) };
    assert!(args.iter().all(|xs| xs.len() == a * r * width));
    assert_eq!(out.len(), a * n_rows * width / of_column);
    let len = strip_len(a, sizes);
    let nanos = args[0].len() as f64 * nanos * size_of::<T>() as f64 / 4.0;
    let (size, len) = ([n_rows, width / of_column], len / of_column);
    for_each_columns(out, size, len, nanos as usize, |matrix, first, out| {
        let (first, n) = (first * of_column, out.n_cols() * of_column);
        let strip = Strip {
            args: array::map(args, |xs| Columns {
                xs: &xs[matrix * r * width..][..r * width][first..],
                stride: width,
                rows: r,
                n,
            }),
            out,
            first: matrix * width + first,
            c,
            non_temporal: mode.non_temporal,
        };
        with_scratch([n; 3], |scratch| f(strip, scratch));
        mode.end();
    });
}

/// Folds each `c` neighbours, which all get the result.
#[inline(always)]
fn join<S: Simd, T: Float>(c: usize, totals: &mut [T], how: impl Reduction<T>) {
    if c > 1 {
        for totals in totals.chunks_exact_mut(c) {
            let total = how.row::<S>(totals);
            totals.fill(total);
        }
    }
}

/// Writes the sums of `f` over all rows, and then over each `c` neighbours. Overwrites `part`.
#[inline(always)]
fn sums<'a, S: Simd, T: Float, const K: usize>(
    c: usize,
    rows: usize,
    row: impl Fn(usize) -> [&'a [T]; K],
    [total, part]: [&mut [T]; 2],
    f: impl Map<T::Floats<S>, K, 1>,
) {
    for start in (0..rows).step_by(SUMMED_ROWS) {
        let sum = if start == 0 { &mut *total } else { &mut *part };
        sum.fill(T::NOTHING);
        for i in start..rows.min(start + SUMMED_ROWS) {
            add::<T::Floats<S>, K, 1>(row(i), [&mut *sum], f);
        }
        if start > 0 {
            reduce::merge(total, part, Sum);
        }
    }
    join::<S, T>(c, total, Sum);
}

/// Defines functions of elements of a row and of numbers of their columns, by functions of rows.
macro_rules! by_column {
    ($($name:ident, $k:literal: [$($x:ident),*] [$($number:ident),*] $of:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl<V: Floats> Map<V, $k, 1> for $name {
            #[inline(always)]
            fn of(self, [$($x,)* $($number),*]: [V; $k]) -> [V; 1] {
                $of.of([$($x),*])
            }
        }
    )*};
}

by_column! {
    ColumnExp, 2: [x] [top] Exp(top);
    ColumnSquare, 2: [x] [mean] Square(mean);
    ColumnMinus, 3: [x] [top, log] Minus([top, log]);
    ColumnNormal, 3: [x] [mean, scale] Normalization { mean, scale };
    ColumnFromMean, 3: [v, y] [total] FromMean(total);
    ColumnShift, 2: [v] [total] Subtraction(total);
    ColumnWeightedShift, 3: [v, y] [total] Subtraction(total);
    ColumnJacobian, 5: [v, y] [mean, along_y, r] JacobianRow { mean, along_y, r };
}

/// `exp(x) / sum exp(x)`
pub(crate) fn softmax<T: Float + Plain>(xs: &[T], out: &mut [T], sizes: Sizes, mode: RowMode) {
    // The result is read again.
    let mode = RowMode {
        non_temporal: false,
        ..mode
    };
    for_each_strip::<T, 1, false>([xs], out, sizes, 0.3, mode, softmax_strip);
}

leveled! {
    fn softmax_strip<S, T: Float>(strip: Strip<'_, T, 1>, scratch: [&mut [T]; 3]) {
        let Strip { args: [x], mut out, c, .. } = strip;
        let [tops, total, part] = scratch;
        x.fold::<S>(c, &mut *tops, Max);
        let tops = &*tops;
        for start in (0..x.rows).step_by(SUMMED_ROWS) {
            let sum = if start == 0 { &mut *total } else { &mut *part };
            sum.fill(T::NOTHING);
            for i in start..x.rows.min(start + SUMMED_ROWS) {
                map_add::<T::Floats<S>, 2>([x.row(i), tops], out.row(i), sum, ColumnExp);
            }
            if start > 0 {
                reduce::merge(total, part, Sum);
            }
        }
        join::<S, T>(c, total, Sum);
        // The sum is at least 1, so its reciprocal is finite.
        total.iter_mut().for_each(|y| *y = y.recip());
        for i in 0..x.rows {
            (out.row(i).iter_mut().zip(&*total)).for_each(|(y, scale)| *y = y.times(*scale));
        }
    }
}

/// `x - log sum exp(x)`
pub(crate) fn log_softmax<T: Float + Plain>(xs: &[T], out: &mut [T], sizes: Sizes, mode: RowMode) {
    for_each_strip::<T, 1, false>([xs], out, sizes, 0.3, mode, log_softmax_strip);
}

leveled! {
    fn log_softmax_strip<S, T: Float>(strip: Strip<'_, T, 1>, scratch: [&mut [T]; 3]) {
        let Strip { args: [x], mut out, c, non_temporal, .. } = strip;
        let [tops, total, part] = scratch;
        x.fold::<S>(c, &mut *tops, Max);
        let tops = &*tops;
        sums::<S, T, 2>(c, x.rows, |i| [x.row(i), tops], [&mut *total, part], ColumnExp);
        total.iter_mut().for_each(|y| *y = y.log::<S>());
        for i in 0..x.rows {
            map::<T::Floats<S>, 3>([x.row(i), tops, total], out.row(i), non_temporal, ColumnMinus);
        }
    }
}

/// `log sum exp(x)`
pub(crate) fn logsumexp<T: Float + Plain>(xs: &[T], out: &mut [T], sizes: Sizes, mode: RowMode) {
    for_each_strip::<T, 1, true>([xs], out, sizes, 0.3, mode, logsumexp_strip);
}

leveled! {
    fn logsumexp_strip<S, T: Float>(strip: Strip<'_, T, 1>, scratch: [&mut [T]; 3]) {
        let Strip { args: [x], mut out, c, .. } = strip;
        let [tops, total, part] = scratch;
        x.fold::<S>(c, &mut *tops, Max);
        let tops = &*tops;
        sums::<S, T, 2>(c, x.rows, |i| [x.row(i), tops], [&mut *total, part], ColumnExp);
        for (i, y) in out.row(0).iter_mut().enumerate() {
            let top = tops[i * c];
            *y = match top.is_finite() {
                true => top.plus(total[i * c].log::<S>()),
                // Infinite or NaN, in any order of summation.
                false => {
                    let elements = (0..x.rows).flat_map(|row| &x.row(row)[i * c..][..c]);
                    elements.fold(T::ZERO, |sum, x| sum.plus(x.exp::<S>())).log::<S>()
                }
            };
        }
    }
}

/// Writes the mean of each column and the sum of the squares of the differences from it. Overwrites `part`.
#[inline(always)]
fn moments<S: Simd, T: Float>(x: Columns<'_, T>, c: usize, [means, squares, part]: [&mut [T]; 3]) {
    x.fold::<S>(c, &mut *means, Sum);
    let n = x.rows * c;
    means.iter_mut().for_each(|y| *y = y.over(n));
    let means = &*means;
    sums::<S, T, 2>(
        c,
        x.rows,
        |i| [x.row(i), means],
        [squares, part],
        ColumnSquare,
    );
}

/// Returns `1 / sqrt(var + eps)` from the sum of `n` squares.
#[inline(always)]
fn scale<T: Float>(squares: T, n: usize, eps: T) -> T {
    squares.over(n).plus(eps).sqrt().recip()
}

/// `sum((x - mean)^2) / divisor`, or its square root.
pub(crate) fn variance<T: Float + Plain>(
    xs: &[T],
    out: &mut [T],
    sizes: Sizes,
    divisor: usize,
    root: Root,
    mode: RowMode,
) {
    for_each_strip::<T, 1, true>([xs], out, sizes, 0.1, mode, |strip, scratch| {
        variance_strip(strip, scratch, divisor, root);
    });
}

leveled! {
    fn variance_strip<S, T: Float>(
        strip: Strip<'_, T, 1>,
        scratch: [&mut [T]; 3],
        divisor: usize,
        root: Root,
    ) {
        let Strip { args: [x], mut out, c, .. } = strip;
        let [means, squares, part] = scratch;
        moments::<S, T>(x, c, [means, &mut *squares, part]);
        for (y, squares) in out.row(0).iter_mut().zip(squares.iter().step_by(c)) {
            let var = squares.over(divisor);
            *y = match root {
                Root::None => var,
                Root::Square => var.sqrt(),
            };
        }
    }
}

/// `1 / sqrt(var + eps)`
pub(crate) fn inv_std<T: Float + Plain>(
    xs: &[T],
    out: &mut [T],
    sizes: Sizes,
    eps: f64,
    mode: RowMode,
) {
    for_each_strip::<T, 1, true>([xs], out, sizes, 0.1, mode, |strip, scratch| {
        inv_std_strip(strip, scratch, T::of(eps));
    });
}

leveled! {
    fn inv_std_strip<S, T: Float>(strip: Strip<'_, T, 1>, scratch: [&mut [T]; 3], eps: T) {
        let Strip { args: [x], mut out, c, .. } = strip;
        let [means, squares, part] = scratch;
        moments::<S, T>(x, c, [means, &mut *squares, part]);
        for (y, squares) in out.row(0).iter_mut().zip(squares.iter().step_by(c)) {
            *y = scale(*squares, x.rows * c, eps);
        }
    }
}

/// `(x - mean) / sqrt(var + eps)`
pub(crate) fn normalize<T: Float + Plain>(
    xs: &[T],
    out: &mut [T],
    sizes: Sizes,
    eps: f64,
    mode: RowMode,
) {
    for_each_strip::<T, 1, false>([xs], out, sizes, 0.15, mode, |strip, scratch| {
        normalize_strip(strip, scratch, T::of(eps));
    });
}

leveled! {
    fn normalize_strip<S, T: Float>(strip: Strip<'_, T, 1>, scratch: [&mut [T]; 3], eps: T) {
        let Strip { args: [x], mut out, c, non_temporal, .. } = strip;
        let [means, scales, part] = scratch;
        moments::<S, T>(x, c, [&mut *means, &mut *scales, part]);
        scales.iter_mut().for_each(|y| *y = scale(*y, x.rows * c, eps));
        for i in 0..x.rows {
            map::<T::Floats<S>, 3>([x.row(i), means, scales], out.row(i), non_temporal, ColumnNormal);
        }
    }
}

/// `y (v - sum(y v))`
pub(crate) fn softmax_t<T: Float + Plain>(
    args: [&[T]; 2],
    out: &mut [T],
    sizes: Sizes,
    mode: RowMode,
) {
    for_each_strip::<T, 2, false>(args, out, sizes, 0.2, mode, softmax_t_strip);
}

leveled! {
    fn softmax_t_strip<S, T: Float>(strip: Strip<'_, T, 2>, scratch: [&mut [T]; 3]) {
        let Strip { args: [v, y], mut out, c, non_temporal, .. } = strip;
        let [total, part, _] = scratch;
        sums::<S, T, 2>(c, v.rows, |i| [y.row(i), v.row(i)], [&mut *total, part], Product);
        for i in 0..v.rows {
            map::<T::Floats<S>, 3>([v.row(i), y.row(i), total], out.row(i), non_temporal, ColumnFromMean);
        }
    }
}

/// `v - sum(exp(y) v)`, where every `y` is at most 0.
pub(crate) fn log_softmax_jvp<T: Float + Plain>(
    args: [&[T]; 2],
    out: &mut [T],
    sizes: Sizes,
    mode: RowMode,
) {
    for_each_strip::<T, 2, false>(args, out, sizes, 0.25, mode, log_softmax_jvp_strip);
}

leveled! {
    fn log_softmax_jvp_strip<S, T: Float>(strip: Strip<'_, T, 2>, scratch: [&mut [T]; 3]) {
        let Strip { args: [v, y], mut out, c, non_temporal, .. } = strip;
        let [total, part, _] = scratch;
        sums::<S, T, 2>(c, v.rows, |i| [v.row(i), y.row(i)], [&mut *total, part], Weighted);
        for i in 0..v.rows {
            map::<T::Floats<S>, 2>([v.row(i), total], out.row(i), non_temporal, ColumnShift);
        }
    }
}

/// `v - exp(y) sum(v)`, where every `y` is at most 0.
pub(crate) fn log_softmax_vjp<T: Float + Plain>(
    args: [&[T]; 2],
    out: &mut [T],
    sizes: Sizes,
    mode: RowMode,
) {
    for_each_strip::<T, 2, false>(args, out, sizes, 0.25, mode, log_softmax_vjp_strip);
}

leveled! {
    fn log_softmax_vjp_strip<S, T: Float>(strip: Strip<'_, T, 2>, scratch: [&mut [T]; 3]) {
        let Strip { args: [v, y], mut out, c, non_temporal, .. } = strip;
        let [total, ..] = scratch;
        v.fold::<S>(c, total, Sum);
        for i in 0..v.rows {
            let rows = [v.row(i), y.row(i), &*total];
            map::<T::Floats<S>, 3>(rows, out.row(i), non_temporal, ColumnWeightedShift);
        }
    }
}

/// `r (v - mean(v) - y mean(y v))` of `v, y, r`, with one `r` for each result of a reduction.
pub(crate) fn normalize_t<T: Float + Plain>(
    [v, y, scales]: [&[T]; 3],
    out: &mut [T],
    sizes: Sizes,
    mode: RowMode,
) {
    for_each_strip::<T, 2, false>([v, y], out, sizes, 0.2, mode, |strip, scratch| {
        let first = strip.first / strip.c;
        normalize_t_strip(strip, &scales[first..], scratch);
    });
}

leveled! {
    fn normalize_t_strip<S, T: Float>(
        strip: Strip<'_, T, 2>,
        scales: &[T],
        scratch: [&mut [T]; 3],
    ) {
        let Strip { args: [v, y], mut out, c, non_temporal, .. } = strip;
        let [means, along, scale] = scratch;
        let n = v.rows * c;
        sums::<S, T, 2>(c, v.rows, |i| [v.row(i), y.row(i)], [&mut *along, &mut *scale], Product);
        along.iter_mut().for_each(|y| *y = y.over(n));
        v.fold::<S>(c, means, Sum);
        means.iter_mut().for_each(|y| *y = y.over(n));
        for (to, r) in scale.chunks_mut(c).zip(scales) {
            to.fill(*r);
        }
        for i in 0..v.rows {
            let rows = [v.row(i), y.row(i), &*means, &*along, &*scale];
            map::<T::Floats<S>, 5>(rows, out.row(i), non_temporal, ColumnJacobian);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Data, DataMut};
    use crate::rows::row_kernel::RowKernel;
    use crate::rows::{self, Along, Root};
    use gradloom_ir::DType;

    /// Moves the reduced sizes of `[a, r, b, c]` last, or back.
    fn moved(xs: &[f64], [a, r, b, c]: [usize; 4], back: bool) -> Vec<f64> {
        let mut ys = vec![0.0; xs.len()];
        for i in 0..a * r * b * c {
            let (c_at, b_at, r_at, a_at) = (i % c, i / c % b, i / (c * b) % r, i / (c * b * r));
            let last = ((a_at * b + b_at) * r + r_at) * c + c_at;
            let (from, to) = if back { (last, i) } else { (i, last) };
            ys[to] = xs[from];
        }
        ys
    }

    fn run(kernel: RowKernel, args: &[&[f64]], len: usize) -> Vec<f64> {
        let mut found = vec![9.0; len];
        let args: Vec<_> = args.iter().map(|xs| Data::F64(xs)).collect();
        kernel.prepare(false)(&args, &mut [DataMut::F64(&mut found)]).unwrap();
        found
    }

    #[test]
    fn columns_have_the_results_of_rows() {
        type Kernel = Box<dyn Fn(Along) -> RowKernel>;
        let kernels: [(&str, usize, Kernel); 10] = [
            ("softmax", 1, Box::new(rows::softmax)),
            ("log_softmax", 1, Box::new(rows::log_softmax)),
            ("logsumexp", 1, Box::new(rows::logsumexp)),
            (
                "var",
                1,
                Box::new(|of| rows::variance(of, of.reduced(), Root::None)),
            ),
            (
                "stddev",
                1,
                Box::new(|of| rows::variance(of, of.reduced() - 1, Root::Square)),
            ),
            ("inv_std", 1, Box::new(|of| rows::inv_std(of, 1e-5))),
            ("normalize", 1, Box::new(|of| rows::normalize(of, 1e-5))),
            ("softmax_t", 2, Box::new(rows::softmax_t)),
            ("log_softmax_jvp", 2, Box::new(rows::log_softmax_jvp)),
            ("log_softmax_vjp", 2, Box::new(rows::log_softmax_vjp)),
        ];
        let sizes = [
            [1, 1, 3, 1],
            [2, 3, 1, 1],
            [1, 70, 17, 1],
            [3, 5, 64, 1],
            [2, 200, 131, 1],
            [1, 2, 2100, 1],
            [1, 3, 5, 7],
            [2, 66, 9, 20],
            [1, 2, 3, 1500],
        ];
        for arbc in sizes {
            let [a, r, b, c] = arbc;
            let n = a * r * b * c;
            let draw = |seed: usize| -> Vec<f64> {
                let number = |i: usize| ((i + seed) * 7919 % 1009) as f64 / 101.0 - 9.0;
                (0..n).map(number).collect()
            };
            let mut special = draw(5);
            special[0] = f64::NAN;
            special[1] = f64::INFINITY;
            special[2] = f64::NEG_INFINITY;
            if c == 1 && b > 3 {
                (0..r).for_each(|i| special[i * b + 3] = f64::NEG_INFINITY);
            }
            let along = |arbc| Along {
                dtype: DType::F64,
                arbc,
            };
            let [columns, by_rows] = [along(arbc), along([a * b, 1, 1, r * c])];
            let same = |name: &str, found: &[f64], want: &[f64]| {
                for (i, (found, want)) in found.iter().zip(want).enumerate() {
                    let near = (found - want).abs() <= 1e-12 * want.abs().max(1.0);
                    let nan = found.is_nan() && want.is_nan();
                    let right = near || nan || found == want;
                    assert!(right, "{name} {arbc:?} {i}: {found} {want}");
                }
            };
            for xs in [draw(0), special] {
                // Logarithms of probabilities are at most 0.
                let ys: Vec<f64> = draw(77).iter().map(|y| -y.abs()).collect();
                let args = [&xs[..], &ys];
                let moved_args = args.map(|xs| moved(xs, arbc, false));
                let moved_args = moved_args.each_ref().map(|xs| &xs[..]);
                for (name, n_args, kernel) in &kernels {
                    let folds = ["logsumexp", "var", "stddev", "inv_std"].contains(name);
                    let len = if folds { a * b } else { n };
                    let found = run(kernel(columns), &args[..*n_args], len);
                    let want = run(kernel(by_rows), &moved_args[..*n_args], len);
                    let want = if folds {
                        want
                    } else {
                        moved(&want, arbc, true)
                    };
                    same(name, &found, &want);
                }
                let scales: Vec<f64> = (0..a * b).map(|i| i as f64 / 7.0 - 1.0).collect();
                let found = run(rows::normalize_t(columns), &[args[0], args[1], &scales], n);
                let [v, y] = moved_args;
                let want = run(rows::normalize_t(by_rows), &[v, y, &scales], n);
                same("normalize_t", &found, &moved(&want, arbc, true));
            }
        }
    }

    #[test]
    fn columns_of_f32_are_accurate() {
        let (r, b) = (300, 37);
        let xs: Vec<f32> = (0..r * b)
            .map(|i| (i * 7919 % 1009) as f32 / 101.0)
            .collect();
        let of = Along {
            dtype: DType::F32,
            arbc: [1, r, b, 1],
        };
        let mut found = vec![0.0; r * b];
        let kernel = rows::softmax(of).prepare(true);
        kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
        for j in 0..b {
            let column = || (0..r).map(|i| f64::from(xs[i * b + j]));
            let total: f64 = column().map(f64::exp).sum();
            for (i, x) in column().enumerate() {
                let want = x.exp() / total;
                assert!((f64::from(found[i * b + j]) - want).abs() <= 1e-6 * want);
            }
        }
    }
}
