//! The Jacobians of kernels on rows, applied to rows: what a tangent and a cotangent go through.

use super::lanes::{CHUNK, Pairwise, sum, sum_chunk};
use super::leveled::leveled;
use super::number::Float;
use super::rows::split_rows;

/// `sum x y`, as [`sum`] adds up; `some` is overwritten.
#[inline(always)]
fn dot<T: Float>(xs: &[T], ys: &[T], some: &mut [T; CHUNK]) -> T {
    if xs.len() <= CHUNK {
        return dot_chunk(xs, ys, &mut some[..xs.len()]);
    }
    let mut tree = Pairwise::new(T::ZERO);
    for (xs, ys) in xs.chunks(CHUNK).zip(ys.chunks(CHUNK)) {
        tree.push(dot_chunk(xs, ys, &mut some[..xs.len()]), T::plus);
    }
    tree.finish(T::plus).unwrap_or(T::ZERO)
}

#[inline(always)]
fn dot_chunk<T: Float>(xs: &[T], ys: &[T], some: &mut [T]) -> T {
    for ((z, &x), &y) in some.iter_mut().zip(xs).zip(ys) {
        *z = x.times(y);
    }
    sum_chunk(some)
}

/// `y (v - sum(y v))`
pub(super) fn softmax_t<T: Float>(vs: &[T], ys: &[T], out: &mut [T], cols: usize) {
    split_rows(out, cols, cols, 0.15, |row, out| {
        let part = row * cols..row * cols + out.len();
        softmax_t_rows(&vs[part.clone()], &ys[part], out, cols);
    });
}

leveled! {
    fn softmax_t_rows<A, T: Float>(vs: &[T], ys: &[T], out: &mut [T], cols: usize) {
        let mut some = [T::ZERO; CHUNK];
        let rows = vs.chunks_exact(cols).zip(ys.chunks_exact(cols));
        for ((v, y), out) in rows.zip(out.chunks_exact_mut(cols)) {
            let total = dot(y, v, &mut some);
            for ((z, &v), &y) in out.iter_mut().zip(v).zip(y) {
                *z = y.times(v.minus(total));
            }
        }
    }
}

/// `r (v - mean(v) - y mean(y v))` of `v, y, r`, with one `r` for each row.
pub(super) fn normalize_t<T: Float>([vs, ys, rs]: [&[T]; 3], out: &mut [T], cols: usize) {
    split_rows(out, cols, cols, 0.18, |row, out| {
        let part = row * cols..row * cols + out.len();
        let rs = &rs[row..][..out.len() / cols];
        normalize_t_rows(&vs[part.clone()], &ys[part], rs, out, cols);
    });
}

leveled! {
    fn normalize_t_rows<A, T: Float>(vs: &[T], ys: &[T], rs: &[T], out: &mut [T], cols: usize) {
        let mut some = [T::ZERO; CHUNK];
        let rows = vs.chunks_exact(cols).zip(ys.chunks_exact(cols)).zip(rs);
        for (((v, y), &r), out) in rows.zip(out.chunks_exact_mut(cols)) {
            let mean = sum(v).over(cols);
            let along_y = dot(y, v, &mut some).over(cols);
            for ((z, &v), &y) in out.iter_mut().zip(v).zip(y) {
                *z = v.minus(mean).minus(y.times(along_y)).times(r);
            }
        }
    }
}
