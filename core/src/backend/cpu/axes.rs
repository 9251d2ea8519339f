//! Lowering of reductions over axes and of their transposes.

use super::{Equation, rows, statics};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::op::SumOver;
use gradloom_ir::{DType, Op, Static, StaticKind};
use gradloom_kernels::elementwise::{CHUNK, FusedSum, Matrices};
use gradloom_kernels::memory::numel;
use gradloom_kernels::reduce::{self, BoolFold, Fold};
use gradloom_kernels::task::Prepared;

/// Returns the axes of `large` along which a value of `shape` was broadcast.
pub(super) fn repeated(large: &[usize], shape: &[usize]) -> Vec<usize> {
    let fresh = large.len() - shape.len();
    let repeated = |&axis: &usize| axis < fresh || shape[axis - fresh] != large[axis];
    (0..large.len()).filter(repeated).collect()
}

/// Reduces `axes`, one group of adjacent axes at a time, the longest one first.
pub(super) fn fold(b: &mut TaskBuilder, x: &View, axes: &[usize], out: &Aval, by: Fold) -> View {
    let dtype = x.dtype();
    fold_by(b, x, axes, out, |arb| reduce::fold_axis(dtype, arb, by))
}

/// Reduces `axes` as [`fold`], with a kernel for the sizes of each group.
fn fold_by(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    kernel: impl Fn([usize; 3]) -> Prepared,
) -> View {
    let mut groups = neighbours(x.shape(), axes);
    let mut x = x.clone();
    let longest = |groups: &[(usize, bool)]| {
        let reduced = (0..groups.len()).rev().filter(|i| groups[*i].1);
        reduced.max_by_key(|i| groups[*i].0)
    };
    while let Some(i) = longest(&groups) {
        let size = |groups: &[(usize, bool)]| groups.iter().map(|g| g.0).product::<usize>();
        let arb = [size(&groups[..i]), groups[i].0, size(&groups[i + 1..])];
        let from = b.contiguous(&x);
        let to = Aval::new(x.dtype(), [arb[0] * arb[2]]);
        x = b.kernel(&[&from], &to, kernel(arb));
        groups.remove(i);
    }
    b.reshape(&x, out.shape())
}

/// Returns how a group of `shape` can sum its results while they are in the cache.
///
/// Supports sums over all elements and over axes that are neighbours; `None` otherwise.
pub(crate) fn fused_sum(
    over: SumOver,
    op: Op,
    values: &[Static],
    shape: &[usize],
    out: &[usize],
) -> Option<FusedSum> {
    let axes = match over {
        SumOver::Axes => statics::axes(statics::value(op, values, StaticKind::Axes), shape.len()),
        SumOver::Repeated => repeated(shape, out),
    };
    match neighbours(shape, &axes)[..] {
        _ if numel(shape) == 0 => None,
        [(_, true)] => Some(FusedSum::All),
        [_, (cols, true)] if cols <= CHUNK => Some(FusedSum::Rows(cols)),
        [(rows, true), (cols, false)] => Some(FusedSum::Columns(Matrices::one(rows, cols))),
        [_, (rows, true), (cols, false)] => Some(FusedSum::Columns(Matrices::several(rows, cols))),
        _ => None,
    }
}

/// Merges adjacent axes that are all reduced or all kept. Each entry is a length and whether it is
/// reduced.
pub(super) fn neighbours(shape: &[usize], axes: &[usize]) -> Vec<(usize, bool)> {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (axis, &len) in shape.iter().enumerate() {
        let reduced = axes.contains(&axis);
        match groups.last_mut() {
            _ if len == 1 => {}
            Some(last) if last.1 == reduced => last.0 *= len,
            _ => groups.push((len, reduced)),
        }
    }
    groups
}

pub(super) fn sum(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    fold(b, of.x(), &of.axes(), of.out(), Fold::Sum)
}

pub(super) fn max(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    if of.x().dtype() == DType::Bool {
        return any(b, of);
    }
    fold(b, of.x(), &of.axes(), of.out(), Fold::Max)
}

pub(super) fn min(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    if of.x().dtype() == DType::Bool {
        return all(b, of);
    }
    fold(b, of.x(), &of.axes(), of.out(), Fold::Min)
}

pub(super) fn prod(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    fold(b, of.x(), &of.axes(), of.out(), Fold::Product)
}

pub(super) fn any(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let kernel = |arb| reduce::fold_bools(arb, BoolFold::Any);
    fold_by(b, of.x(), &of.axes(), of.out(), kernel)
}

pub(super) fn all(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let kernel = |arb| reduce::fold_bools(arb, BoolFold::All);
    fold_by(b, of.x(), &of.axes(), of.out(), kernel)
}

pub(super) fn unbroadcast(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let axes = repeated(of.x().shape(), of.shape());
    fold(b, of.x(), &axes, of.out(), Fold::Sum)
}

/// Broadcasts `y`, a value reduced over `axes`, along them to the shape of the result.
fn spread(b: &mut TaskBuilder, of: &Equation<'_>, y: &View, axes: &[usize]) -> View {
    let unit = |(axis, &len): (usize, &usize)| if axes.contains(&axis) { 1 } else { len };
    let kept: Vec<usize> = of.shape().iter().enumerate().map(unit).collect();
    b.reshape(y, &kept).broadcast_to(of.shape())
}

/// Returns the axes of the result that the operand was reduced over.
fn reduced(of: &Equation<'_>) -> Vec<usize> {
    statics::axes(of.value(StaticKind::Axes), of.shape().len())
}

pub(super) fn sum_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    spread(b, of, of.x(), &reduced(of))
}

pub(super) fn argmax(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    arg_fold(b, of, Fold::Max)
}

pub(super) fn argmin(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    arg_fold(b, of, Fold::Min)
}

/// Writes the index of the extremum, in row-major order of the axes.
fn arg_fold(b: &mut TaskBuilder, of: &Equation<'_>, by: Fold) -> View {
    let (shape, axes) = (of.x().shape(), of.axes());
    let (x, arb) = match neighbours(shape, &axes)[..] {
        [] | [(_, false)] => (of.x().clone(), [numel(shape), 1, 1]),
        [(r, true)] => (of.x().clone(), [1, r, 1]),
        [(a, false), (r, true)] => (of.x().clone(), [a, r, 1]),
        [(r, true), (b, false)] => (of.x().clone(), [1, r, b]),
        [(a, false), (r, true), (b, false)] => (of.x().clone(), [a, r, b]),
        _ => {
            let r: usize = axes.iter().map(|&a| shape[a]).product();
            let x = of.x().permute(&rows::last(shape.len(), &axes));
            (x, [numel(of.shape()), r, 1])
        }
    };
    let from = b.contiguous(&x);
    let kernel = reduce::arg_fold(x.dtype(), arb, by);
    b.kernel(&[&from], of.out(), kernel)
}
