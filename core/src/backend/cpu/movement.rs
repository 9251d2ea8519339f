//! Ops that only move elements. Most return a view of their operand.

use super::Equation;
use super::axes::neighbours;
use super::statics::{self, axis, int, ints, permutation};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::{Static, StaticKind};
use gradloom_kernels::memory::{Layout, numel};
use gradloom_kernels::movement::{self, Triangle};
use gradloom_kernels::task::Prepared;

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

/// One process has all elements, wherever the devices of the mesh have theirs.
pub(super) use reshape as sharding_constraint;

/// Lowers `broadcast_to` and `broadcast_like`.
pub(super) fn broadcast_to(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    of.x().broadcast_to(of.shape())
}

pub(super) use broadcast_to as broadcast_like;

/// Narrows each axis to the elements that a slice selects; `shape` is the shape of the slice.
///
/// Also returns the axes that the slice reverses. Their elements are in ascending order here.
fn narrow(layout: &Layout, of: &Equation<'_>, shape: &[usize]) -> (Layout, Vec<usize>) {
    let [starts, steps] = [StaticKind::Starts, StaticKind::Steps].map(|kind| ints(of.value(kind)));
    let (mut part, mut reversed) = (layout.clone(), Vec::new());
    for (axis, (&start, &step)) in starts.iter().zip(steps).enumerate() {
        let mut first = match start < 0 {
            true => start + layout.shape[axis] as i64,
            false => start,
        };
        if shape[axis] == 0 {
            first = 0;
        } else if step < 0 {
            first += (shape[axis] as i64 - 1) * step;
        }
        if step < 0 && shape[axis] > 1 {
            reversed.push(axis);
        }
        part = part.narrow(
            axis,
            first as usize,
            shape[axis],
            step.unsigned_abs() as usize,
        );
    }
    (part, reversed)
}

pub(super) fn slice(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (part, reversed) = narrow(&of.x().layout, of, of.shape());
    flipped(b, &of.x().with(part), &reversed)
}

/// Adds the kernel that reads a view, or else the one that reads its elements in row-major order.
///
/// `of_view` returns `None` if the view should be copied first.
fn viewed_or_copied(
    b: &mut TaskBuilder,
    x: &View,
    out: &Aval,
    of_view: impl FnOnce(&View) -> Option<Prepared>,
    of_copy: impl FnOnce() -> Prepared,
) -> View {
    let of_view = match x.layout.is_contiguous() {
        true => None,
        false => of_view(x),
    };
    match of_view {
        Some(kernel) => b.strided_kernel(&[x], out, kernel),
        None => {
            let x = b.contiguous(x);
            b.kernel(&[&x], out, of_copy())
        }
    }
}

/// Writes a view to the elements that `to` selects of a tensor filled with a number.
fn scattered(b: &mut TaskBuilder, x: &View, out: &Aval, to: &Layout, value: &Static) -> View {
    let of_view = |x: &View| movement::scatter_view(out.dtype(), &x.layout, to, value);
    let of_copy = || movement::scatter_onto(out.dtype(), to, value);
    viewed_or_copied(b, x, out, of_view, of_copy)
}

/// Writes the operand to the selected part of a tensor of zeros: the transpose of `slice`.
pub(super) fn slice_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (to, reversed) = narrow(&Layout::contiguous(of.shape()), of, of.x().shape());
    let y = flipped(b, of.x(), &reversed);
    scattered(b, &y, of.out(), &to, &Static::Int(0))
}

/// Writes or adds the second operand to the selected part of the first.
pub(super) fn set_slice(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (to, reversed) = narrow(&Layout::contiguous(of.shape()), of, of.y().shape());
    let y = flipped(b, of.y(), &reversed);
    let [x, y] = [b.contiguous(of.x()), b.contiguous(&y)];
    let by = statics::write(&of.statics[3]);
    let kernel = movement::write_slice(of.out().dtype(), &to, by);
    b.update(&[&x, &y], of.out(), kernel)
}

/// Returns the axis and the index of an equation on one index of a value of shape `x`.
fn at_index(of: &Equation<'_>, x: &[usize]) -> (usize, usize) {
    let axis = of.axis(x.len());
    let index = int(of.value(StaticKind::Index));
    (axis, index.rem_euclid(x[axis] as i64) as usize)
}

pub(super) fn select_index(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (axis, index) = at_index(of, of.x().shape());
    of.x().with(of.x().layout.take(axis, index))
}

/// Writes the operand to one index of an axis of a tensor of zeros: the transpose of `select_index`.
pub(super) fn select_index_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (axis, index) = at_index(of, of.shape());
    let to = Layout::contiguous(of.shape()).take(axis, index);
    scattered(b, of.x(), of.out(), &to, &Static::Int(0))
}

/// Lowers `dynamic_slice` and `dynamic_slice_like`.
pub(super) fn dynamic_slice(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let [x, starts] = [b.contiguous(of.x()), b.contiguous(of.y())];
    let kernel = movement::read_window(x.dtype(), x.shape(), of.shape());
    b.kernel(&[&x, &starts], of.out(), kernel)
}

pub(super) use dynamic_slice as dynamic_slice_like;

/// Writes the operand to a window of a tensor of zeros.
pub(super) fn dynamic_slice_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let [y, starts] = [b.contiguous(of.x()), b.contiguous(of.y())];
    let kernel = movement::write_window(y.dtype(), of.shape(), y.shape(), None);
    b.kernel(&[&starts, &y], of.out(), kernel)
}

pub(super) fn dynamic_update_slice(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let [x, starts, y] = [0, 1, 2].map(|i| b.contiguous(&of.args[i]));
    let by = statics::write(&of.statics[0]);
    let kernel = movement::write_window(x.dtype(), of.shape(), y.shape(), Some(by));
    b.update(&[&x, &starts, &y], of.out(), kernel)
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

/// Writes the triangles of matrices.
fn triangles(b: &mut TaskBuilder, of: &Equation<'_>, triangle: Triangle) -> View {
    let x = b.contiguous(of.x());
    let sizes = [2, 1].map(|from_end| x.shape()[x.rank() - from_end]);
    let diagonal = int(of.value(StaticKind::Offset));
    let kernel = movement::triangles(x.dtype(), sizes, triangle, diagonal);
    b.kernel(&[&x], of.out(), kernel)
}

pub(super) fn tril(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    triangles(b, of, Triangle::Lower)
}

pub(super) fn triu(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    triangles(b, of, Triangle::Upper)
}

/// Returns the layout of a diagonal of the matrices in the last two axes, with `len` elements.
fn on_diagonal(layout: &Layout, offset: i64, len: usize) -> Layout {
    let rows = layout.shape.len() - 2;
    let skipped = |n: i64| {
        if len == 0 {
            0
        } else {
            usize::try_from(n).unwrap_or(0)
        }
    };
    let (top, left) = (skipped(offset.saturating_neg()), skipped(offset));
    let mut part = layout.narrow(rows, top, len, 1);
    part = part.narrow(rows + 1, left, len, 1);
    let step = part.strides[rows] + part.strides[rows + 1];
    part.shape.pop();
    part.strides.pop();
    part.strides[rows] = step;
    part
}

/// Lowers `diagonal` and `diag_t`.
pub(super) fn diagonal(_: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let len = of.shape()[of.shape().len() - 1];
    let offset = int(of.value(StaticKind::Offset));
    of.x().with(on_diagonal(&of.x().layout, offset, len))
}

/// Lowers `diagonal_t` and `diag`: the operand on a diagonal of matrices of zeros.
pub(super) fn diagonal_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let len = of.x().shape()[of.x().rank() - 1];
    let offset = int(of.value(StaticKind::Offset));
    let to = on_diagonal(&Layout::contiguous(of.shape()), offset, len);
    scattered(b, of.x(), of.out(), &to, &Static::Int(0))
}

pub(super) use {diagonal as diag_t, diagonal_t as diag};

pub(super) fn flip(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    flipped(b, of.x(), &of.axes())
}

/// Reverses one group of adjacent axes at a time.
fn flipped(b: &mut TaskBuilder, x: &View, axes: &[usize]) -> View {
    let groups = neighbours(x.shape(), axes);
    let size = |groups: &[(usize, bool)]| groups.iter().map(|g| g.0).product::<usize>();
    let mut x = x.clone();
    for i in (0..groups.len()).filter(|i| groups[*i].1) {
        let arb = [size(&groups[..i]), groups[i].0, size(&groups[i + 1..])];
        let out = Aval::new(x.dtype(), x.shape());
        let (dtype, from) = (x.dtype(), x);
        let of_view = |x: &View| movement::flip_view(dtype, &x.layout, arb);
        x = viewed_or_copied(b, &from, &out, of_view, || movement::flip(dtype, arb));
    }
    x
}

pub(super) fn roll(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let x = of.x();
    let axis = of.axis(x.rank());
    let len = x.shape()[axis];
    let shift = i128::from(int(of.value(StaticKind::Offset)));
    let shift = if of.flag() { -shift } else { shift };
    let start = shift.rem_euclid(len.max(1) as i128) as usize;
    match start {
        0 => x.clone(),
        _ => {
            let from = b.contiguous(x);
            let inner = numel(&x.shape()[axis + 1..]);
            let kernel = movement::roll(x.dtype(), len * inner, start * inner);
            b.kernel(&[&from], of.out(), kernel)
        }
    }
}

/// The elements of an axis that padding keeps: the first one, their number, and the place of the first
/// one and the distance between two of them in the padded axis.
#[derive(Clone, Copy)]
struct Kept {
    first: usize,
    len: usize,
    place: usize,
    step: usize,
}

/// Returns what padding keeps of each axis of `shape`.
fn kept(of: &Equation<'_>, shape: &[usize], padded: &[usize]) -> Vec<Kept> {
    let number = |at: usize, axis: usize| match &of.statics[at] {
        Static::Int(n) => i128::from(*n),
        list => i128::from(ints(list)[axis]),
    };
    let axis = |axis: usize| {
        let (low, step) = (number(0, axis), number(2, axis) + 1);
        let first = if low < 0 { (step - 1 - low) / step } else { 0 };
        // The number of elements whose places are in the padded axis.
        let end = (padded[axis] as i128 - low + step - 1).max(0) / step;
        let len = (end.min(shape[axis] as i128) - first).max(0);
        match len {
            0 => Kept {
                first: 0,
                len: 0,
                place: 0,
                step: 1,
            },
            _ => Kept {
                first: first as usize,
                len: len as usize,
                place: (low + first * step) as usize,
                step: step as usize,
            },
        }
    };
    (0..shape.len()).map(axis).collect()
}

/// Narrows each axis to the elements that padding keeps.
fn without_removed(layout: &Layout, kept: &[Kept]) -> Layout {
    let axes = kept.iter().enumerate();
    axes.fold(layout.clone(), |part, (axis, kept)| {
        part.narrow(axis, kept.first, kept.len, 1)
    })
}

/// Narrows each padded axis to the places of the elements that padding keeps.
fn without_padding(layout: &Layout, kept: &[Kept]) -> Layout {
    let axes = kept.iter().enumerate();
    axes.fold(layout.clone(), |part, (axis, kept)| {
        part.narrow(axis, kept.place, kept.len, kept.step)
    })
}

fn padded(b: &mut TaskBuilder, of: &Equation<'_>, value: &Static) -> View {
    let kept = kept(of, of.x().shape(), of.shape());
    let part = of.x().with(without_removed(&of.x().layout, &kept));
    let to = without_padding(&Layout::contiguous(of.shape()), &kept);
    scattered(b, &part, of.out(), &to, value)
}

pub(super) fn pad(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    padded(b, of, of.value(StaticKind::Fill))
}

pub(super) fn pad_zeros(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    padded(b, of, &Static::Int(0))
}

pub(super) fn pad_zeros_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let kept = kept(of, of.shape(), of.x().shape());
    let part = of.x().with(without_padding(&of.x().layout, &kept));
    if part.shape() == of.shape() {
        return part;
    }
    let to = without_removed(&Layout::contiguous(of.shape()), &kept);
    scattered(b, &part, of.out(), &to, &Static::Int(0))
}

/// Joins operands along an axis.
fn join(b: &mut TaskBuilder, args: &[View], axis: usize, out: &Aval) -> View {
    let in_turn = |x: &View| numel(&x.shape()[axis..]);
    let read = |x: &View| match movement::concat_reads(x.dtype(), &x.layout, in_turn(x)) {
        true => x.clone(),
        false => b.contiguous(x),
    };
    let args: Vec<View> = args.iter().map(read).collect();
    let operands: Vec<_> = args
        .iter()
        .map(|x| (in_turn(x), x.layout.clone()))
        .collect();
    let refs: Vec<&View> = args.iter().collect();
    b.strided_kernel(&refs, out, movement::concat(out.dtype(), &operands))
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
