//! Lowering of linear algebra on the matrices in the last two axes.

use super::Equation;
use super::statics::{flag, float, int};
use crate::backend::{TaskBuilder, View};
use gradloom_ir::{DType, StaticKind};
use gradloom_kernels::linalg::{self, Form, Systems};
use gradloom_kernels::memory::numel;
use gradloom_kernels::task::Prepared;

/// Returns the number of matrices of a shape, and their numbers of rows and columns.
fn sizes(shape: &[usize]) -> (usize, [usize; 2]) {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    (numel(batch), [matrix[0], matrix[1]])
}

/// Lowers an op with a result for each matrix, given its kernel for numbers of matrices and sizes.
fn factors(
    b: &mut TaskBuilder,
    of: &Equation<'_>,
    kernel: fn(DType, usize, [usize; 2]) -> Prepared,
) -> Vec<View> {
    let x = b.contiguous(of.x());
    let (n_matrices, sizes) = sizes(x.shape());
    b.kernels(&[&x], of.outs, kernel(x.dtype(), n_matrices, sizes))
}

pub(super) fn cholesky(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, |dtype, count, [n, _]| {
        linalg::cholesky(dtype, count, n)
    })
}

pub(super) fn inv(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, |dtype, count, [n, _]| {
        linalg::inverse(dtype, count, n)
    })
}

pub(super) fn det(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, |dtype, count, [n, _]| {
        linalg::determinant(dtype, count, n)
    })
}

pub(super) fn cofactors(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, |dtype, count, [n, _]| {
        linalg::cofactors(dtype, count, n)
    })
}

pub(super) fn slogdet(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, |dtype, count, [n, _]| {
        linalg::log_determinant(dtype, count, n)
    })
}

pub(super) fn qr(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, linalg::qr)
}

pub(super) fn eigh(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, |dtype, count, [n, _]| linalg::eigen(dtype, count, n))
}

pub(super) fn svd(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    factors(b, of, linalg::svd)
}

pub(super) fn pinv(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let x = b.contiguous(of.x());
    let (n_matrices, sizes) = sizes(x.shape());
    let rcond = float(&of.statics[0]);
    let kernel = linalg::pseudo_inverse(x.dtype(), n_matrices, sizes, rcond);
    b.kernels(&[&x], of.outs, kernel)
}

pub(super) fn solve(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (a, right) = (of.x(), b.contiguous(of.y()));
    let (count, [n, k]) = match right.shape() {
        [n] => (1, [*n, 1]),
        shape => sizes(shape),
    };
    let shared = sizes(a.shape()).0 == 1;
    let a = match shared {
        true => a.clone(),
        false => {
            let batch = &right.shape()[..right.rank() - 2];
            a.broadcast_to(&[batch, &[n, n]].concat())
        }
    };
    let a = b.contiguous(&a);
    let form = Form::from_number(int(of.value(StaticKind::KnownCount)));
    let systems = Systems {
        count,
        n,
        k,
        shared,
        form: form.expect("the shape rule checks it"),
        transposed: flag(of.value(StaticKind::KnownFlag)),
    };
    b.kernel(
        &[&a, &right],
        of.out(),
        linalg::solve(right.dtype(), systems),
    )
}
