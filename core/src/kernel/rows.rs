//! Kernels on rows: the elements along some axes taken together, as in a softmax.

use super::KernelFault;
use super::data::Data;
use super::fused::CHUNK;
use super::number::{Float, Number};
use super::reduce::fold_slice;
use crate::buffer::reserve;
use crate::dtype::Element;

/// Maps each row of `cols` elements.
fn map_rows<T>(xs: &[T], out: &mut [T], cols: usize, f: impl Fn(&[T], &mut [T])) {
    if cols > 0 {
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            f(row, out);
        }
    }
}

/// One number for each row of `cols` elements.
fn fold_rows<T>(xs: &[T], out: &mut [T], cols: usize, f: impl Fn(&[T]) -> T) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = f(&xs[i * cols..(i + 1) * cols]);
    }
}

fn sum<T: Number>(row: &[T]) -> T {
    fold_slice(row, T::ZERO, T::plus)
}

fn max<T: Float>(row: &[T]) -> T {
    fold_slice(row, T::of(f64::NEG_INFINITY), |x, y| {
        if y.above(x) { y } else { x }
    })
}

/// `sum f(x)` over a row, in the order of [`fold_slice`].
fn sum_of<T: Float>(row: &[T], f: impl Fn(T) -> T) -> T {
    if row.len() <= CHUNK {
        let mut ys = [T::ZERO; CHUNK];
        for (y, &x) in ys.iter_mut().zip(row) {
            *y = f(x);
        }
        return sum(&ys[..row.len()]);
    }
    sum(&row.iter().map(|&x| f(x)).collect::<Vec<T>>())
}

/// `log sum exp(x)`: the greatest element is taken out, so that the exponentials neither overflow nor all vanish.
fn log_sum_exp<T: Float>(row: &[T]) -> T {
    let top = max(row);
    let top = if top.is_finite() { top } else { T::ZERO };
    top.plus(sum_of(row, |x| x.minus(top).exp()).ln())
}

/// `exp(x) / sum exp(x)`
pub(super) fn softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    map_rows(xs, out, cols, |row, out| {
        let top = max(row);
        for (y, &x) in out.iter_mut().zip(row) {
            *y = x.minus(top).exp();
        }
        let scale = sum(out);
        for y in out {
            *y = y.div(scale);
        }
    });
}

/// `x - log sum exp(x)`
pub(super) fn log_softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    map_rows(xs, out, cols, |row, out| {
        // The greatest element is taken off first: `x - top` is exact where it matters.
        let top = max(row);
        let log = sum_of(row, |x| x.minus(top).exp()).ln();
        for (y, &x) in out.iter_mut().zip(row) {
            *y = x.minus(top).minus(log);
        }
    });
}

pub(super) fn logsumexp<T: Float>(xs: &[T], out: &mut [T], cols: usize) {
    fold_rows(xs, out, cols, log_sum_exp);
}

/// The mean of a row, and `1 / sqrt(var + eps)` with the biased variance about that mean.
fn moments<T: Float>(row: &[T], eps: f64) -> (T, T) {
    let mean = sum(row).over(row.len());
    let square = |x: T| x.minus(mean).times(x.minus(mean));
    let var = sum_of(row, square).over(row.len());
    (mean, var.plus(T::of(eps)).sqrt().recip())
}

/// `(x - mean) / sqrt(var + eps)`
pub(super) fn normalize<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
    map_rows(xs, out, cols, |row, out| {
        let (mean, scale) = moments(row, eps);
        for (y, &x) in out.iter_mut().zip(row) {
            *y = x.minus(mean).times(scale);
        }
    });
}

/// `1 / sqrt(var + eps)`
pub(super) fn inv_std<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64) {
    fold_rows(xs, out, cols, |row| moments(row, eps).1);
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis.
pub(super) fn layer_norm<T: Float>(
    xs: &[T],
    [weight, bias]: [&[T]; 2],
    out: &mut [T],
    cols: usize,
    eps: f64,
) {
    map_rows(xs, out, cols, |row, out| {
        let (mean, scale) = moments(row, eps);
        let affine = weight.iter().zip(bias);
        for ((y, &x), (&w, &b)) in out.iter_mut().zip(row).zip(affine) {
            *y = x.minus(mean).times(scale).times(w).plus(b);
        }
    });
}

/// The label of a row, whatever its type.
fn label(labels: Data<'_>, row: usize) -> i64 {
    match labels {
        Data::I32(labels) => i64::from(labels[row]),
        labels => i64::slice(labels)[row],
    }
}

/// The class that is the label of a row.
fn class(labels: Data<'_>, row: usize, classes: usize) -> Result<usize, KernelFault> {
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
    let mut losses = reserve::<T>(labels.len())?;
    for i in 0..labels.len() {
        let class = class(labels, i, classes)?;
        let row = &logits[i * classes..(i + 1) * classes];
        let top = max(row);
        let log = sum_of(row, |x| x.minus(top).exp()).ln();
        losses.push(log.minus(row[class].minus(top)));
    }
    Ok(sum(&losses).over(losses.len()))
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
