//! Kernels on rows: the elements along some axes taken together, as in a softmax.
//!
//! A row is read several times while it is in the first-level cache, and from memory once.

use super::KernelFault;
use super::data::Data;
use super::lanes::{CHUNK, Map, Pairwise, map_sum, sum, sum_chunk, sum_of};
use super::leveled::leveled;
use super::number::Float;

use super::threads::for_each_chunk;
use crate::dtype::Element;
use gradloom_maths::Arith;
use std::marker::PhantomData;

/// How many bytes of a result one thread computes at a time.
const TASK_BYTES: usize = 1 << 17;

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
    let cols = cols.max(1);
    let elements = n_rows.saturating_mul(cols);
    let nanos = elements as f64 * nanos * size_of::<T>() as f64 / 4.0;
    let rows = (TASK_BYTES / size_of::<T>() / cols).max(1);
    for_each_chunk(out, rows * width, nanos as usize, |i, out| f(i * rows, out));
}

/// Writes each row of `cols` elements.
fn map_rows<T: Float>(
    xs: &[T],
    out: &mut [T],
    cols: usize,
    nanos: f64,
    f: impl Fn(&[T], &mut [T], usize) + Sync,
) {
    split_rows(out, cols, cols, nanos, |row, out| {
        f(&xs[row * cols..][..out.len()], out, cols);
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

/// The greatest element. If there is a NaN it may be any of them, or that.
#[inline(always)]
fn top<T: Float>(row: &[T]) -> T {
    let mut top = T::of(f64::NEG_INFINITY).key();
    for x in row {
        top = top.max(x.key());
    }
    T::of_key(top)
}

/// `exp(x - top)`
#[derive(Clone, Copy)]
struct Exp<A, T>(T, PhantomData<A>);

impl<A: Arith, T: Float> Map<T> for Exp<A, T> {
    #[inline(always)]
    fn of(self, x: T) -> T {
        x.minus(self.0).exp::<A>()
    }
}

/// `(x - mean)^2`
#[derive(Clone, Copy)]
struct Square<T>(T);

impl<T: Float> Map<T> for Square<T> {
    #[inline(always)]
    fn of(self, x: T) -> T {
        x.minus(self.0).times(x.minus(self.0))
    }
}

/// `log sum exp(x - top)`
#[inline(always)]
fn log_sum_exp<A: Arith, T: Float>(row: &[T], top: T, some: &mut [T; CHUNK]) -> T {
    sum_of(row, some, Exp(top, PhantomData::<A>)).log::<A>()
}

/// `exp(x) / sum exp(x)`
pub(super) fn softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    map_rows(xs, out, cols, 0.25, softmax_rows);
}

leveled! {
    fn softmax_rows<A, T: Float>(xs: &[T], out: &mut [T], cols: usize) {
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let top = top(row);
            // The sum is at least 1.
            let scale = map_sum(row, out, Exp(top, PhantomData::<A>)).recip();
            for y in out {
                *y = y.times(scale);
            }
        }
    }
}

/// `x - log sum exp(x)`
pub(super) fn log_softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    map_rows(xs, out, cols, 0.25, log_softmax_rows);
}

leveled! {
    fn log_softmax_rows<A, T: Float>(xs: &[T], out: &mut [T], cols: usize) {
        let mut some = [T::ZERO; CHUNK];
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            // The greatest element is taken off first: `x - top` is exact where it matters.
            let top = top(row);
            let log = log_sum_exp::<A, T>(row, top, &mut some);
            for (y, &x) in out.iter_mut().zip(row) {
                *y = x.minus(top).minus(log);
            }
        }
    }
}

/// `log sum exp(x)`
pub(super) fn logsumexp<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    fold_rows(xs, out, cols, 0.25, logsumexp_rows);
}

leveled! {
    fn logsumexp_rows<A, T: Float>(xs: &[T], out: &mut [T], cols: usize) {
        let mut some = [T::ZERO; CHUNK];
        for (i, y) in out.iter_mut().enumerate() {
            let row = &xs[i * cols..][..cols];
            // The greatest element is taken out, so that the exponentials neither overflow nor all vanish.
            let top = top(row);
            let top = if top.is_finite() { top } else { T::ZERO };
            *y = top.plus(log_sum_exp::<A, T>(row, top, &mut some));
        }
    }
}

/// The mean of a row, and `1 / sqrt(var + eps)` with the biased variance about that mean.
#[inline(always)]
fn moments<T: Float>(row: &[T], eps: f64, some: &mut [T; CHUNK]) -> (T, T) {
    let mean = sum(row).over(row.len());
    let var = sum_of(row, some, Square(mean)).over(row.len());
    (mean, var.plus(T::of(eps)).sqrt().recip())
}

/// `(x - mean) / sqrt(var + eps)`
pub(super) fn normalize<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
    let normalize = |xs: &[T], out: &mut [T], cols| normalize_rows(xs, out, cols, eps);
    map_rows(xs, out, cols, 0.12, normalize);
}

leveled! {
    fn normalize_rows<A, T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
        let mut some = [T::ZERO; CHUNK];
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let (mean, scale) = moments(row, eps, &mut some);
            for (y, &x) in out.iter_mut().zip(row) {
                *y = x.minus(mean).times(scale);
            }
        }
    }
}

/// `1 / sqrt(var + eps)`
pub(super) fn inv_std<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
    let inv_std = |xs: &[T], out: &mut [T], cols| inv_std_rows(xs, out, cols, eps);
    fold_rows(xs, out, cols, 0.06, inv_std);
}

leveled! {
    fn inv_std_rows<A, T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
        let mut some = [T::ZERO; CHUNK];
        for (i, y) in out.iter_mut().enumerate() {
            *y = moments(&xs[i * cols..][..cols], eps, &mut some).1;
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
    let layer_norm = |xs: &[T], out: &mut [T], _| layer_norm_rows(xs, affine, out, eps);
    map_rows(xs, out, cols, 0.15, layer_norm);
}

leveled! {
    fn layer_norm_rows<A, T: Float>(xs: &[T], affine: [&[T]; 2], out: &mut [T], eps: f64) {
        let mut some = [T::ZERO; CHUNK];
        let [weight, bias] = affine;
        let cols = weight.len();
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let (mean, scale) = moments(row, eps, &mut some);
            let affine = weight.iter().zip(bias);
            for ((y, &x), (&w, &b)) in out.iter_mut().zip(row).zip(affine) {
                *y = x.minus(mean).times(scale).fma::<A>(w, b);
            }
        }
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

/// The mean over all rows of `-log_softmax(logits)[label]`.
pub(super) fn cross_entropy<T: Float>(
    logits: &[T],
    labels: Data<'_>,
    classes: usize,
) -> Result<T, KernelFault> {
    check_labels(labels, classes)?;
    let n = labels.len();
    let mut tree = Pairwise::new(T::ZERO);
    let mut losses = [T::ZERO; CHUNK];
    for start in (0..n).step_by(CHUNK) {
        let losses = &mut losses[..CHUNK.min(n - start)];
        split_rows(losses, 1, classes, 0.25, |first, losses| {
            cross_entropy_rows(logits, labels, classes, start + first, losses);
        });
        tree.push(sum_chunk(losses), T::plus);
    }
    Ok(tree.finish(T::plus).unwrap_or(T::ZERO).over(n))
}

leveled! {
    /// The losses of the rows from `first` on. Their labels are classes.
    fn cross_entropy_rows<A, T: Float>(
        logits: &[T],
        labels: Data<'_>,
        classes: usize,
        first: usize,
        losses: &mut [T],
    ) {
        let mut some = [T::ZERO; CHUNK];
        for (i, loss) in losses.iter_mut().enumerate() {
            let row = &logits[(first + i) * classes..][..classes];
            let top = top(row);
            let log = log_sum_exp::<A, T>(row, top, &mut some);
            *loss = log.minus(row[label(labels, first + i) as usize].minus(top));
        }
    }
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
