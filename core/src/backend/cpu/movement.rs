//! Ops that only move elements. Most return a view of their operand.

use super::Equation;
use super::axes::neighbours;
use super::statics::{self, axis, int, ints, permutation};
use crate::Aval;
use crate::backend::{Operand, TaskBuilder, View};
use gradloom_ir::{Op, Static, StaticKind};
use gradloom_kernels::memory::{Layout, numel};
use gradloom_kernels::movement::placed::{Part, Parts, Placed};
use gradloom_kernels::movement::{self, Triangle};
use gradloom_kernels::task::Prepared;
use smallvec::smallvec;

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

/// Elements of an axis that are kept: the first one, their number, and the place of the first one and the
/// distance between two of them in the longer axis.
#[derive(Clone, Copy)]
struct Kept {
    first: usize,
    len: usize,
    place: usize,
    step: usize,
}

impl Kept {
    /// All elements of an axis, in their places.
    fn all(len: usize) -> Kept {
        Kept {
            first: 0,
            len,
            place: 0,
            step: 1,
        }
    }

    /// Returns the parts of an axis of `len` indices, which are zeros where nothing is kept.
    fn parts(self, len: usize) -> Parts {
        let Kept { first, place, .. } = self;
        let (kept, step) = match self.len {
            0 | 1 => (self.len, 1),
            n => ((n - 1) * self.step + 1, self.step),
        };
        let part = |len, from| Part { len, from, step };
        let parts = [
            part(place, None),
            part(kept, Some(first)),
            part(len - place - kept, None),
        ];
        parts.into_iter().filter(|part| part.len > 0).collect()
    }
}

/// Narrows each axis to the elements that are kept, in the shorter axis.
fn without_removed(layout: &Layout, kept: &[Kept]) -> Layout {
    let axes = kept.iter().enumerate();
    axes.fold(layout.clone(), |part, (axis, kept)| {
        part.narrow(axis, kept.first, kept.len, 1)
    })
}

/// Narrows each axis to the places of the elements that are kept, in the longer axis.
fn without_padding(layout: &Layout, kept: &[Kept]) -> Layout {
    let axes = kept.iter().enumerate();
    axes.fold(layout.clone(), |part, (axis, kept)| {
        part.narrow(axis, kept.place, kept.len, kept.step)
    })
}

/// Returns the elements of each axis of `whole` that a slice of shape `part` selects.
///
/// Also returns the axes that the slice reverses. Their elements are in ascending order here.
fn selected(of: &Equation<'_>, whole: &[usize], part: &[usize]) -> (Vec<Kept>, Vec<usize>) {
    let [starts, steps] = [StaticKind::Starts, StaticKind::Steps].map(|kind| ints(of.value(kind)));
    let (mut kept, mut reversed): (Vec<Kept>, _) =
        (part.iter().map(|len| Kept::all(*len)).collect(), Vec::new());
    for (axis, (&start, &step)) in starts.iter().zip(steps).enumerate() {
        let mut first = match start < 0 {
            true => start + whole[axis] as i64,
            false => start,
        };
        if part[axis] == 0 {
            first = 0;
        } else if step < 0 {
            first += (part[axis] as i64 - 1) * step;
        }
        if step < 0 && part[axis] > 1 {
            reversed.push(axis);
        }
        kept[axis].place = first as usize;
        kept[axis].step = step.unsigned_abs() as usize;
    }
    (kept, reversed)
}

/// Narrows each axis to the elements that a slice selects; `shape` is the shape of the slice.
///
/// Also returns the axes that the slice reverses. Their elements are in ascending order here.
fn narrow(layout: &Layout, of: &Equation<'_>, shape: &[usize]) -> (Layout, Vec<usize>) {
    let (kept, reversed) = selected(of, &layout.shape, shape);
    (without_padding(layout, &kept), reversed)
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

/// Returns the axis that a roll moves, and the index of its first element afterwards.
fn rolled(of: &Equation<'_>) -> (usize, usize) {
    let axis = of.axis(of.x().rank());
    let shift = i128::from(int(of.value(StaticKind::Offset)));
    let shift = if of.flag() { -shift } else { shift };
    let len = of.x().shape()[axis].max(1) as i128;
    (axis, shift.rem_euclid(len) as usize)
}

pub(super) fn roll(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let x = of.x();
    match rolled(of) {
        (_, 0) => x.clone(),
        (axis, start) => {
            let from = b.contiguous(x);
            let inner = numel(&x.shape()[axis + 1..]);
            let kernel = movement::roll(x.dtype(), x.shape()[axis] * inner, start * inner);
            b.kernel(&[&from], of.out(), kernel)
        }
    }
}

/// Number of elements of a row from which a group reads them one row after the other.
const LEAST_ROW: usize = 16;

/// Returns the result as the operand of a group, which then reads the elements of the first operand where they are.
///
/// Returns `None` for ops that do more than to place rows of elements among zeros. It also does so for a small part of
/// a value, which would keep all of it in memory until the group runs.
pub(crate) fn placed(b: &TaskBuilder, of: &Equation<'_>) -> Option<Operand> {
    let shape = of.outs.first()?.shape();
    let n = numel(of.args.first()?.shape());
    if n == 0 || b.is_small_part(of.x()) {
        return None;
    }
    let parts = |kept: Vec<Kept>| -> Vec<Parts> {
        let axes = kept.into_iter().zip(shape);
        axes.map(|(kept, len)| kept.parts(*len)).collect()
    };
    let mut layout = of.args.first()?.layout.clone();
    if layout.is_contiguous() {
        // The task gets no other elements.
        layout.offset = 0;
    }
    let parts = match of.op {
        _ if numel(shape) == 0 => return None,
        Op::Pad if !is_zero(of.value(StaticKind::Fill)) => return None,
        Op::Pad | Op::PadZeros => parts(kept(of, of.x().shape(), shape)),
        Op::SliceT => match selected(of, shape, of.x().shape()) {
            (kept, reversed) if reversed.is_empty() => parts(kept),
            _ => return None,
        },
        Op::SelectIndexT => {
            let (axis, index) = at_index(of, shape);
            layout.shape.insert(axis, 1);
            layout.strides.insert(axis, 0);
            let mut kept: Vec<Kept> = shape.iter().map(|len| Kept::all(*len)).collect();
            (kept[axis].place, kept[axis].len) = (index, 1);
            parts(kept)
        }
        Op::Roll => {
            let (axis, start) = rolled(of);
            let mut parts = parts(shape.iter().map(|len| Kept::all(*len)).collect());
            let rest = shape[axis] - start;
            let [moved, kept] = [(start, rest), (rest, 0)].map(|(len, from)| Part {
                len,
                from: Some(from),
                step: 1,
            });
            parts[axis] = match start {
                0 => return None,
                _ => smallvec![moved, kept],
            };
            parts
        }
        _ => return None,
    };
    let placed = Placed::new(&layout, parts);
    let rows = placed.row_of_memory()?;
    (rows >= LEAST_ROW).then(|| Operand {
        view: of.x().clone(),
        placed: Some(placed),
    })
}

/// Returns whether all bits of a number are 0.
fn is_zero(value: &Static) -> bool {
    match value {
        Static::Int(n) => *n == 0,
        Static::Float(x) => x.to_bits() == 0,
        Static::Bool(x) => !x,
        _ => false,
    }
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
            0 => Kept::all(0),
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
