//! Lowering of kernels on rows, along any axes.

use super::statics::{active, flag, float};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::{Op, Static};
use gradloom_kernels::memory::numel;
use gradloom_kernels::rows::norm::{self, Norm};
use gradloom_kernels::rows::row_kernel::RowKernel;
use gradloom_kernels::rows::{self, Rows};

/// Moves `axes` last and makes the operand contiguous.
///
/// Returns it with the number of elements along `axes` and the order of the axes.
fn along(b: &mut TaskBuilder, x: &View, axes: &[usize]) -> (View, usize, Vec<usize>) {
    let kept = (0..x.rank()).filter(|a| !axes.contains(a));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let cols = axes.iter().map(|&a| x.shape()[a]).product();
    (b.contiguous(&x.permute(&order)), cols, order)
}

/// Returns the inverse permutation of `order`.
fn inverse(order: &[usize]) -> Vec<usize> {
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

/// Maps the rows of the operands along `axes` to rows of the result.
pub(super) fn map_rows<const N: usize>(
    b: &mut TaskBuilder,
    args: [&View; N],
    axes: &[usize],
    kernel: impl Fn(Rows) -> RowKernel,
) -> View {
    let (_, cols, order) = along(b, args[0], axes);
    let args = args.map(|x| along(b, x, axes).0);
    let out = Aval::new(args[0].dtype(), args[0].shape());
    let kernel = kernel(rows_of(&args[0], cols));
    let args: Vec<&View> = args.iter().collect();
    let mut made = b.by_row(&args, &[out], kernel);
    made.remove(0).permute(&inverse(&order))
}

/// Maps each row along `axes` to one number.
pub(super) fn fold_rows(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    kernel: impl Fn(Rows) -> RowKernel,
) -> View {
    let (from, cols, _) = along(b, x, axes);
    let kernel = kernel(rows_of(&from, cols));
    b.by_row(&[&from], std::slice::from_ref(out), kernel)
        .remove(0)
}

/// Maps the rows of the first operand along the last axis. Each other operand is a single row.
pub(super) fn affine(
    b: &mut TaskBuilder,
    args: &[View],
    kernel: impl Fn(Rows) -> RowKernel,
) -> View {
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
pub(super) fn cross_entropy(b: &mut TaskBuilder, args: &[View]) -> View {
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
pub(super) fn cross_entropy_grad(b: &mut TaskBuilder, args: &[View]) -> View {
    if let Some(made) = b.byproduct(Op::CrossEntropyGrad, &[], args) {
        return made;
    }
    let (logits, labels, rows) = classified(b, args);
    let out = Aval::new(rows.dtype, logits.shape());
    let kernel = rows::cross_entropy_grad(rows);
    b.by_row(&[&logits, &labels], &[out], kernel).remove(0)
}

pub(super) fn one_hot(b: &mut TaskBuilder, labels: &View, out: &Aval) -> View {
    let classes = out.shape()[out.shape().len() - 1];
    let labels = b.contiguous(labels);
    b.kernel(&[&labels], out, rows::one_hot(out.dtype(), classes))
}

/// Returns the operands of a derivative of a norm, and the rows of `x`, the first one.
fn norm_operands(b: &mut TaskBuilder, args: &[View]) -> (Vec<View>, Rows) {
    let places: Vec<View> = args.iter().map(|x| b.contiguous(x)).collect();
    let rows = rows_of(&places[0], places[1].shape()[0]);
    (places, rows)
}

fn norm_of(centred: &Static, eps: &Static) -> Norm {
    Norm {
        centred: flag(centred),
        eps: float(eps),
    }
}

/// Lowers `norm_jvp`: the tangent of the result, from the active tangents of `x`, weight and bias.
pub(super) fn norm_jvp(
    b: &mut TaskBuilder,
    args: &[View],
    [centred, eps, is_active]: [&Static; 3],
    out: &Aval,
) -> View {
    let (places, rows) = norm_operands(b, args);
    let kernel = norm::norm_jvp(rows, norm_of(centred, eps), active(is_active));
    let places: Vec<&View> = places.iter().collect();
    b.by_row(&places, std::slice::from_ref(out), kernel)
        .remove(0)
}

/// Lowers `norm_vjp`: the active cotangents of `x`, weight and bias, from that of the result.
pub(super) fn norm_vjp(
    b: &mut TaskBuilder,
    args: &[View],
    [centred, eps, is_active]: [&Static; 3],
    outs: &[Aval],
) -> Vec<View> {
    let (places, rows) = norm_operands(b, args);
    let is_active = active(is_active);
    let mut avals = outs.to_vec();
    if let Some(len) = norm::norm_vjp_scratch(rows, is_active) {
        avals.push(Aval::new(rows.dtype, [len]));
    }
    let kernel = norm::norm_vjp(rows, norm_of(centred, eps), is_active);
    let places: Vec<&View> = places.iter().collect();
    let mut made = b.kernels(&places, &avals, kernel);
    made.truncate(outs.len());
    made
}
