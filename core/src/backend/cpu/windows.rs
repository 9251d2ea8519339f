//! Lowering of convolutions, pooling and upsampling.

use super::Equation;
use super::rows::{Read, each_row};
use super::statics::{flag, int, ints};
use crate::backend::{TaskBuilder, View};
use gradloom_ir::StaticKind;
use gradloom_ir::op::windows;
use gradloom_kernels::conv::{self, Conv};
use gradloom_kernels::pool;
use gradloom_kernels::task::Prepared;
use gradloom_kernels::windows::Windows;

/// Returns the sizes of a convolution of `x` to `z` with weights `w`.
fn sizes(of: &Equation<'_>, x: &[usize], w: &[usize], z: &[usize]) -> Conv {
    let groups = int(of.value(StaticKind::Count)) as usize;
    Conv {
        batch: x[0],
        groups,
        inner: w[1],
        outer: w[0] / groups,
        windows: Windows::new(&windows::conv_axes(of.statics, x, w, z)),
    }
}

/// Adds kernels of a convolution, which compute each element of the batch from one of `x`.
fn convolution(b: &mut TaskBuilder, of: &Equation<'_>, kernels: conv::Kernels) -> View {
    let [x, mut w] = [of.x(), of.y()].map(|x| b.contiguous(x));
    if let Some(pack) = kernels.weights {
        w = b.packed(&w, pack);
    }
    let args = [(&x, Read::Row), (&w, Read::All)];
    let (kernel, n_rows) = (kernels.kernel, x.shape()[0]);
    each_row(b, of.out(), n_rows, args, kernel, |rows| {
        rows.taking(kernels.nanos)
    })
}

pub(super) fn conv(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let sizes = sizes(of, of.x().shape(), of.y().shape(), of.shape());
    convolution(b, of, conv::conv(of.out().dtype(), sizes))
}

/// Lowers `conv_input_t` and `conv_transpose`.
pub(super) fn conv_input_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let sizes = sizes(of, of.shape(), of.y().shape(), of.x().shape());
    convolution(b, of, conv::input_t(of.out().dtype(), sizes))
}

pub(super) use conv_input_t as conv_transpose;

pub(super) fn conv_weight_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let sizes = sizes(of, of.x().shape(), of.shape(), of.y().shape());
    let [x, z] = [of.x(), of.y()].map(|x| b.contiguous(x));
    b.kernel(&[&x, &z], of.out(), conv::weight_t(of.out().dtype(), sizes))
}

/// Returns the windows of a pooling op from the shape `x` to `y`, and the number of rows: indices of the
/// first axis, unless windows slide along it.
fn pooling(of: &Equation<'_>, x: &[usize], y: &[usize]) -> (Windows, usize) {
    let axes = windows::pool_axes(of.statics, x, y);
    let n_rows = if axes.len() < x.len() { x[0] } else { 1 };
    (Windows::new(&axes), n_rows)
}

/// Adds a kernel on rows of the operand.
fn of_one(b: &mut TaskBuilder, of: &Equation<'_>, n_rows: usize, kernel: Prepared) -> View {
    let x = b.contiguous(of.x());
    let args = [(&x, Read::Row)];
    each_row(b, of.out(), n_rows, args, kernel, |rows| rows)
}

/// Adds a kernel on rows of both operands.
fn of_two(b: &mut TaskBuilder, of: &Equation<'_>, n_rows: usize, kernel: Prepared) -> View {
    let [x, y] = [of.x(), of.y()].map(|x| b.contiguous(x));
    let args = [(&x, Read::Row), (&y, Read::Row)];
    each_row(b, of.out(), n_rows, args, kernel, |rows| rows)
}

/// Returns the number that sums over windows are divided by, if they are means.
fn divisor(of: &Equation<'_>, windows: &Windows) -> Option<usize> {
    flag(of.value(StaticKind::KnownFlag)).then(|| windows.n_taps())
}

pub(super) fn sum_pool(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (windows, n_rows) = pooling(of, of.x().shape(), of.shape());
    let over = divisor(of, &windows);
    of_one(b, of, n_rows, pool::sum(of.out().dtype(), windows, over))
}

pub(super) fn sum_pool_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (windows, n_rows) = pooling(of, of.shape(), of.x().shape());
    let over = divisor(of, &windows);
    of_one(b, of, n_rows, pool::sum_t(of.out().dtype(), windows, over))
}

pub(super) fn max_pool(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (windows, n_rows) = pooling(of, of.x().shape(), of.shape());
    of_one(b, of, n_rows, pool::max(of.out().dtype(), windows))
}

pub(super) fn max_pool_jvp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (windows, n_rows) = pooling(of, of.y().shape(), of.shape());
    of_two(b, of, n_rows, pool::max_jvp(of.out().dtype(), windows))
}

pub(super) fn max_pool_vjp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (windows, n_rows) = pooling(of, of.y().shape(), of.x().shape());
    of_two(b, of, n_rows, pool::max_vjp(of.out().dtype(), windows))
}

/// Repeats each element along an additional axis after each of the last axes.
pub(super) fn upsample(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let factors = ints(of.value(StaticKind::Window));
    let (leading, last) = of.x().shape().split_at(of.x().rank() - factors.len());
    let with = |factor: &dyn Fn(usize) -> usize| -> Vec<usize> {
        let last = last.iter().enumerate();
        let pairs = last.flat_map(|(i, len)| [*len, factor(i)]);
        leading.iter().copied().chain(pairs).collect()
    };
    let apart = b.reshape(of.x(), &with(&|_| 1));
    let repeated = apart.broadcast_to(&with(&|i| factors[i] as usize));
    b.reshape(&repeated, of.shape())
}

pub(super) fn upsample_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let factors = of.value(StaticKind::Window);
    let axes = windows::upsample_axes(factors, of.x().shape(), of.shape());
    let kernel = pool::sum(of.out().dtype(), Windows::new(&axes), None);
    of_one(b, of, 1, kernel)
}
