//! Lowering of ops on the order of the elements along an axis.

use super::statics::{flag, int};
use super::{Equation, lower_kernel, rows};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::{DType, Kernel, Op, StaticKind};
use gradloom_kernels::indexing::{self, Places};
use gradloom_kernels::memory::numel;
use gradloom_kernels::order::{self, Direction};
use gradloom_kernels::task::Prepared;

/// Maps rows along the axis to rows of the result, which may have another length.
fn by_rows(b: &mut TaskBuilder, of: &Equation<'_>, kernel: impl Fn(usize) -> Prepared) -> View {
    let along = of.axis(of.x().rank());
    let order = rows::last(of.x().rank(), &[along]);
    let x = b.contiguous(&of.x().permute(&order));
    let shape: Vec<usize> = order.iter().map(|&a| of.shape()[a]).collect();
    let out = Aval::new(of.out().dtype(), shape);
    let y = b.kernel(&[&x], &out, kernel(of.x().shape()[along]));
    y.permute(&rows::inverse(&order))
}

fn direction(of: &Equation<'_>) -> Direction {
    match flag(&of.statics[1]) {
        true => Direction::Descending,
        false => Direction::Ascending,
    }
}

pub(super) fn sort(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    by_rows(b, of, |len| order::sort(of.x().dtype(), len, direction(of)))
}

pub(super) fn argsort(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    by_rows(b, of, |len| {
        order::argsort(of.x().dtype(), len, direction(of))
    })
}

pub(super) fn top_k_indices(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let count = int(of.value(StaticKind::Count)) as usize;
    by_rows(b, of, |len| order::top_k(of.x().dtype(), len, count))
}

pub(super) fn searchsorted(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (x, values) = (b.contiguous(of.x()), b.contiguous(&of.args[1]));
    let len = x.shape().last().copied().unwrap_or_default();
    let n_values = numel(&values.shape()[x.rank() - 1..]);
    let kernel = order::search(x.dtype(), len, n_values);
    b.kernel(&[&x, &values], of.out(), kernel)
}

/// Lowers `top_k`: the elements at the indices of the greatest ones.
pub(super) fn top_k(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let along = of.axis(of.x().rank());
    let order = rows::last(of.x().rank(), &[along]);
    let x = b.contiguous(&of.x().permute(&order));
    let (n, count) = (
        of.x().shape()[along],
        int(of.value(StaticKind::Count)) as usize,
    );
    let shape: Vec<usize> = order.iter().map(|&a| of.shape()[a]).collect();
    let [indices, out] = [DType::I64, of.out().dtype()].map(|d| Aval::new(d, &shape[..]));
    let indices = b.kernel(&[&x], &indices, order::top_k(x.dtype(), n, count));
    let at = Places {
        outer: numel(&shape[..shape.len() - 1]),
        n,
        m: count,
        inner: 1,
        by_outer: true,
        by_inner: false,
        shared: false,
    };
    let y = b.kernel(&[&x, &indices], &out, indexing::take(x.dtype(), at));
    y.permute(&rows::inverse(&order))
}

/// Returns whether an op orders bools.
pub(super) fn orders_bools(of: &Equation<'_>) -> bool {
    use Op::{Argmax, Argmin, Argsort, Cummax, Cummin, Sort, TopK, TopKIndices};
    let ordering = [
        Argmax,
        Argmin,
        Argsort,
        Cummax,
        Cummin,
        Sort,
        TopK,
        TopKIndices,
    ];
    ordering.contains(&of.op) && of.x().dtype() == DType::Bool
}

/// Lowers an op on bools as that on the integers 0 and 1.
pub(super) fn of_bools(b: &mut TaskBuilder, of: &Equation<'_>, kernel: Kernel) -> Vec<View> {
    let x = b.contiguous(of.x());
    let numbers = Aval::new(DType::I32, x.shape());
    let x = b.kernel(&[&x], &numbers, order::numbers_of_bools());
    let is_bool = of.out().dtype() == DType::Bool;
    let out = match is_bool {
        true => Aval::new(DType::I32, of.shape()),
        false => of.out().clone(),
    };
    let (args, outs) = ([x], [out]);
    let of_numbers = Equation {
        args: &args,
        outs: &outs,
        ..*of
    };
    let y = lower_kernel(b, &of_numbers, kernel);
    if !is_bool {
        return y;
    }
    let y = b.contiguous(&y[0]);
    b.kernel(&[&y], of.out(), order::bools_of_numbers()).into()
}
