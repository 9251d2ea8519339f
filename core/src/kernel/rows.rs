//! Kernels on rows: the elements along some axes taken together, as in a softmax.

use super::KernelFault;
use super::number::{Float, Number};
use super::reduce::fold_slice;
use super::source::CHUNK;
use crate::buffer::{View, reserve};
use crate::dtype::Element;
use crate::layout::numel;
use gradloom_ir::DType;

/// Calls `each` with every row, in row-major order of the other axes, and returns the shape with the axes of a row
/// last, and where each of its axes was.
fn each_row<T: Element>(
    x: &View,
    axes: &[usize],
    mut each: impl FnMut(&[T]) -> Result<(), KernelFault>,
) -> Result<(View, Vec<usize>), KernelFault> {
    let kept = (0..x.rank()).filter(|a| !axes.contains(a));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let x = x.permute(&order);
    let (outer, inner) = x.shape().split_at(x.rank() - axes.len());
    let (n, len) = (numel(outer), numel(inner));
    let straight = x.straight::<T>()?;
    let mut xs = straight.source::<T>();
    for _ in 0..n {
        each(xs.next(len))?;
    }
    Ok((x, order))
}

/// A result of the shape of `x`, row by row. Rows that do not lie along the last axes are returned as a view.
fn map_rows<T: Element>(
    x: &View,
    axes: &[usize],
    f: impl Fn(&[T], &mut [T]),
) -> Result<View, KernelFault> {
    let mut out = reserve::<T>(x.numel())?;
    let (x, order) = each_row(x, axes, |row: &[T]| {
        let at = out.len();
        out.resize(at + row.len(), T::default());
        f(row, &mut out[at..]);
        Ok(())
    })?;
    let mut back = vec![0; order.len()];
    for (i, &axis) in order.iter().enumerate() {
        back[axis] = i;
    }
    Ok(View::new(out, x.shape()).permute(&back))
}

/// A result with one number for each row.
fn fold_rows<T: Element>(
    x: &View,
    axes: &[usize],
    shape: &[usize],
    f: impl Fn(&[T]) -> T,
) -> Result<View, KernelFault> {
    let mut out = reserve::<T>(numel(shape))?;
    each_row(x, axes, |row: &[T]| {
        out.push(f(row));
        Ok(())
    })?;
    Ok(View::new(out, shape))
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
pub(super) fn softmax<T: Float>(x: &View, axis: usize) -> Result<View, KernelFault> {
    map_rows(x, &[axis], |row: &[T], out: &mut [T]| {
        let top = max(row);
        for (y, &x) in out.iter_mut().zip(row) {
            *y = x.minus(top).exp();
        }
        let scale = sum(out);
        for y in out {
            *y = y.div(scale);
        }
    })
}

/// `x - log sum exp(x)`
pub(super) fn log_softmax<T: Float>(x: &View, axis: usize) -> Result<View, KernelFault> {
    map_rows(x, &[axis], |row: &[T], out: &mut [T]| {
        // The greatest element is taken off first: `x - top` is exact where it matters.
        let top = max(row);
        let log = sum_of(row, |x| x.minus(top).exp()).ln();
        for (y, &x) in out.iter_mut().zip(row) {
            *y = x.minus(top).minus(log);
        }
    })
}

pub(super) fn logsumexp<T: Float>(
    x: &View,
    axes: &[usize],
    shape: &[usize],
) -> Result<View, KernelFault> {
    fold_rows(x, axes, shape, log_sum_exp::<T>)
}

/// The mean of a row, and `1 / sqrt(var + eps)` with the biased variance about that mean.
fn moments<T: Float>(row: &[T], eps: f64) -> (T, T) {
    let mean = sum(row).over(row.len());
    let square = |x: T| x.minus(mean).times(x.minus(mean));
    let var = sum_of(row, square).over(row.len());
    (mean, var.plus(T::of(eps)).sqrt().recip())
}

/// `(x - mean) / sqrt(var + eps)`
pub(super) fn normalize<T: Float>(x: &View, axes: &[usize], eps: f64) -> Result<View, KernelFault> {
    map_rows(x, axes, |row: &[T], out: &mut [T]| {
        let (mean, scale) = moments(row, eps);
        for (y, &x) in out.iter_mut().zip(row) {
            *y = x.minus(mean).times(scale);
        }
    })
}

/// `1 / sqrt(var + eps)`
pub(super) fn inv_std<T: Float>(
    x: &View,
    axes: &[usize],
    shape: &[usize],
    eps: f64,
) -> Result<View, KernelFault> {
    fold_rows(x, axes, shape, |row: &[T]| moments(row, eps).1)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis.
pub(super) fn layer_norm<T: Float>(
    x: &View,
    weight: &View,
    bias: &View,
    eps: f64,
) -> Result<View, KernelFault> {
    let last = x.rank() - 1;
    let row_shape = &x.shape()[last..];
    let weight = weight.broadcast_to(row_shape).to_vec::<T>()?;
    let bias = bias.broadcast_to(row_shape).to_vec::<T>()?;
    map_rows(x, &[last], |row: &[T], out: &mut [T]| {
        let (mean, scale) = moments(row, eps);
        let affine = weight.iter().zip(&bias);
        for ((y, &x), (&w, &b)) in out.iter_mut().zip(row).zip(affine) {
            *y = x.minus(mean).times(scale).times(w).plus(b);
        }
    })
}

fn labels(labels: &View) -> Result<Vec<i64>, KernelFault> {
    Ok(match labels.dtype() {
        DType::I32 => labels.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
        _ => labels.to_vec::<i64>()?,
    })
}

/// The mean over all rows of `-log_softmax(logits)[label]`.
pub(super) fn cross_entropy<T: Float>(logits: &View, targets: &View) -> Result<View, KernelFault> {
    let last = logits.rank() - 1;
    let classes = logits.shape()[last];
    let labels = labels(targets)?;
    let mut losses = reserve::<T>(labels.len())?;
    each_row(logits, &[last], |row: &[T]| {
        let label = labels[losses.len()];
        let class = usize::try_from(label).ok().filter(|c| *c < classes);
        let class = class.ok_or(KernelFault::Label {
            label,
            classes,
            row: losses.len(),
        })?;
        let top = max(row);
        let log = sum_of(row, |x| x.minus(top).exp()).ln();
        losses.push(log.minus(row[class].minus(top)));
        Ok(())
    })?;
    Ok(View::new(vec![sum(&losses).over(losses.len())], &[]))
}

/// Finds the first label that is none of `classes`.
pub(super) fn check_labels(targets: &View, classes: usize) -> Result<(), KernelFault> {
    let labels = labels(targets)?;
    let is_class = |label: i64| usize::try_from(label).is_ok_and(|c| c < classes);
    match labels.iter().position(|label| !is_class(*label)) {
        None => Ok(()),
        Some(row) => Err(KernelFault::Label {
            label: labels[row],
            classes,
            row,
        }),
    }
}

/// 1 at the label along a last axis of `classes`, 0 elsewhere. A label out of range has a row of zeros.
pub(super) fn one_hot<T: Element>(
    targets: &View,
    one: T,
    shape: &[usize],
) -> Result<View, KernelFault> {
    let classes = shape[shape.len() - 1];
    let mut out = reserve::<T>(numel(shape))?;
    for label in labels(targets)? {
        let at = out.len();
        out.resize(at + classes, T::default());
        if let Some(x) = usize::try_from(label)
            .ok()
            .and_then(|c| out[at..].get_mut(c))
        {
            *x = one;
        }
    }
    Ok(View::new(out, shape))
}
