//! Jacobians of kernels on rows (softmax, log-softmax, normalisation), applied to tangents or
//! cotangents.

use crate::rows::forward::{RowMode, split_rows};
use crate::simd::lanes::{Identity, Map, Prefetch, exp, sums};
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::simd::vector::{Floats, Vector};

/// `x y`
#[derive(Clone, Copy)]
pub(crate) struct Product;

impl<V: Vector> Map<V, 2, 1> for Product {
    #[inline(always)]
    fn of(self, [x, y]: [V; 2]) -> [V; 1] {
        [x.times(y)]
    }
}

/// `x` and `x y`
impl<V: Vector> Map<V, 2, 2> for Product {
    #[inline(always)]
    fn of(self, [x, y]: [V; 2]) -> [V; 2] {
        [x, x.times(y)]
    }
}

/// `y (v - total)`
#[derive(Clone, Copy)]
pub(crate) struct FromMean<V>(pub(crate) V);

impl<V: Floats> Map<V, 2, 1> for FromMean<V> {
    #[inline(always)]
    fn of(self, [v, y]: [V; 2]) -> [V; 1] {
        [y.times(v.minus(self.0))]
    }
}

/// `r (v - mean - y along_y)`
#[derive(Clone, Copy)]
pub(crate) struct JacobianRow<V> {
    pub(crate) mean: V,
    pub(crate) along_y: V,
    pub(crate) r: V,
}

impl<V: Floats> Map<V, 2, 1> for JacobianRow<V> {
    #[inline(always)]
    fn of(self, [v, y]: [V; 2]) -> [V; 1] {
        let v = v.minus(self.mean).minus(y.times(self.along_y));
        [v.times(self.r)]
    }
}

/// `exp(y) v`
#[derive(Clone, Copy)]
pub(crate) struct Weighted;

impl<V: Floats> Map<V, 2, 1> for Weighted {
    #[inline(always)]
    fn of(self, [v, y]: [V; 2]) -> [V; 1] {
        [exp(y).times(v)]
    }
}

/// `v - total`
#[derive(Clone, Copy)]
pub(crate) struct Subtraction<V>(pub(crate) V);

impl<V: Floats> Map<V, 1, 1> for Subtraction<V> {
    #[inline(always)]
    fn of(self, [v]: [V; 1]) -> [V; 1] {
        [v.minus(self.0)]
    }
}

/// `v - exp(y) total`
impl<V: Floats> Map<V, 2, 1> for Subtraction<V> {
    #[inline(always)]
    fn of(self, [v, y]: [V; 2]) -> [V; 1] {
        [v.minus(exp(y).times(self.0))]
    }
}

/// Writes each row of `cols` elements from the same rows of `vs` and `ys`.
fn map_pairs<T: Float>(
    vs: &[T],
    ys: &[T],
    out: &mut [T],
    cols: usize,
    nanos: f64,
    f: impl Fn(&[T], &[T], &mut [T]) + Sync,
) {
    split_rows(out, cols, cols, nanos, |row, out| {
        let part = row * cols..row * cols + out.len();
        f(&vs[part.clone()], &ys[part], out);
    });
}

/// `y (v - sum(y v))`
pub(crate) fn softmax_t<T: Float>([vs, ys]: [&[T]; 2], out: &mut [T], cols: usize, mode: RowMode) {
    map_pairs(vs, ys, out, cols, 0.15, |v, y, out| {
        softmax_t_rows(v, y, out, cols, mode);
    });
}

leveled! {
    fn softmax_t_rows<S, T: Float>(
        vs: &[T],
        ys: &[T],
        out: &mut [T],
        cols: usize,
        mode: RowMode,
    ) {
        let rows = vs.chunks_exact(cols).zip(ys.chunks_exact(cols));
        for ((v, y), out) in rows.zip(out.chunks_exact_mut(cols)) {
            let [total] = sums::<T::Floats<S>, 2, 1>([y, v], Prefetch(0), Product);
            let total = FromMean(T::Floats::<S>::splat(total));
            mode.map::<T::Floats<S>, 2>(v, [v, y], out, total);
        }
        mode.end();
    }
}

/// `v - sum(exp(y) v)`, where every `y` is at most 0.
pub(crate) fn log_softmax_jvp<T: Float>(
    [vs, ys]: [&[T]; 2],
    out: &mut [T],
    cols: usize,
    mode: RowMode,
) {
    map_pairs(vs, ys, out, cols, 0.2, |v, y, out| {
        log_softmax_jvp_rows(v, y, out, cols, mode);
    });
}

leveled! {
    fn log_softmax_jvp_rows<S, T: Float>(
        vs: &[T],
        ys: &[T],
        out: &mut [T],
        cols: usize,
        mode: RowMode,
    ) {
        let rows = vs.chunks_exact(cols).zip(ys.chunks_exact(cols));
        for ((v, y), out) in rows.zip(out.chunks_exact_mut(cols)) {
            let [total] = sums::<T::Floats<S>, 2, 1>([v, y], mode.prefetch(v), Weighted);
            let total = Subtraction(T::Floats::<S>::splat(total));
            mode.map::<T::Floats<S>, 1>(v, [v], out, total);
        }
        mode.end();
    }
}

/// `v - exp(y) sum(v)`, where every `y` is at most 0.
pub(crate) fn log_softmax_vjp<T: Float>(
    [vs, ys]: [&[T]; 2],
    out: &mut [T],
    cols: usize,
    mode: RowMode,
) {
    map_pairs(vs, ys, out, cols, 0.2, |v, y, out| {
        log_softmax_vjp_rows(v, y, out, cols, mode);
    });
}

leveled! {
    fn log_softmax_vjp_rows<S, T: Float>(
        vs: &[T],
        ys: &[T],
        out: &mut [T],
        cols: usize,
        mode: RowMode,
    ) {
        let rows = vs.chunks_exact(cols).zip(ys.chunks_exact(cols));
        for ((v, y), out) in rows.zip(out.chunks_exact_mut(cols)) {
            let [total] = sums::<T::Floats<S>, 1, 1>([v], mode.prefetch(v), Identity);
            let total = Subtraction(T::Floats::<S>::splat(total));
            mode.map::<T::Floats<S>, 2>(v, [v, y], out, total);
        }
        mode.end();
    }
}

/// `r (v - mean(v) - y mean(y v))` of `v, y, r`, with one `r` per row.
pub(crate) fn normalize_t<T: Float>(
    [vs, ys, rs]: [&[T]; 3],
    out: &mut [T],
    cols: usize,
    mode: RowMode,
) {
    split_rows(out, cols, cols, 0.18, |row, out| {
        let part = row * cols..row * cols + out.len();
        let rs = &rs[row..][..out.len() / cols];
        normalize_t_rows(&vs[part.clone()], &ys[part], rs, out, cols, mode);
    });
}

leveled! {
    fn normalize_t_rows<S, T: Float>(
        vs: &[T],
        ys: &[T],
        rs: &[T],
        out: &mut [T],
        cols: usize,
        mode: RowMode,
    ) {
        let splat = T::Floats::<S>::splat;
        let rows = vs.chunks_exact(cols).zip(ys.chunks_exact(cols)).zip(rs);
        for (((v, y), &r), out) in rows.zip(out.chunks_exact_mut(cols)) {
            let [mean, along_y] = sums::<T::Floats<S>, 2, 2>([v, y], Prefetch(0), Product)
                .map(|total| total.over(cols));
            let apart = JacobianRow {
                mean: splat(mean),
                along_y: splat(along_y),
                r: splat(r),
            };
            mode.map::<T::Floats<S>, 2>(v, [v, y], out, apart);
        }
        mode.end();
    }
}
