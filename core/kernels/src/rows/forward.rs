//! Kernels on rows: softmax, losses and norms.
//!
//! A row is read from memory once, and several times while it is in the L1 cache.

use crate::memory::data::Data;
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::movement::write_parts;
use crate::reduce::row_totals;
use crate::simd::lanes::{
    CHUNK, Identity, Map, Pairwise, Prefetch, exp, greatest, map_and_ask, map_sum, sums,
};
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::simd::vector::{Floats, Simd, Vector, copy_streamed, fence, non_temporal};
use crate::threads::{for_each_chunk, for_each_chunks};

/// Number of bytes of a result that one thread computes at a time.
const TASK_BYTES: usize = 1 << 17;

/// Mode in which a kernel reads and writes rows.
#[derive(Clone, Copy)]
pub(crate) struct RowMode {
    /// True if it uses [non-temporal stores](non_temporal).
    pub(crate) non_temporal: bool,
    /// True if its writes must be visible when it ends, without a later [`fence`].
    pub(crate) fence: bool,
    /// Prefetch distance in elements from the first operand, or `None` to prefetch its next row.
    pub(crate) prefetch: Option<usize>,
    /// Distance from the first operand to a second address to prefetch, used where the result is
    /// written.
    pub(crate) prefetch_also: Option<usize>,
}

impl RowMode {
    /// Returns the mode of a kernel that computes all rows.
    pub(crate) fn alone(non_temporal: bool) -> RowMode {
        RowMode {
            non_temporal,
            fence: true,
            prefetch: None,
            prefetch_also: None,
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch<T>(self, row: &[T]) -> Prefetch {
        self.prefetch.map_or(Prefetch::next(row), Prefetch)
    }

    /// Writes `f` of the slices `xs`. The second prefetch address is relative to `row`, a row of
    /// the first operand.
    #[inline(always)]
    pub(crate) fn map<V: Vector, const K: usize>(
        self,
        row: &[V::T],
        xs: [&[V::T]; K],
        out: &mut [V::T],
        f: impl Map<V, K, 1>,
    ) {
        let next = self
            .prefetch_also
            .map_or(std::ptr::null(), |prefetch_also| {
                row.as_ptr().wrapping_add(prefetch_also)
            });
        map_and_ask(xs, out, self.non_temporal, next, f);
    }

    /// Ends the writes of the kernel.
    #[inline(always)]
    pub(crate) fn end(self) {
        if self.non_temporal && self.fence {
            fence();
        }
    }
}

/// Calls `f` on some rows at a time, with the index of the first row and their results.
///
/// Large work is shared among threads. A row has `cols` elements, of which each takes `nanos`, and
/// `width` elements in the result.
pub(crate) fn split_rows<T: Float>(
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

/// Returns the number of rows of `cols` elements that one thread computes at a time.
fn rows_of_a_task<T>(cols: usize) -> usize {
    (TASK_BYTES / size_of::<T>() / cols.max(1)).max(1)
}

/// Returns the estimated time of rows of `cols` elements, if an `f32` takes `nanos`.
fn nanos_of<T>(n_rows: usize, cols: usize, nanos: f64) -> usize {
    let elements = n_rows.saturating_mul(cols.max(1));
    (elements as f64 * nanos * size_of::<T>() as f64 / 4.0) as usize
}

/// Writes each row of `cols` elements.
fn map_rows<T: Float>(
    xs: &[T],
    out: &mut [T],
    cols: usize,
    nanos: f64,
    f: impl Fn(&[T], &mut [T]) + Sync,
) {
    split_rows(out, cols, cols, nanos, |row, out| {
        f(&xs[row * cols..][..out.len()], out);
    });
}

/// Writes one number for each row of `cols` elements.
fn fold_rows<T: Float>(
    xs: &[T],
    out: &mut [T],
    cols: usize,
    nanos: f64,
    f: impl Fn(&[T], &mut [T]) + Sync,
) {
    split_rows(out, 1, cols, nanos, |row, out| {
        f(&xs[row * cols..][..out.len() * cols], out);
    });
}

leveled! {
    /// Copies elements with non-temporal stores and prefetches as many from `next` on.
    pub(crate) fn copy_non_temporal<S, T: Float>(xs: &[T], out: &mut [T], next: *const T) {
        map_and_ask::<T::Floats<S>, 1>([xs], out, true, next, Identity);
    }
}

/// `exp(x - top)`
#[derive(Clone, Copy)]
pub(crate) struct Exp<V>(pub(crate) V);

impl<V: Floats> Map<V, 1, 1> for Exp<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [exp(x.minus(self.0))]
    }
}

/// `(x - mean)^2`
#[derive(Clone, Copy)]
pub(crate) struct Square<V>(pub(crate) V);

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
pub(crate) struct Minus<V>(pub(crate) [V; 2]);

impl<V: Floats> Map<V, 1, 1> for Minus<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [x.minus(self.0[0]).minus(self.0[1])]
    }
}

/// `(x - mean) scale`
#[derive(Clone, Copy)]
pub(crate) struct Normalization<V> {
    pub(crate) mean: V,
    pub(crate) scale: V,
}

impl<V: Floats> Map<V, 1, 1> for Normalization<V> {
    #[inline(always)]
    fn of(self, [x]: [V; 1]) -> [V; 1] {
        [x.minus(self.mean).times(self.scale)]
    }
}

/// `(x - mean) scale w + b`
impl<V: Floats> Map<V, 3, 1> for Normalization<V> {
    #[inline(always)]
    fn of(self, [x, w, b]: [V; 3]) -> [V; 1] {
        let [x] = self.of([x]);
        [x.fma(w, b)]
    }
}

/// Returns `log sum exp(x - top)`, where `top` is the greatest element.
#[inline(always)]
fn log_sum_exp<S: Simd, T: Float>(row: &[T], top: T, mode: RowMode) -> T {
    let exp = Exp(T::Floats::<S>::splat(top));
    let [total] = sums::<T::Floats<S>, 1, 1>([row], mode.prefetch(row), exp);
    total.log::<S>()
}

/// Number of elements that fit in the L1 cache beside the other data of a row.
const NEAR: usize = 2048;

/// `exp(x) / sum exp(x)`
pub(crate) fn softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize, mode: RowMode) {
    map_rows(xs, out, cols, 0.25, |xs, out| {
        softmax_rows(xs, out, cols, mode)
    });
}

leveled! {
    fn softmax_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize, mode: RowMode) {
        let mut near = [T::ZERO; NEAR];
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let exp = Exp(T::Floats::<S>::splat(greatest::<T::Floats<S>>(row)));
            let prefetch = mode.prefetch(row);
            // The sum is at least 1, so its reciprocal is finite.
            if let Some(near) = near.get_mut(..cols) {
                let scale = map_sum::<T::Floats<S>>(row, near, prefetch, exp).recip();
                let scale = Scale(T::Floats::<S>::splat(scale));
                mode.map::<T::Floats<S>, 1>(row, [near], out, scale);
            } else {
                let scale = map_sum::<T::Floats<S>>(row, out, prefetch, exp).recip();
                for y in out {
                    *y = y.times(scale);
                }
            }
        }
        mode.end();
    }
}

/// `x - log sum exp(x)`
pub(crate) fn log_softmax<T: Float>(xs: &[T], out: &mut [T], cols: usize, mode: RowMode) {
    map_rows(xs, out, cols, 0.25, |xs, out| {
        log_softmax_rows(xs, out, cols, mode)
    });
}

leveled! {
    fn log_softmax_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize, mode: RowMode) {
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            // The maximum is subtracted first: `x - top` is exact for the terms that matter.
            let top = greatest::<T::Floats<S>>(row);
            let minus = [top, log_sum_exp::<S, T>(row, top, mode)];
            let minus = Minus(minus.map(T::Floats::<S>::splat));
            mode.map::<T::Floats<S>, 1>(row, [row], out, minus);
        }
        mode.end();
    }
}

/// `log sum exp(x)`
pub(crate) fn logsumexp<T: Float>(xs: &[T], out: &mut [T], cols: usize, mode: RowMode) {
    fold_rows(xs, out, cols, 0.25, |xs, out| {
        logsumexp_rows(xs, out, cols, mode)
    });
}

leveled! {
    fn logsumexp_rows<S, T: Float>(xs: &[T], out: &mut [T], cols: usize, mode: RowMode) {
        for (i, y) in out.iter_mut().enumerate() {
            let row = &xs[i * cols..][..cols];
            // The maximum is factored out, so that the exponentials neither overflow nor all
            // underflow.
            let top = greatest::<T::Floats<S>>(row);
            *y = match top.is_finite() {
                true => top.plus(log_sum_exp::<S, T>(row, top, mode)),
                // Infinite or NaN, in any order of summation.
                false => row.iter().fold(T::ZERO, |sum, x| sum.plus(x.exp::<S>())).log::<S>(),
            };
        }
    }
}

/// Returns the mean of a row and `1 / sqrt(var + eps)`, with the biased variance.
#[inline(always)]
pub(crate) fn moments<S: Simd, T: Float>(row: &[T], eps: f64, mode: RowMode) -> (T, T) {
    let [total] = sums::<T::Floats<S>, 1, 1>([row], Prefetch(0), Identity);
    let mean = total.over(row.len());
    let square = Square(T::Floats::<S>::splat(mean));
    let [total] = sums::<T::Floats<S>, 1, 1>([row], mode.prefetch(row), square);
    let var = total.over(row.len());
    (mean, var.plus(T::of(eps)).sqrt().recip())
}

/// `sum((x - mean)^2) / divisor`, or its square root.
pub(crate) fn variance<T: Float>(
    xs: &[T],
    out: &mut [T],
    cols: usize,
    divisor: usize,
    root: Root,
    mode: RowMode,
) {
    let variance = |xs: &[T], out: &mut [T]| variance_rows(xs, out, cols, divisor, root, mode);
    fold_rows(xs, out, cols, 0.06, variance);
}

leveled! {
    fn variance_rows<S, T: Float>(
        xs: &[T],
        out: &mut [T],
        cols: usize,
        divisor: usize,
        root: Root,
        mode: RowMode,
    ) {
        for (i, y) in out.iter_mut().enumerate() {
            let row = &xs[i * cols..][..cols];
            let [total] = sums::<T::Floats<S>, 1, 1>([row], Prefetch(0), Identity);
            let square = Square(T::Floats::<S>::splat(total.over(cols)));
            let [total] = sums::<T::Floats<S>, 1, 1>([row], mode.prefetch(row), square);
            let var = total.over(divisor);
            *y = match root {
                Root::None => var,
                Root::Square => var.sqrt(),
            };
        }
    }
}

/// Root that is taken of a variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The variance itself.
    None,
    /// The standard deviation.
    Square,
}

/// Returns `1 / sqrt(mean(x^2) + eps)`.
#[inline(always)]
pub(crate) fn inv_rms<S: Simd, T: Float>(row: &[T], eps: f64, mode: RowMode) -> T {
    let square = Square(T::Floats::<S>::splat(T::ZERO));
    let [total] = sums::<T::Floats<S>, 1, 1>([row], mode.prefetch(row), square);
    total.over(row.len()).plus(T::of(eps)).sqrt().recip()
}

/// Returns [`moments`] as vectors.
#[inline(always)]
fn normal<S: Simd, T: Float>(row: &[T], eps: f64, mode: RowMode) -> Normalization<T::Floats<S>> {
    let (mean, scale) = moments::<S, T>(row, eps, mode);
    Normalization {
        mean: T::Floats::<S>::splat(mean),
        scale: T::Floats::<S>::splat(scale),
    }
}

/// `(x - mean) / sqrt(var + eps)`
pub(crate) fn normalize<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64, mode: RowMode) {
    map_rows(xs, out, cols, 0.12, |xs, out| {
        normalize_rows(xs, out, cols, eps, mode);
    });
}

leveled! {
    fn normalize_rows<S, T: Float>(
        xs: &[T],
        out: &mut [T],
        cols: usize,
        eps: f64,
        mode: RowMode,
    ) {
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            mode.map::<T::Floats<S>, 1>(row, [row], out, normal::<S, T>(row, eps, mode));
        }
        mode.end();
    }
}

/// `1 / sqrt(var + eps)`
pub(crate) fn inv_std<T: Float>(xs: &[T], out: &mut [T], cols: usize, eps: f64, mode: RowMode) {
    let inv_std = |xs: &[T], out: &mut [T]| inv_std_rows(xs, out, cols, eps, mode);
    fold_rows(xs, out, cols, 0.06, inv_std);
}

leveled! {
    fn inv_std_rows<S, T: Float>(
        xs: &[T],
        out: &mut [T],
        cols: usize,
        eps: f64,
        mode: RowMode,
    ) {
        for (i, y) in out.iter_mut().enumerate() {
            *y = moments::<S, T>(&xs[i * cols..][..cols], eps, mode).1;
        }
    }
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis.
pub(crate) fn layer_norm<T: Float>(
    xs: &[T],
    affine: [&[T]; 2],
    out: &mut [T],
    eps: f64,
    mode: RowMode,
) {
    map_rows(xs, out, affine[0].len(), 0.13, |xs, out| {
        layer_norm_rows(xs, affine, out, eps, mode);
    });
}

leveled! {
    fn layer_norm_rows<S, T: Float>(
        xs: &[T],
        affine: [&[T]; 2],
        out: &mut [T],
        eps: f64,
        mode: RowMode,
    ) {
        let [weight, bias] = affine;
        let cols = weight.len();
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let normal = normal::<S, T>(row, eps, mode);
            mode.map::<T::Floats<S>, 3>(row, [row, weight, bias], out, normal);
        }
        mode.end();
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis.
pub(crate) fn rms_norm<T: Float>(xs: &[T], weight: &[T], out: &mut [T], eps: f64, mode: RowMode) {
    map_rows(xs, out, weight.len(), 0.12, |xs, out| {
        rms_norm_rows(xs, weight, out, eps, mode);
    });
}

leveled! {
    fn rms_norm_rows<S, T: Float>(
        xs: &[T],
        weight: &[T],
        out: &mut [T],
        eps: f64,
        mode: RowMode,
    ) {
        let cols = weight.len();
        for (row, out) in xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let scale = T::Floats::<S>::splat(inv_rms::<S, T>(row, eps, mode));
            mode.map::<T::Floats<S>, 2>(row, [row, weight], out, Scale(scale));
        }
        mode.end();
    }
}

/// Returns the label of a row, whatever its dtype.
fn label(labels: Data<'_>, row: usize) -> i64 {
    match labels {
        Data::I32(labels) => i64::from(labels[row]),
        labels => i64::slice(labels)[row],
    }
}

/// Returns the label of a row as a class index, or a fault.
pub(crate) fn class(labels: Data<'_>, row: usize, classes: usize) -> Result<usize, KernelFault> {
    let label = label(labels, row);
    let class = usize::try_from(label).ok().filter(|c| *c < classes);
    class.ok_or(KernelFault::Label {
        label,
        classes,
        row,
    })
}

/// Writes the loss of each row, `-log_softmax(logits)[label]`.
///
/// If `gradient` is not empty, also writes the gradient, as [`cross_entropy_grad`]. The labels must
/// be valid classes.
pub(crate) fn losses<T: Float>(
    logits: &[T],
    labels: Data<'_>,
    losses: &mut [T],
    gradient: &mut [T],
    classes: usize,
    mode: RowMode,
) {
    let rows = rows_of_a_task::<T>(classes);
    let n_tasks = losses.len().div_ceil(rows);
    let nanos = nanos_of::<T>(losses.len(), classes, 0.25);
    let outs = [(losses, rows), (gradient, rows * classes)];
    for_each_chunks(n_tasks, outs, nanos, |i, [losses, gradient]| {
        let first = i * rows;
        let logits = &logits[first * classes..][..losses.len() * classes];
        match gradient.is_empty() {
            true => cross_entropy_rows(logits, labels, first, losses, mode),
            false => cross_entropy_and_rows(logits, labels, first, losses, gradient, mode),
        }
    });
}

/// Returns the mean of the losses of rows.
pub(crate) fn mean_loss<T: Float>(losses: &[T]) -> T {
    let mut tree = Pairwise::new(T::ZERO);
    for losses in losses.chunks(CHUNK) {
        let mut total = [T::ZERO];
        row_totals(losses, losses.len(), &mut total);
        tree.push(total[0], T::plus);
    }
    let total = tree.finish(T::plus).unwrap_or(T::ZERO);
    total.over(losses.len())
}

leveled! {
    /// Writes the losses of rows. `first` is the index of the first row. The labels must be valid
    /// classes.
    fn cross_entropy_rows<S, T: Float>(
        logits: &[T],
        labels: Data<'_>,
        first: usize,
        losses: &mut [T],
        mode: RowMode,
    ) {
        let classes = logits.len() / losses.len().max(1);
        for (i, (row, loss)) in logits.chunks_exact(classes).zip(losses).enumerate() {
            let top = greatest::<T::Floats<S>>(row);
            let log = log_sum_exp::<S, T>(row, top, mode);
            *loss = log.minus(row[label(labels, first + i) as usize].minus(top));
        }
    }
}

leveled! {
    /// As [`cross_entropy_rows`]; also writes the softmax of each row, less 1 at its label.
    fn cross_entropy_and_rows<S, T: Float>(
        logits: &[T],
        labels: Data<'_>,
        first: usize,
        losses: &mut [T],
        gradient: &mut [T],
        mode: RowMode,
    ) {
        let classes = logits.len() / losses.len().max(1);
        let rows = logits.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes));
        for (i, ((row, out), loss)) in rows.zip(losses).enumerate() {
            let top = greatest::<T::Floats<S>>(row);
            let exp = Exp(T::Floats::<S>::splat(top));
            let total = map_sum::<T::Floats<S>>(row, out, mode.prefetch(row), exp);
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

/// Writes `softmax(logits)`, less 1 at the label of each row. The labels must be valid classes.
pub(crate) fn cross_entropy_grad<T: Float>(
    logits: &[T],
    labels: Data<'_>,
    out: &mut [T],
    classes: usize,
    mode: RowMode,
) {
    split_rows(out, classes, classes, 0.2, |first, out| {
        softmax_rows(&logits[first * classes..][..out.len()], out, classes, mode);
        for (i, row) in out.chunks_exact_mut(classes).enumerate() {
            let y = &mut row[label(labels, first + i) as usize];
            *y = y.minus(T::ONE);
        }
    });
}

/// Checks that all labels are valid classes.
pub(crate) fn check_labels(labels: Data<'_>, classes: usize) -> Result<(), KernelFault> {
    (0..labels.len()).try_for_each(|row| class(labels, row, classes).map(|_| ()))
}

/// Writes 1 at the label along a last axis of `classes`, and 0 elsewhere. A row whose label is not a
/// class is 0.
pub(crate) fn one_hot<T: Element>(labels: Data<'_>, out: &mut [T], classes: usize, one: T) {
    if out.is_empty() {
        return;
    }
    let some = ONE_HOT_ROWS * classes;
    let streamed = non_temporal(size_of_val(out)) && some * size_of::<T>() <= ONE_HOT_BYTES;
    write_parts(out, classes, |at, out| {
        let mark = |first: usize, rows: &mut [T], x: T| {
            let first = at / classes + first;
            let rows = rows.chunks_exact_mut(classes);
            match labels {
                Data::I32(labels) => mark_classes(&labels[first..], rows, x),
                labels => mark_classes(&i64::slice(labels)[first..], rows, x),
            }
        };
        if !streamed {
            out.fill(T::default());
            return mark(0, out, one);
        }
        // A few rows are made in the first cache, and are zeros again after they are copied.
        let mut made = vec![T::default(); some];
        for (i, out) in out.chunks_mut(made.len()).enumerate() {
            let (made, first) = (&mut made[..out.len()], i * ONE_HOT_ROWS);
            mark(first, made, one);
            copy_streamed(made, out);
            mark(first, made, T::default());
        }
        fence();
    });
}

/// Writes `x` at the label of each row that is a class.
fn mark_classes<'a, T: Element, L: Copy + TryInto<usize>>(
    labels: &[L],
    rows: impl Iterator<Item = &'a mut [T]>,
    x: T,
) {
    for (label, row) in labels.iter().zip(rows) {
        let class = (*label).try_into().unwrap_or(usize::MAX);
        if let Some(y) = row.get_mut(class) {
            *y = x;
        }
    }
}

/// Most bytes of the rows that are copied together, so that they stay in the first cache.
const ONE_HOT_BYTES: usize = 1 << 14;

/// Number of rows that are copied together. Their bytes are a multiple of a vector.
const ONE_HOT_ROWS: usize = 16;
