//! Lowering of convolutions, pooling and upsampling.

use super::Equation;
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

/// Adds a kernel on contiguous copies of both operands.
fn of_two(b: &mut TaskBuilder, of: &Equation<'_>, kernel: Prepared) -> View {
    let [x, y] = [of.x(), of.y()].map(|x| b.contiguous(x));
    b.kernel(&[&x, &y], of.out(), kernel)
}

pub(super) fn conv(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let sizes = sizes(of, of.x().shape(), of.y().shape(), of.shape());
    of_two(b, of, conv::conv(of.out().dtype(), sizes))
}

/// Lowers `conv_input_t` and `conv_transpose`.
pub(super) fn conv_input_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let sizes = sizes(of, of.shape(), of.y().shape(), of.x().shape());
    of_two(b, of, conv::input_t(of.out().dtype(), sizes))
}

pub(super) use conv_input_t as conv_transpose;

pub(super) fn conv_weight_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let sizes = sizes(of, of.x().shape(), of.shape(), of.y().shape());
    of_two(b, of, conv::weight_t(of.out().dtype(), sizes))
}

/// Returns the windows of a pooling op from the shape `x` to `y`.
fn pooling(of: &Equation<'_>, x: &[usize], y: &[usize]) -> Windows {
    Windows::new(&windows::pool_axes(of.statics, x, y))
}

/// Adds a kernel on a contiguous copy of the operand.
fn of_one(b: &mut TaskBuilder, of: &Equation<'_>, kernel: Prepared) -> View {
    let x = b.contiguous(of.x());
    b.kernel(&[&x], of.out(), kernel)
}

/// Returns the number that sums over windows are divided by, if they are means.
fn divisor(of: &Equation<'_>, windows: &Windows) -> Option<usize> {
    flag(of.value(StaticKind::KnownFlag)).then(|| windows.n_taps())
}

pub(super) fn sum_pool(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let windows = pooling(of, of.x().shape(), of.shape());
    let over = divisor(of, &windows);
    of_one(b, of, pool::sum(of.out().dtype(), windows, over))
}

pub(super) fn sum_pool_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let windows = pooling(of, of.shape(), of.x().shape());
    let over = divisor(of, &windows);
    of_one(b, of, pool::sum_t(of.out().dtype(), windows, over))
}

pub(super) fn max_pool(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let windows = pooling(of, of.x().shape(), of.shape());
    of_one(b, of, pool::max(of.out().dtype(), windows))
}

pub(super) fn max_pool_jvp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let windows = pooling(of, of.y().shape(), of.shape());
    of_two(b, of, pool::max_jvp(of.out().dtype(), windows))
}

pub(super) fn max_pool_vjp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let windows = pooling(of, of.y().shape(), of.x().shape());
    of_two(b, of, pool::max_vjp(of.out().dtype(), windows))
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
    of_one(
        b,
        of,
        pool::sum(of.out().dtype(), Windows::new(&axes), None),
    )
}
