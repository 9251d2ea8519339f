//! Lowering of reductions over axes and of their transposes.

use super::rows::Read;
use super::{Equation, rows, statics};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::op::SumOver;
use gradloom_ir::{DType, Op, Static, StaticKind};
use gradloom_kernels::elementwise::{CHUNK, FusedSum, Matrices};
use gradloom_kernels::memory::{Layout, numel};
use gradloom_kernels::reduce::{self, BoolFold, Fold};
use gradloom_kernels::task::Prepared;
use std::cmp::Reverse;

/// Returns the axes of `large` along which a value of `shape` was broadcast.
pub(super) fn repeated(large: &[usize], shape: &[usize]) -> Vec<usize> {
    let fresh = large.len() - shape.len();
    let repeated = |&axis: &usize| axis < fresh || shape[axis - fresh] != large[axis];
    (0..large.len()).filter(repeated).collect()
}

/// Reduces `axes`, one group of adjacent axes at a time, the longest one first.
pub(super) fn fold(b: &mut TaskBuilder, x: &View, axes: &[usize], out: &Aval, by: Fold) -> View {
    let dtype = x.dtype();
    let kernels = Kernels {
        dense: &|arb| reduce::fold_axis(dtype, arb, by),
        view: &|layout, arb| reduce::fold_view(dtype, layout, arb, by),
    };
    let rounds = dtype.is_float() && matches!(by, Fold::Sum | Fold::Product);
    match rounds {
        true if by == Fold::Sum && is_across(x, axes) => {
            let dense = &|arb| reduce::sum_across(dtype, arb);
            fold_in_memory_order(b, x, axes, out, Kernels { dense, ..kernels })
        }
        true => fold_by(b, x, axes, out, kernels),
        false => fold_in_memory_order(b, x, axes, out, kernels),
    }
}

/// Returns whether rows are reduced that lie across those of a contiguous operand, in the same order.
fn is_across(x: &View, axes: &[usize]) -> bool {
    let order = memory_order(x);
    let mut moved = order.clone();
    moved.retain(|axis| axes.contains(axis));
    let memory = x.permute(&order);
    let reduced: Vec<usize> = (0..order.len())
        .filter(|i| axes.contains(&order[*i]))
        .collect();
    let is_one = |shape: &[usize], axes: &[usize]| {
        neighbours(shape, axes)
            .iter()
            .filter(|group| group.1)
            .count()
            == 1
    };
    !x.layout.is_contiguous()
        && memory.layout.is_contiguous()
        && moved.is_sorted()
        && is_one(memory.shape(), &reduced)
        && matches!(neighbours(x.shape(), axes)[..], [(_, false), (_, true)])
}

/// Reduces `axes` of bools.
fn fold_bools(b: &mut TaskBuilder, of: &Equation<'_>, by: BoolFold) -> View {
    let kernels = Kernels {
        dense: &|arb| reduce::fold_bools(arb, by),
        view: &|_, _| None,
    };
    fold_in_memory_order(b, of.x(), &of.axes(), of.out(), kernels)
}

/// Kernels of a reduction of the middle axis of `[a, r, b]`.
#[derive(Clone, Copy)]
struct Kernels<'a> {
    /// For elements in row-major order.
    dense: &'a dyn Fn([usize; 3]) -> Prepared,
    /// For elements of a layout, if there is such a kernel.
    view: &'a dyn Fn(&Layout, [usize; 3]) -> Option<Prepared>,
}

/// Reduces `axes` with kernels whose results do not depend on the order of the axes.
///
/// The elements are read in the order of memory, so an operand whose axes change places is not copied.
fn fold_in_memory_order(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    kernels: Kernels<'_>,
) -> View {
    let order = memory_order(x);
    let is_reduced = |axis: &usize| axes.contains(axis);
    let reduced: Vec<usize> = (0..order.len())
        .filter(|i| is_reduced(&order[*i]))
        .collect();
    let kept: Vec<usize> = order
        .iter()
        .copied()
        .filter(|axis| !is_reduced(axis))
        .collect();
    let shape: Vec<usize> = kept.iter().map(|&axis| x.shape()[axis]).collect();
    let made = Aval::new(x.dtype(), shape);
    let y = fold_by(b, &x.permute(&order), &reduced, &made, kernels);
    let mut back: Vec<usize> = (0..kept.len()).collect();
    back.sort_by_key(|i| kept[*i]);
    b.reshape(&y.permute(&back), out.shape())
}

/// Returns the axes of a view in the order of memory, from the outermost to the innermost one.
///
/// Axes with one element or with a repeated one stay where they are.
fn memory_order(x: &View) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    let strides = &x.layout.strides;
    let mut moved = order.clone();
    moved.retain(|&axis| x.shape()[axis] != 1 && strides[axis] != 0);
    let places = moved.clone();
    moved.sort_by_key(|axis| Reverse(strides[*axis]));
    for (place, axis) in places.into_iter().zip(moved) {
        order[place] = axis;
    }
    order
}

/// Reduces `axes` as [`fold`], with a kernel for the sizes of each group.
fn fold_by(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    kernels: Kernels<'_>,
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
        let to = Aval::new(x.dtype(), [arb[0] * arb[2]]);
        let of_view = match x.layout.is_contiguous() {
            true => None,
            false => (kernels.view)(&x.layout, arb),
        };
        x = match of_view {
            Some(kernel) => b.strided_kernel(&[&x], &to, kernel),
            None => {
                let from = b.contiguous(&x);
                reduction(b, &from, &to, arb, (kernels.dense)(arb))
            }
        };
        groups.remove(i);
    }
    b.reshape(&x, out.shape())
}

/// Adds the kernel of a reduction of the middle axis of `arb`, which runs on blocks of rows if that axis is the last one.
fn reduction(b: &mut TaskBuilder, x: &View, out: &Aval, arb: [usize; 3], by: Prepared) -> View {
    let n_rows = if arb[2] == 1 { arb[0] } else { 1 };
    rows::each_row(b, out, n_rows, [(x, Read::Row)], None, by)
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
    fold_bools(b, of, BoolFold::Any)
}

pub(super) fn all(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    fold_bools(b, of, BoolFold::All)
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
    reduction(b, &from, of.out(), arb, kernel)
}
