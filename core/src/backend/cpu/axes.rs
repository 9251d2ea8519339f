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
    let repeats = match by {
        Fold::Max | Fold::Min => Repeats::Any,
        Fold::Sum | Fold::Product if !dtype.is_float() => Repeats::Kept,
        Fold::Sum => Repeats::Rounded { first: 1 },
        Fold::Product => Repeats::Rounded { first: 2 },
    };
    fold_once(b, x, axes, out, repeats, |b, x, made| {
        let order = memory_order(x);
        if !matches!(repeats, Repeats::Rounded { .. }) {
            return fold_in_order(b, x, axes, made, &order, kernels);
        }
        if by == Fold::Sum && is_across(x, axes) {
            let dense = &|arb| reduce::sum_across(dtype, arb);
            return fold_in_order(b, x, axes, made, &order, Kernels { dense, ..kernels });
        }
        fold_in_order(b, x, axes, made, &rounded_order(x, axes), kernels)
    })
}

/// Axes of which a reduction reads a repeated element once.
#[derive(Clone, Copy)]
enum Repeats {
    /// All axes: an element folded with itself is the element. Only NaN may become another NaN.
    Any,
    /// Kept axes.
    Kept,
    /// Kept axes of an operation that rounds. Its order depends on whether there are several results.
    ///
    /// `first` is the least number of results along the axes before the first reduced one.
    Rounded { first: usize },
}

/// Calls `fold` with a view of `x` without repeated elements, and with the type of its result.
///
/// The result is broadcast to the shape of `out`.
fn fold_once(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    repeats: Repeats,
    fold: impl FnOnce(&mut TaskBuilder, &View, &Aval) -> View,
) -> View {
    let is_kept = |axis: &usize| !axes.contains(axis);
    let kept: Vec<usize> = (0..x.rank()).filter(is_kept).collect();
    let lens = |x: &View| -> Vec<usize> { kept.iter().map(|&axis| x.shape()[axis]).collect() };
    let mut once = x.clone();
    for axis in 0..x.rank() {
        let len = match repeats {
            Repeats::Any => 1,
            _ if !is_kept(&axis) => continue,
            Repeats::Kept => 1,
            Repeats::Rounded { first } => {
                // Kept axes that are neighbours keep at least this many results.
                let start = axes.iter().filter(|reduced| **reduced < axis).max();
                let end = axes.iter().filter(|reduced| **reduced > axis).min();
                let least = if start.is_none() { first } else { 2 };
                let neighbours = start.map_or(0, |i| i + 1)..end.map_or(x.rank(), |i| *i);
                let others = neighbours.filter(|other| *other != axis);
                let n: usize = others.map(|other| once.shape()[other]).product();
                if n < least { least } else { 1 }
            }
        };
        if x.layout.strides[axis] == 0 && x.shape()[axis] > len {
            once = once.narrow(axis, 0, len);
        }
    }
    let mut y = fold(b, &once, &Aval::new(out.dtype(), lens(&once)));
    for (i, &axis) in kept.iter().enumerate() {
        if once.shape()[axis] != x.shape()[axis] {
            y = y.narrow(i, 0, 1);
        }
    }
    b.reshape(&y.broadcast_to(&lens(x)), out.shape())
}

/// Axes of a reduction in an order in which the reduced ones are neighbours.
struct Arranged {
    kept: Vec<usize>,
    /// Number of kept axes before the reduced ones.
    before: usize,
    reduced: Vec<usize>,
}

impl Arranged {
    /// Keeps the order of the axes. Reduced axes that are not neighbours become the last ones.
    fn in_order(x: &View, axes: &[usize]) -> Arranged {
        let (reduced, kept): (Vec<usize>, Vec<usize>) =
            (0..x.rank()).partition(|axis| axes.contains(axis));
        let long = |axis: &&usize| x.shape()[**axis] > 1;
        let first = reduced.iter().find(long).filter(|_| is_one_group(x, axes));
        let before = match first {
            Some(first) => kept.iter().filter(|axis| *axis < first).count(),
            None => kept.len(),
        };
        Arranged {
            kept,
            before,
            reduced,
        }
    }

    fn order(&self) -> Vec<usize> {
        let (before, after) = self.kept.split_at(self.before);
        [before, &self.reduced, after].concat()
    }
}

/// Returns whether the reduced axes are neighbours.
fn is_one_group(x: &View, axes: &[usize]) -> bool {
    let groups = neighbours(x.shape(), axes);
    groups.iter().filter(|group| group.1).count() == 1
}

/// Arranges the kept axes in the order of memory, on both sides of the reduced ones.
///
/// Rows stay rows: no axes are after the reduced ones. Columns stay columns: an axis of several elements is after them.
fn arrange(x: &View, axes: &[usize]) -> Arranged {
    let is_reduced = |axis: &usize| axes.contains(axis);
    let [shape, strides] = [x.shape(), &x.layout.strides];
    let reduced: Vec<usize> = (0..x.rank()).filter(is_reduced).collect();
    let mut kept = memory_order(x);
    kept.retain(|axis| !is_reduced(axis));
    let is_column = matches!(
        neighbours(shape, axes)[..],
        [(_, true), (_, false)] | [(_, false), (_, true), (_, false)]
    );
    let mut before = kept.len();
    if is_column {
        let long = reduced.iter().filter(|axis| shape[**axis] > 1);
        let stride = long.map(|axis| strides[*axis]).max().unwrap_or(0);
        let inside = |axis: &usize| shape[*axis] > 1 && strides[*axis] < stride;
        let several = |i: &usize| kept[*i..].iter().any(|axis| shape[*axis] > 1);
        before = kept.iter().position(inside).unwrap_or(before);
        before = (0..=before).rfind(several).unwrap_or(0);
    }
    Arranged {
        kept,
        before,
        reduced,
    }
}

/// Number of columns from which they are added up in the order of rows faster than they become rows.
const WIDE: usize = 40;

/// Returns whether rows are reduced that lie across those of a contiguous operand, in the same order.
fn is_across(x: &View, axes: &[usize]) -> bool {
    let order = memory_order(x);
    let mut moved = order.clone();
    moved.retain(|axis| axes.contains(axis));
    let memory = x.permute(&order);
    let reduced: Vec<usize> = (0..order.len())
        .filter(|i| axes.contains(&order[*i]))
        .collect();
    !x.layout.is_contiguous()
        && memory.layout.is_contiguous()
        && moved.is_sorted()
        && is_one_group(&memory, &reduced)
        && matches!(neighbours(x.shape(), axes)[..], [(_, false), (_, true)])
        && neighbours(memory.shape(), &reduced)
            .last()
            .is_some_and(|group| group.0 >= WIDE)
}

/// Reduces `axes` of bools.
fn fold_bools(b: &mut TaskBuilder, of: &Equation<'_>, by: BoolFold) -> View {
    let kernels = Kernels {
        dense: &|arb| reduce::fold_bools(arb, by),
        view: &|layout, arb| reduce::fold_bools_view(layout, arb, by),
    };
    let axes = of.axes();
    fold_once(b, of.x(), &axes, of.out(), Repeats::Any, |b, x, made| {
        fold_in_order(b, x, &axes, made, &memory_order(x), kernels)
    })
}

/// Kernels of a reduction of the middle axis of `[a, r, b]`.
#[derive(Clone, Copy)]
struct Kernels<'a> {
    /// For elements in row-major order.
    dense: &'a dyn Fn([usize; 3]) -> Prepared,
    /// For elements of a layout, if there is such a kernel.
    view: &'a dyn Fn(&Layout, [usize; 3]) -> Option<Prepared>,
}

/// Reduces `axes` with the axes in another order, such as that of memory.
fn fold_in_order(
    b: &mut TaskBuilder,
    x: &View,
    axes: &[usize],
    out: &Aval,
    order: &[usize],
    kernels: Kernels<'_>,
) -> View {
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
    let y = fold_by(b, &x.permute(order), &reduced, &made, kernels);
    b.reshape(&y.permute(&places(&kept)), out.shape())
}

/// Returns an order of axes near that of memory in which a reduction rounds the same.
fn rounded_order(x: &View, axes: &[usize]) -> Vec<usize> {
    match is_one_group(x, axes) {
        true => arrange(x, axes).order(),
        false => (0..x.rank()).collect(),
    }
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
    rows::each_row(b, out, n_rows, [(x, Read::Row)], by, |rows| rows)
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
    let (axes, dtype) = (of.axes(), of.x().dtype());
    fold_once(b, of.x(), &axes, of.out(), Repeats::Kept, |b, x, made| {
        let mut arranged = arrange(x, &axes);
        if !x.permute(&arranged.order()).layout.is_contiguous() {
            arranged = Arranged::in_order(x, &axes);
        }
        let from = x.permute(&arranged.order());
        let lens = |axes: &[usize]| axes.iter().map(|axis| x.shape()[*axis]).collect::<Vec<_>>();
        let (before, after) = arranged.kept.split_at(arranged.before);
        let arb = [before, &axes[..], after].map(|axes| numel(&lens(axes)));
        let to = Aval::new(made.dtype(), lens(&arranged.kept));
        let of_view = match from.layout.is_contiguous() {
            true => None,
            false => reduce::arg_fold_view(dtype, &from.layout, arb, by),
        };
        let y = match of_view {
            Some(kernel) => b.strided_kernel(&[&from], &to, kernel),
            None => {
                let from = b.contiguous(&from);
                reduction(b, &from, &to, arb, reduce::arg_fold(dtype, arb, by))
            }
        };
        y.permute(&places(&arranged.kept))
    })
}

/// Returns the places of axes after these are sorted.
fn places(axes: &[usize]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..axes.len()).collect();
    places.sort_by_key(|i| axes[*i]);
    places
}
