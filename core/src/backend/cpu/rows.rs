//! Lowering of kernels on rows and columns, along any axes.

use super::Equation;
use super::axes::neighbours;
use super::statics::{flag, int};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::{Op, StaticKind};
use gradloom_kernels::memory::numel;
use gradloom_kernels::rows::norm::{self, Norm};
use gradloom_kernels::rows::row_kernel::RowKernel;
use gradloom_kernels::rows::{self, Along, Root, Rows};
use gradloom_kernels::task::Prepared;

/// Minimum number of rows of a kernel that may run on some of them at a time.
///
/// With fewer rows, threads share them.
const MIN_ROWS: usize = 8;

/// What a kernel reads of an operand for a row of its result.
#[derive(Clone, Copy)]
pub(super) enum Read {
    Row,
    All,
}

/// Adds a kernel that computes each of `n_rows` rows from that row of some operands, and as many rows as it gets.
///
/// `adapt` may add to what is known of the kernel.
pub(super) fn each_row<const N: usize>(
    b: &mut TaskBuilder,
    out: &Aval,
    n_rows: usize,
    args: [(&View, Read); N],
    kernel: Prepared,
    adapt: impl FnOnce(RowKernel) -> RowKernel,
) -> View {
    let views = args.map(|(x, _)| x);
    if n_rows < MIN_ROWS {
        return b.kernel(&views, out, kernel);
    }
    let row = |shape: &[usize]| numel(shape) / n_rows;
    let of_args = args.map(|(x, read)| matches!(read, Read::Row).then(|| row(x.shape())));
    let kernel = adapt(RowKernel::independent(
        n_rows,
        of_args,
        row(out.shape()),
        kernel,
    ));
    b.by_row(&views, std::slice::from_ref(out), kernel)
        .remove(0)
}

/// Returns the order of axes in which `axes` are last.
pub(super) fn last(rank: usize, axes: &[usize]) -> Vec<usize> {
    let kept = (0..rank).filter(|a| !axes.contains(a));
    kept.chain(axes.iter().copied()).collect()
}

/// Returns the inverse permutation of `order`.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    for (i, &axis) in order.iter().enumerate() {
        back[axis] = i;
    }
    back
}

/// Returns the sizes of rows of `cols` elements.
fn rows_of(x: &View, cols: usize) -> Rows {
    Rows {
        dtype: x.dtype(),
        n_rows: numel(x.shape()).checked_div(cols).unwrap_or(0),
        cols,
    }
}

/// Number of columns from which a kernel reads columns: the rows of fewer columns are copied.
const COLUMNS: usize = 16;

/// Returns the sizes of a kernel along `axes`, if it needs no copy with `axes` last.
fn in_place(shape: &[usize], axes: &[usize]) -> Option<[usize; 4]> {
    let arbc = match neighbours(shape, axes)[..] {
        [(r, true), (b, false)] => [1, r, b, 1],
        [(a, false), (r, true), (b, false)] => [a, r, b, 1],
        [(r, true), (b, false), (c, true)] => [1, r, b, c],
        [(a, false), (r, true), (b, false), (c, true)] => [a, r, b, c],
        _ => return None,
    };
    (numel(shape) > 0 && arbc[2] * arbc[3] >= COLUMNS).then_some(arbc)
}

/// Prepares the operands of a kernel along `axes`, which it moves last if the kernel cannot read columns.
///
/// Returns them with the sizes of the kernel and the order of the axes.
fn along<const N: usize>(
    b: &mut TaskBuilder,
    args: [&View; N],
    axes: &[usize],
) -> ([View; N], Along, Vec<usize>) {
    let (dtype, shape) = (args[0].dtype(), args[0].shape());
    let (arbc, order) = match in_place(shape, axes) {
        Some(arbc) => (arbc, (0..shape.len()).collect()),
        None => {
            let cols = axes.iter().map(|&a| shape[a]).product();
            let n_rows = numel(shape).checked_div(cols).unwrap_or(0);
            ([n_rows, 1, 1, cols], last(shape.len(), axes))
        }
    };
    let args = args.map(|x| b.contiguous(&x.permute(&order)));
    (args, Along { dtype, arbc }, order)
}

/// Maps the elements of the operands along `axes` to those of the result.
fn map_along<const N: usize>(
    b: &mut TaskBuilder,
    args: [&View; N],
    axes: &[usize],
    kernel: impl Fn(Along) -> RowKernel,
) -> View {
    let (args, sizes, order) = along(b, args, axes);
    let out = Aval::new(args[0].dtype(), args[0].shape());
    let mut made = b.by_row(&args.each_ref(), &[out], kernel(sizes));
    made.remove(0).permute(&inverse(&order))
}

/// Maps the elements along `axes` to one number.
fn fold_along(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    kernel: impl Fn(Along) -> RowKernel,
) -> View {
    let ([x], sizes, _) = along(b, [x], axes);
    b.by_row(&[&x], std::slice::from_ref(out), kernel(sizes))
        .remove(0)
}

/// Maps the rows of the first operand along the last axis. Each other operand is a single row.
fn affine(b: &mut TaskBuilder, args: &[View], kernel: impl Fn(Rows) -> RowKernel) -> View {
    let x = b.contiguous(&args[0]);
    let cols = x.shape()[x.rank() - 1];
    let mut places = vec![x];
    for arg in &args[1..] {
        places.push(b.contiguous(&arg.broadcast_to(&[cols])));
    }
    let out = Aval::new(places[0].dtype(), places[0].shape());
    let kernel = kernel(rows_of(&places[0], cols));
    let places: Vec<&View> = places.iter().collect();
    b.by_row(&places, &[out], kernel).remove(0)
}

pub(super) fn softmax(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(b, [of.x()], &[of.axis(of.x().rank())], rows::softmax)
}

pub(super) fn softmax_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(
        b,
        [of.x(), of.y()],
        &[of.axis(of.x().rank())],
        rows::softmax_t,
    )
}

pub(super) fn log_softmax(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(b, [of.x()], &[of.axis(of.x().rank())], rows::log_softmax)
}

pub(super) fn log_softmax_jvp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(
        b,
        [of.x(), of.y()],
        &[of.axis(of.x().rank())],
        rows::log_softmax_jvp,
    )
}

pub(super) fn log_softmax_vjp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(
        b,
        [of.x(), of.y()],
        &[of.axis(of.x().rank())],
        rows::log_softmax_vjp,
    )
}

pub(super) fn logsumexp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    fold_along(b, of.x(), &of.axes(), of.out(), rows::logsumexp)
}

pub(super) fn normalize(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(b, [of.x()], &of.axes(), |x| rows::normalize(x, of.eps()))
}

pub(super) fn normalize_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    map_along(
        b,
        [of.x(), of.y(), &of.args[2]],
        &of.axes(),
        rows::normalize_t,
    )
}

pub(super) fn inv_std(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    fold_along(b, of.x(), &of.axes(), of.out(), |x| {
        rows::inv_std(x, of.eps())
    })
}

/// Lowers `var` and `stddev`.
fn variance(b: &mut TaskBuilder, of: &Equation<'_>, root: Root) -> View {
    let correction = i128::from(int(of.value(StaticKind::Offset)));
    fold_along(b, of.x(), &of.axes(), of.out(), |x| {
        let divisor = (x.reduced() as i128 - correction).max(0);
        rows::variance(x, divisor as usize, root)
    })
}

pub(super) fn var(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    variance(b, of, Root::None)
}

pub(super) fn stddev(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    variance(b, of, Root::Square)
}

pub(super) fn layer_norm(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    affine(b, of.args, |x| rows::layer_norm(x, of.eps()))
}

pub(super) fn rms_norm(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    affine(b, of.args, |x| rows::rms_norm(x, of.eps()))
}

/// Prepares logits and labels, and returns the rows of the logits.
fn classified(b: &mut TaskBuilder, args: &[View]) -> (View, View, Rows) {
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let rows = Rows {
        dtype: logits.dtype(),
        n_rows: numel(labels.shape()),
        cols: logits.shape()[logits.rank() - 1],
    };
    (logits, labels, rows)
}

/// Lowers `cross_entropy`. If the plan needs `cross_entropy_grad` of the same operands, computes it
/// as a by-product.
pub(super) fn cross_entropy(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let args = of.args;
    let (logits, labels, rows) = classified(b, args);
    // The mean loss, the loss of each row, and the derivative.
    let mut avals = vec![
        Aval::new(rows.dtype, []),
        Aval::new(rows.dtype, [rows.n_rows]),
    ];
    let both = b.wants_byproduct(Op::CrossEntropyGrad);
    if both {
        avals.push(Aval::new(rows.dtype, logits.shape()));
    }
    let kernel = rows::cross_entropy(rows, both);
    let mut made = b.by_row(&[&logits, &labels], &avals, kernel);
    if both && let Some(gradient) = made.pop() {
        b.offer_byproduct(Op::CrossEntropyGrad, &[], args, &gradient);
    }
    made.remove(0)
}

/// The result has one row per row of logits.
pub(super) fn cross_entropy_grad(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let args = of.args;
    if let Some(made) = b.byproduct(Op::CrossEntropyGrad, &[], args) {
        return made;
    }
    let (logits, labels, rows) = classified(b, args);
    let out = Aval::new(rows.dtype, logits.shape());
    let kernel = rows::cross_entropy_grad(rows);
    b.by_row(&[&logits, &labels], &[out], kernel).remove(0)
}

pub(super) fn one_hot(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let out = of.out();
    let classes = out.shape()[out.shape().len() - 1];
    let labels = b.contiguous(of.x());
    let checked = flag(&of.statics[2]);
    b.kernel(
        &[&labels],
        out,
        rows::one_hot(out.dtype(), classes, checked),
    )
}

/// Returns the operands of a derivative of a norm, and the rows of `x`, the first one.
fn norm_operands(b: &mut TaskBuilder, args: &[View]) -> (Vec<View>, Rows) {
    let places: Vec<View> = args.iter().map(|x| b.contiguous(x)).collect();
    let rows = rows_of(&places[0], places[1].shape()[0]);
    (places, rows)
}

fn norm_of(of: &Equation<'_>) -> Norm {
    Norm {
        centred: of.flag(),
        eps: of.eps(),
    }
}

/// Lowers `norm_jvp`: the tangent of the result, from the active tangents of `x`, weight and bias.
pub(super) fn norm_jvp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (places, rows) = norm_operands(b, of.args);
    let kernel = norm::norm_jvp(rows, norm_of(of), of.active());
    let places: Vec<&View> = places.iter().collect();
    b.by_row(&places, of.outs, kernel).remove(0)
}

/// Lowers `norm_vjp`: the active cotangents of `x`, weight and bias, from that of the result.
pub(super) fn norm_vjp(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let (places, rows) = norm_operands(b, of.args);
    let mut avals = of.outs.to_vec();
    if let Some(len) = norm::norm_vjp_scratch(rows, of.active()) {
        avals.push(Aval::new(rows.dtype, [len]));
    }
    let kernel = norm::norm_vjp(rows, norm_of(of), of.active());
    let places: Vec<&View> = places.iter().collect();
    let mut made = b.kernels(&places, &avals, kernel);
    made.truncate(of.outs.len());
    made
}
