//! Reductions, copies and gradients that read a tensor along another axis than its last, or in short rows: part of W19.

use super::inputs::fill;
use super::kinds::row;
use super::measure::Timer;
use gradloom::prelude::*;

/// Rows and columns of a matrix.
const N: i64 = 1024;

/// Times all rows of this file.
pub(super) fn operations(timer: &mut Timer) -> Result<()> {
    sums(timer)?;
    copies(timer)?;
    gradients(timer)
}

#[traced]
fn sum_last(#[nodiff] x: &Tensor) -> Tensor {
    x.sum(-1)
}

#[traced]
fn sum_transposed(#[nodiff] x: &Tensor) -> Tensor {
    x.permute([2, 0, 1]).sum(-1)
}

#[traced]
fn max_transposed(#[nodiff] x: &Tensor) -> Tensor {
    x.permute([2, 0, 1]).max(-1)
}

fn sums(timer: &mut Timer) -> Result<()> {
    for (name, n) in [("W19_sum_rows3", 3), ("W19_sum_rows8", 8)] {
        let rows = if n == 3 { 1 << 20 } else { 1 << 19 };
        let x = fill(630, [rows, n], 1.0);
        row(timer, name, || sum_last(&x))?;
    }
    let x = fill(631, [64, 128, 256], 1.0);
    row(timer, "W19_sum_transposed", || sum_transposed(&x))?;
    row(timer, "W19_max_transposed", || max_transposed(&x))
}

#[traced]
fn permute4(#[nodiff] x: &Tensor) -> Tensor {
    x.permute([0, 2, 1, 3]) + 1.0
}

#[traced]
fn reverse_axes(#[nodiff] x: &Tensor) -> Tensor {
    x.transpose() + 1.0
}

#[traced]
fn stride(#[nodiff] x: &Tensor) -> Tensor {
    x.slice([0, 1], [2 * N, 2 * N], [2, 2]) + 1.0
}

#[traced]
fn slice_pad(#[nodiff] x: &Tensor) -> Tensor {
    x.slice([0, 8], [N, N - 8], [1, 1])
        .pad([0, 8], [0, 8], [0, 0], 0.0)
}

fn copies(timer: &mut Timer) -> Result<()> {
    let x = fill(632, [8, 128, 16, 64], 1.0);
    row(timer, "W19_permute4", || permute4(&x))?;
    let x = fill(633, [16, 32, 48, 40], 1.0);
    row(timer, "W19_permute3210", || reverse_axes(&x))?;
    let x = fill(634, [1000, 1000], 1.0);
    row(timer, "W19_transpose", || reverse_axes(&x))?;
    let x = fill(635, [2048, 2048], 1.0);
    row(timer, "W19_stride", || stride(&x))?;
    let x = fill(636, [1024, 1024], 1.0);
    row(timer, "W19_slice_pad", || slice_pad(&x))
}

#[traced]
fn max_energy(x: &Tensor) -> Tensor {
    x.max(1).square().sum(..)
}

#[traced]
fn softmax0_energy(x: &Tensor) -> Tensor {
    x.softmax(0).square().sum(..)
}

fn gradients(timer: &mut Timer) -> Result<()> {
    let x = fill(637, [64, 256, 64], 1.0);
    row(timer, "W19_max_vjp", || {
        let (value, grads) = max_energy::value_and_grad(&x);
        (value, grads.x)
    })?;
    let x = fill(638, [1024, 1024], 3.0);
    // Axis 1 is the last one.
    row(timer, "W19_max_last_vjp", || {
        let (value, grads) = max_energy::value_and_grad(&x);
        (value, grads.x)
    })?;
    row(timer, "W19_softmax0_vjp", || {
        let (value, grads) = softmax0_energy::value_and_grad(&x);
        (value, grads.x)
    })
}
