//! Kernels on rows: the elements along some axes taken together, as in a softmax.
//!
//! A row is read several times while it is in the first-level cache, and from memory once.

use super::KernelFault;
use super::data::Data;
use super::lanes::{Ahead, CHUNK, Map, Pairwise, Same, exp, greatest, map, map_sum, sums};
use super::leveled::leveled;
use super::number::Float;
use super::reduce::row_totals;
use super::threads::{for_each_chunk, for_each_chunks};
use super::vector::{Floats, Simd, Vector, fence};
use crate::dtype::Element;

/// How many bytes of a result one thread computes at a time.
const TASK_BYTES: usize = 1 << 17;

/// Results of so many bytes are written past the caches.
const PAST_CACHES: usize = 8 << 20;

/// Calls `f` with the rows of `cols` elements, some of them at a time: with the number of the first, and with the elements
/// of the result, `width` for each row. `nanos` is what an element takes.
pub(super) fn split_rows<T: Float>(
    out: &mut [T],
    width: usize,
    cols: usize,
    nanos: f64,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let Some(n_rows) = out.len().checked_div(width) else {
        return;
    };
    let rows = rows_of_a_task::<T>(cols);
    let nanos = nanos_of::<T>(n_rows, cols, nanos);
    for_each_chunk(out, rows * width, nanos, |i, out| f(i * rows, out));
}

/// How many rows of `cols` elements one thread computes at a time.
fn rows_of_a_task<T>(cols: usize) -> usize {
    (TASK_BYTES / size_of::<T>() / cols.max(1)).max(1)
}

/// What rows of `cols` elements take, if an `f32` takes `nanos`.
fn nanos_of<T>(n_rows: usize, cols: usize, nanos: f64) -> usize {
    let elements = n_rows.saturating_mul(cols.max(1));
    (elements as f64 * nanos * size_of::<T>() as f64 / 4.0) as usize
}

/// Whether a result is written past the caches: a large one would drive out more than it leaves there for the next task.
pub(super) fn past_caches<T>(out: &[T]) -> bool {
    size_of_val(out) >= PAST_CACHES
}

/// Writes each row of `cols` elements. The last argument of `f` says whether [past the caches](past_caches).
fn map_rows<T: Float>(
    xs: &[T],
    out: &mut [T],
    cols: usize,
    nanos: f64,
    f: impl Fn(&[T], &mut [T], usize, bool) + Sync,
) {
    let past_caches = past_caches(out);
    split_rows(out, cols, cols, nanos, |row, out| {
        f(&xs[row * cols..][..out.len()], out, cols, past_caches);
    });
}

/// Writes one number for each row of `cols` elements.
fn fold_rows<T: Float>(
    xs: &[T],
    out: &mut [T],
    cols: usize,
    nanos: f64,
    f: impl Fn(&[T], &mut [T], usize) + Sync,
) {
    split_rows(out, 1, cols, nanos, |row, out| {
        f(&xs[row * cols..][..out.len() * cols], out, cols);
    });
}

/// `exp(x - top)`
#[derive(Clone, Copy)]
struct Exp<V>(V);

impl<V: Floats> Map<V, 1, 1> for Exp<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [exp(x.minus(self.0))]
    }
}

/// `(x - mean)^2`
#[derive(Clone, Copy)]
struct Square<V>(V);

impl<V: Floats> Map<V, 1, 1> for Square<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        let x = x.minus(self.0);
        [x.times(x)]
    }
}

/// `x scale`
#[derive(Clone, Copy)]
struct Scale<V>(V);

impl<V: Floats> Map<V, 1, 1> for Scale<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [x.times(self.0)]
    }
}

/// `x scale w`
impl<V: Floats> Map<V, 2, 1> for Scale<V> {
    #[inline(always)]
    fn of(self, [x, w]: [V; 2]) -> [V; 1] {
        [x.times(self.0).times(w)]
    }
}

/// `x - a - b`
#[derive(Clone, Copy)]
struct Minus<V>([V; 2]);

impl<V: Floats> Map<V, 1, 1> for Minus<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [x.minus(self.0[0]).minus(self.0[1])]
    }
}

/// `(x - mean) scale`
#[derive(Clone, Copy)]
pub(super) struct Normal<V> {
    pub(super) mean: V,
    pub(super) scale: V,
}

impl<V: Floats> Map<V, 1, 1> for Normal<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [x.minus(self.mean).times(self.scale)]
    }
}

/// The same, times a weight, and a bias added.
impl<V: Floats> Map<V, 3, 1> for Normal<V> {
    #[inline(always)]
    fn of(self, [x, w, b]: [V; 3]) -> [V; 1] {
        let [x] = self.of([x]);
        [x.fma(w, b)]
    }
}

/// `log sum exp(x - top)`, where `top` is the greatest element.
#[inline(always)]
fn log_sum_exp<S: Simd, T: Float>(row: &[T], top: T) -> T {
    let exp = Exp(T::Floats::<S>::splat(top));
    let [total] = sums::<T::Floats<S>, 1, 1>([row], Ahead::next(row), exp);
    total.log::<S>()
}

/// Elements that lie in the first-level cache beside what else is read and written.
const NEAR: usize = 2048;

/// `exp(x) / sum exp(x)`
pub(super) fn softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    map_rows(xs, out, cols, 0.25, softmax_rows);
}

leveled! {
    fn softmax_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize, past_caches: bool) {
        let mut near = [T::ZERO; NEAR];
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let exp = Exp(T::Floats::<S>::splat(greatest::<T::Floats<S>>(row)));
            let ahead = Ahead::next(row);
            // The sum is at least 1.
            if let Some(near) = near.get_mut(..cols) {
                let scale = map_sum::<T::Floats<S>>(row, near, ahead, exp).recip();
                let scale = Scale(T::Floats::<S>::splat(scale));
                map::<T::Floats<S>, 1>([near], out, past_caches, scale);
            } else {
                let scale = map_sum::<T::Floats<S>>(row, out, ahead, exp).recip();
                for y in out {
                    *y = y.times(scale);
                }
            }
        }
        fence();
    }
}

/// `x - log sum exp(x)`
pub(super) fn log_softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    map_rows(xs, out, cols, 0.25, log_softmax_rows);
}

leveled! {
    fn log_softmax_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize, past_caches: bool) {
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            // The greatest element is taken off first: `x - top` is exact where it matters.
            let top = greatest::<T::Floats<S>>(row);
            let minus = [top, log_sum_exp::<S, T>(row, top)];
            let minus = Minus(minus.map(T::Floats::<S>::splat));
            map::<T::Floats<S>, 1>([row], out, past_caches, minus);
        }
        fence();
    }
}

/// `log sum exp(x)`
pub(super) fn logsumexp<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    fold_rows(xs, out, cols, 0.25, logsumexp_rows);
}

leveled! {
    fn logsumexp_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize) {
        for (i, y) in out.iter_mut().enumerate() {
            let row = &xs[i * cols..][..cols];
            // The greatest element is taken out, so that the exponentials neither overflow nor all vanish.
            let top = greatest::<T::Floats<S>>(row);
            *y = match top.is_finite() {
                true => top.plus(log_sum_exp::<S, T>(row, top)),
                // Infinite or NaN in whatever order.
                false => row.iter().fold(T::ZERO, |sum, x| sum.plus(x.exp::<S>())).log::<S>(),
            };
        }
    }
}

/// The mean of a row, and `1 / sqrt(var + eps)` with the biased variance about that mean.
#[inline(always)]
pub(super) fn moments<S: Simd, T: Float>(row: &[T], eps: f64) -> (T, T) {
    let [total] = sums::<T::Floats<S>, 1, 1>([row], Ahead(0), Same);
    let mean = total.over(row.len());
    let square = Square(T::Floats::<S>::splat(mean));
    let [total] = sums::<T::Floats<S>, 1, 1>([row], Ahead::next(row), square);
    let var = total.over(row.len());
    (mean, var.plus(T::of(eps)).sqrt().recip())
}

/// `1 / sqrt(mean(x^2) + eps)`
#[inline(always)]
pub(super) fn inv_rms<S: Simd, T: Float>(row: &[T], eps: f64) -> T {
    let square = Square(T::Floats::<S>::splat(T::ZERO));
    let [total] = sums::<T::Floats<S>, 1, 1>([row], Ahead::next(row), square);
    total.over(row.len()).plus(T::of(eps)).sqrt().recip()
}

/// As [`moments`], for vectors.
#[inline(always)]
fn normal<S: Simd, T: Float>(row: &[T], eps: f64) -> Normal<T::Floats<S>> {
    let (mean, scale) = moments::<S, T>(row, eps);
    Normal {
        mean: T::Floats::<S>::splat(mean),
        scale: T::Floats::<S>::splat(scale),
    }
}

/// `(x - mean) / sqrt(var + eps)`
pub(super) fn normalize<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
    map_rows(xs, out, cols, 0.12, |xs, out, cols, past_caches| {
        normalize_rows(xs, out, cols, eps, past_caches);
    });
}

leveled! {
    fn normalize_rows<S, T: Float>(
        xs: &[T],
        out: &mut [T],
        cols: usize,
        eps: f64,
        past_caches: bool,
    ) {
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            map::<T::Floats<S>, 1>([row], out, past_caches, normal::<S, T>(row, eps));
        }
        fence();
    }
}

/// `1 / sqrt(var + eps)`
pub(super) fn inv_std<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
    let inv_std = |xs: &[T], out: &mut [T], cols| inv_std_rows(xs, out, cols, eps);
    fold_rows(xs, out, cols, 0.06, inv_std);
}

leveled! {
    fn inv_std_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
        for (i, y) in out.iter_mut().enumerate() {
            *y = moments::<S, T>(&xs[i * cols..][..cols], eps).1;
        }
    }
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis.
pub(super) fn layer_norm<T: Float>(
    xs: &[T],
    affine: [&[T]; 2],
    out: &mut [T],
    cols: usize,
    eps: f64,
) {
    map_rows(xs, out, cols, 0.13, |xs, out, _, past_caches| {
        layer_norm_rows(xs, affine, out, eps, past_caches);
    });
}

leveled! {
    fn layer_norm_rows<S, T: Float>(
        xs: &[T],
        affine: [&[T]; 2],
        out: &mut [T],
        eps: f64,
        past_caches: bool,
    ) {
        let [weight, bias] = affine;
        let cols = weight.len();
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let normal = normal::<S, T>(row, eps);
            map::<T::Floats<S>, 3>([row, weight, bias], out, past_caches, normal);
        }
        fence();
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis.
pub(super) fn rms_norm<T: Float>(xs: &[T], weight: &[T], out: &mut [T], eps: f64) {
    map_rows(xs, out, weight.len(), 0.12, |xs, out, _, past_caches| {
        rms_norm_rows(xs, weight, out, eps, past_caches);
    });
}

leveled! {
    fn rms_norm_rows<S, T: Float>(
        xs: &[T],
        weight: &[T],
        out: &mut [T],
        eps: f64,
        past_caches: bool,
    ) {
        let cols = weight.len();
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let scale = T::Floats::<S>::splat(inv_rms::<S, T>(row, eps));
            map::<T::Floats<S>, 2>([row, weight], out, past_caches, Scale(scale));
        }
        fence();
    }
}

/// The label of a row, whatever its type.
fn label(labels: Data<'_>, row: usize) -> i64 {
    match labels {
        Data::I32(labels) => i64::from(labels[row]),
        labels => i64::slice(labels)[row],
    }
}

/// The class that is the label of a row.
pub(super) fn class(labels: Data<'_>, row: usize, classes: usize) -> Result<usize, KernelFault> {
    let label = label(labels, row);
    let class = usize::try_from(label).ok().filter(|c| *c < classes);
    class.ok_or(KernelFault::Label {
        label,
        classes,
        row,
    })
}

/// The mean over all rows of `-log_softmax(logits)[label]`; and as [`softmax_less_hot`] writes it, what that is by the logits, if
/// there is room for it.
pub(super) fn cross_entropy<T: Float>(
    logits: &[T],
    labels: Data<'_>,
    less_hot: &mut [T],
    classes: usize,
) -> Result<T, KernelFault> {
    check_labels(labels, classes)?;
    let n = labels.len();
    let mut tree = Pairwise::new(T::ZERO);
    let mut losses = [T::ZERO; CHUNK];
    let rows = rows_of_a_task::<T>(classes);
    let mut less_hot = less_hot.chunks_mut((CHUNK * classes).max(1));
    for start in (0..n).step_by(CHUNK) {
        let losses = &mut losses[..CHUNK.min(n - start)];
        let n_tasks = losses.len().div_ceil(rows);
        let nanos = nanos_of::<T>(losses.len(), classes, 0.25);
        let less_hot = less_hot.next().unwrap_or_default();
        let outs = [(&mut *losses, rows), (less_hot, rows * classes)];
        for_each_chunks(n_tasks, outs, nanos, |i, [losses, less_hot]| {
            let first = start + i * rows;
            let logits = &logits[first * classes..][..losses.len() * classes];
            match less_hot.is_empty() {
                true => cross_entropy_rows(logits, labels, first, classes, losses),
                false => cross_entropy_and_rows(logits, labels, first, classes, losses, less_hot),
            }
        });
        let mut total = [T::ZERO];
        row_totals(losses, losses.len(), &mut total);
        tree.push(total[0], T::plus);
    }
    Ok(tree.finish(T::plus).unwrap_or(T::ZERO).over(n))
}

leveled! {
    /// The losses of rows, the first of which has the number `first`. Their labels are classes.
    fn cross_entropy_rows<S, T: Float>(
        logits: &[T],
        labels: Data<'_>,
        first: usize,
        classes: usize,
        losses: &mut [T],
    ) {
        for (i, (row, loss)) in logits.chunks_exact(classes).zip(losses).enumerate() {
            let top = greatest::<T::Floats<S>>(row);
            let log = log_sum_exp::<S, T>(row, top);
            *loss = log.minus(row[label(labels, first + i) as usize].minus(top));
        }
    }
}

leveled! {
    /// The same, and the softmax of each row, less 1 at its label.
    fn cross_entropy_and_rows<S, T: Float>(
        logits: &[T],
        labels: Data<'_>,
        first: usize,
        classes: usize,
        losses: &mut [T],
        less_hot: &mut [T],
    ) {
        let rows = logits.chunks_exact(classes).zip(less_hot.chunks_exact_mut(classes));
        for (i, ((row, out), loss)) in rows.zip(losses).enumerate() {
            let top = greatest::<T::Floats<S>>(row);
            let exp = Exp(T::Floats::<S>::splat(top));
            let total = map_sum::<T::Floats<S>>(row, out, Ahead::next(row), exp);
            let label = label(labels, first + i) as usize;
            *loss = total.log::<S>().minus(row[label].minus(top));
            let scale = total.recip();
            for y in out.iter_mut() {
                *y = y.times(scale);
            }
            out[label] = out[label].minus(T::ONE);
        }
    }
}

/// `softmax(logits)`, less 1 at the label of each row.
pub(super) fn softmax_less_hot<T: Float>(
    logits: &[T],
    labels: Data<'_>,
    out: &mut [T],
    classes: usize,
) -> Result<(), KernelFault> {
    check_labels(labels, classes)?;
    split_rows(out, classes, classes, 0.2, |first, out| {
        softmax_rows(&logits[first * classes..][..out.len()], out, classes, false);
        for (i, row) in out.chunks_exact_mut(classes).enumerate() {
            let y = &mut row[label(labels, first + i) as usize];
            *y = y.minus(T::ONE);
        }
    });
    Ok(())
}

/// Finds the first label that is none of `classes`.
pub(super) fn check_labels(labels: Data<'_>, classes: usize) -> Result<(), KernelFault> {
    (0..labels.len()).try_for_each(|row| class(labels, row, classes).map(|_| ()))
}

/// 1 at the label along a last axis of `classes`, 0 elsewhere. A label out of range has a row of zeros.
pub(super) fn one_hot<T: Element>(labels: Data<'_>, out: &mut [T], classes: usize, one: T) {
    out.fill(T::default());
    for row in 0..labels.len() {
        if let Ok(class) = class(labels, row, classes) {
            out[row * classes + class] = one;
        }
    }
}
