//! Ops that only move elements. Most return a view of their operand.

use super::Equation;
use super::statics::{axis, ints, permutation};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::StaticKind;
use gradloom_kernels::memory::{Layout, numel};
use gradloom_kernels::movement;

pub(super) fn transpose(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let axes: Vec<usize> = (0..of.x().rank()).rev().collect();
    of.x().permute(&axes)
}

pub(super) fn permute(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let axes = of.value(StaticKind::Permutation);
    of.x().permute(&permutation(axes, of.x().rank()))
}

pub(super) fn permute_t(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let axes = of.value(StaticKind::Permutation);
    let mut inverse = vec![0; of.x().rank()];
    for (i, axis) in permutation(axes, of.x().rank()).into_iter().enumerate() {
        inverse[axis] = i;
    }
    of.x().permute(&inverse)
}

pub(super) fn swap_axes(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let rank = of.x().rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(axis(&of.statics[0], rank), axis(&of.statics[1], rank));
    of.x().permute(&axes)
}

pub(super) fn moveaxis(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let rank = of.x().rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    let moved = axes.remove(axis(&of.statics[0], rank));
    axes.insert(axis(&of.statics[1], rank), moved);
    of.x().permute(&axes)
}

/// Lowers `reshape`, `reshape_t`, `squeeze` and `unsqueeze`: the same elements in another shape.
pub(super) fn reshape(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    b.reshape(of.x(), of.shape())
}

pub(super) use {reshape as reshape_t, reshape as squeeze, reshape as unsqueeze};

/// Lowers `broadcast_to` and `broadcast_like`.
pub(super) fn broadcast_to(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of.x().broadcast_to(of.shape())
}

pub(super) use broadcast_to as broadcast_like;

/// Narrows each axis to the elements that a slice selects; `shape` is the shape of the slice.
fn narrow(layout: &Layout, of: &Equation<'_>, shape: &[usize]) -> Layout {
    let [starts, steps] = [StaticKind::Starts, StaticKind::Steps].map(|kind| ints(of.value(kind)));
    let mut part = layout.clone();
    for (axis, (&start, &step)) in starts.iter().zip(steps).enumerate() {
        let from_left = match start < 0 {
            true => start + layout.shape[axis] as i64,
            false => start,
        };
        part = part.narrow(axis, from_left as usize, shape[axis], step as usize);
    }
    part
}

pub(super) fn slice(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of.x().with(narrow(&of.x().layout, of, of.shape()))
}

/// Writes the operand to the selected part of a tensor of zeros: the transpose of `slice`.
pub(super) fn slice_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let to = narrow(&Layout::contiguous(of.shape()), of, of.x().shape());
    let y = b.contiguous(of.x());
    b.kernel(&[&y], of.out(), movement::scatter(of.out().dtype(), &to))
}

/// Lowers `split` and `concat_t`: consecutive parts along an axis.
pub(super) fn split(_: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let axis = of.axis(of.x().rank());
    let mut start = 0;
    let part = |out: &Aval| {
        let len = out.shape()[axis];
        start += len;
        of.x().narrow(axis, start - len, len)
    };
    of.outs.iter().map(part).collect()
}

pub(super) use split as concat_t;

pub(super) fn unbind(_: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let x = of.x();
    let axis = of.axis(x.rank());
    (0..x.shape()[axis])
        .map(|i| x.with(x.layout.take(axis, i)))
        .collect()
}

pub(super) fn tril(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let x = b.contiguous(of.x());
    let sizes = [2, 1].map(|from_end| x.shape()[x.rank() - from_end]);
    b.kernel(&[&x], of.out(), movement::tril(x.dtype(), sizes))
}

/// Joins operands along an axis.
fn join(b: &mut TaskBuilder, args: &[View], axis: usize, out: &Aval) -> View {
    let args: Vec<View> = args.iter().map(|x| b.contiguous(x)).collect();
    let pieces = args.iter().map(|x| numel(&x.shape()[axis..])).collect();
    let refs: Vec<&View> = args.iter().collect();
    b.kernel(&refs, out, movement::concat(out.dtype(), pieces))
}

pub(super) fn concat(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    join(b, of.args, of.axis(of.shape().len()), of.out())
}

pub(super) fn stack(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let axis = of.axis(of.shape().len());
    let mut unit = of.shape().to_vec();
    unit[axis] = 1;
    let args: Vec<View> = of.args.iter().map(|x| b.reshape(x, &unit)).collect();
    join(b, &args, axis, of.out())
}
