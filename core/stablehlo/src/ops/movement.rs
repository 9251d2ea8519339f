//! Ops that move elements.

use crate::equation::Equation;
use crate::text::{Element, Margin, Order, Text, Value};

pub(super) fn broadcast_to(t: &mut Text, of: &Equation<'_>) -> Value {
    t.spread(of.x(), of.shape())
}

pub(super) use broadcast_to as broadcast_like;

pub(super) fn concat(t: &mut Text, of: &Equation<'_>) -> Value {
    let parts = of.promoted(t);
    let parts = &parts[..parts.len() / 2];
    let axis = of.axis(0, of.shape().len());
    t.concat(parts, axis)
}

/// Appends the consecutive parts of `x` along an axis, which have the lengths of the results.
fn parts(t: &mut Text, of: &Equation<'_>, axis: usize) -> Vec<Value> {
    let mut start = 0;
    let part = |out: &crate::equation::Type| {
        let stop = start + out.shape[axis];
        let part = t.part(of.x(), axis, start, stop);
        start = stop;
        part
    };
    of.outs.iter().map(part).collect()
}

pub(super) fn concat_t(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    let axis = of.axis(0, of.x().rank());
    parts(t, of, axis)
}

pub(super) fn split(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    let axis = of.axis(1, of.x().rank());
    parts(t, of, axis)
}

pub(super) fn stack(t: &mut Text, of: &Equation<'_>) -> Value {
    let axis = of.axis(0, of.shape().len());
    let mut lens = of.shape().to_vec();
    lens[axis] = 1;
    let parts: Vec<Value> = of.promoted(t).iter().map(|x| t.reshape(x, &lens)).collect();
    t.concat(&parts, axis)
}

pub(super) fn unbind(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    let axis = of.axis(0, of.x().rank());
    let part = |i: usize| {
        let part = t.part(of.x(), axis, i, i + 1);
        t.reshape(&part, &of.outs[i].shape)
    };
    (0..of.outs.len()).map(part).collect()
}

pub(super) fn transpose(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes: Vec<usize> = (0..of.x().rank()).rev().collect();
    t.transpose(of.x(), &axes)
}

/// Returns the axes of a permutation.
fn permutation(of: &Equation<'_>) -> Vec<usize> {
    let rank = of.x().rank() as i64;
    let axes = of.ints(0).iter();
    axes.map(|axis| if *axis < 0 { axis + rank } else { *axis } as usize)
        .collect()
}

pub(super) fn permute(t: &mut Text, of: &Equation<'_>) -> Value {
    t.transpose(of.x(), &permutation(of))
}

pub(super) fn permute_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes = permutation(of);
    let mut inverse = vec![0; axes.len()];
    for (i, axis) in axes.into_iter().enumerate() {
        inverse[axis] = i;
    }
    t.transpose(of.x(), &inverse)
}

pub(super) fn swap_axes(t: &mut Text, of: &Equation<'_>) -> Value {
    let rank = of.x().rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(of.axis(0, rank), of.axis(1, rank));
    t.transpose(of.x(), &axes)
}

pub(super) fn moveaxis(t: &mut Text, of: &Equation<'_>) -> Value {
    let rank = of.x().rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    let moved = axes.remove(of.axis(0, rank));
    axes.insert(of.axis(1, rank), moved);
    t.transpose(of.x(), &axes)
}

pub(super) fn reshape(t: &mut Text, of: &Equation<'_>) -> Value {
    t.reshape(of.x(), of.shape())
}

pub(super) use {reshape as reshape_t, reshape as squeeze, reshape as unsqueeze};

/// A range of indices of an axis with a positive step, and whether it is read backwards.
struct Range {
    start: usize,
    stop: usize,
    step: usize,
    is_reversed: bool,
}

impl Range {
    /// Returns the ranges of all axes that `slice` reads of a value of shape `whole`, with results of shape `part`.
    fn all(of: &Equation<'_>, whole: &[usize], part: &[usize]) -> Vec<Range> {
        let starts = of.ints(0).iter().zip(of.ints(2));
        let given = starts.enumerate().map(|(axis, (&start, &step))| {
            let first = if start < 0 {
                start + whole[axis] as i64
            } else {
                start
            };
            let n = part[axis] as i64;
            // The least index that is read.
            let least = if step < 0 {
                first + (n - 1) * step
            } else {
                first
            };
            let (least, step_by) = if n == 0 {
                (0, 1)
            } else {
                (least, step.unsigned_abs() as usize)
            };
            let start = least as usize;
            Range {
                start,
                stop: if n == 0 {
                    0
                } else {
                    start + (n as usize - 1) * step_by + 1
                },
                step: step_by,
                is_reversed: step < 0,
            }
        });
        let rest = whole[of.ints(0).len()..].iter().map(|len| Range {
            start: 0,
            stop: *len,
            step: 1,
            is_reversed: false,
        });
        given.chain(rest).collect()
    }

    fn reversed(ranges: &[Range]) -> Vec<usize> {
        (0..ranges.len())
            .filter(|axis| ranges[*axis].is_reversed)
            .collect()
    }

    /// Appends a part of shape `part` at the ranges of a value of shape `whole`, among numbers.
    fn place(t: &mut Text, ranges: &[Range], part: &Value, whole: &[usize], among: i64) -> Value {
        let part = t.reverse(part, &Range::reversed(ranges));
        let margin = |(axis, range): (usize, &Range)| Margin {
            low: range.start as i64,
            high: whole[axis] as i64 - range.stop as i64,
            interior: range.step as i64 - 1,
        };
        let margins: Vec<Margin> = ranges.iter().enumerate().map(margin).collect();
        t.pad(&part, among, &margins)
    }
}

pub(super) fn slice(t: &mut Text, of: &Equation<'_>) -> Value {
    let ranges = Range::all(of, &of.x().shape, of.shape());
    let limits: Vec<[usize; 3]> = ranges.iter().map(|r| [r.start, r.stop, r.step]).collect();
    let part = t.slice(of.x(), &limits);
    t.reverse(&part, &Range::reversed(&ranges))
}

pub(super) fn slice_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let ranges = Range::all(of, of.shape(), &of.x().shape);
    Range::place(t, &ranges, of.x(), of.shape(), 0)
}

pub(super) fn set_slice(t: &mut Text, of: &Equation<'_>) -> Value {
    let (x, updates) = (of.x(), of.y());
    let ranges = Range::all(of, &x.shape, &updates.shape);
    let placed = Range::place(t, &ranges, updates, &x.shape, 0);
    let written = match of.flag(3) {
        true => placed,
        false => t.add(x, &placed),
    };
    let hit = t.full(1, Element::I1, &updates.shape);
    let hit = Range::place(t, &ranges, &hit, &x.shape, 0);
    t.select(&hit, &written, x)
}

/// Returns the index of static argument 1 on the axis of static argument 0.
fn selected(of: &Equation<'_>, whole: &[usize]) -> (usize, usize) {
    let axis = of.axis(0, whole.len());
    (
        axis,
        of.int(1).rem_euclid(whole[axis].max(1) as i64) as usize,
    )
}

pub(super) fn select_index(t: &mut Text, of: &Equation<'_>) -> Value {
    let (axis, index) = selected(of, &of.x().shape);
    let part = t.part(of.x(), axis, index, index + 1);
    t.reshape(&part, of.shape())
}

pub(super) fn select_index_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let whole = of.shape();
    let (axis, index) = selected(of, whole);
    let mut lens = whole.to_vec();
    lens[axis] = 1;
    let part = t.reshape(of.x(), &lens);
    let mut margins = vec![Margin::default(); whole.len()];
    margins[axis].low = index as i64;
    margins[axis].high = whole[axis] as i64 - index as i64 - 1;
    t.pad(&part, 0, &margins)
}

pub(super) fn flip(t: &mut Text, of: &Equation<'_>) -> Value {
    let axes = of.axes(0, of.x().rank());
    t.reverse(of.x(), &axes)
}

pub(super) fn roll(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = of.x();
    let axis = of.axis(1, x.rank());
    let n = x.shape[axis];
    let shift = if of.flag(2) { -of.int(0) } else { of.int(0) };
    let at = (-shift).rem_euclid(n.max(1) as i64) as usize;
    if at == 0 {
        return x.clone();
    }
    let parts = [t.part(x, axis, at, n), t.part(x, axis, 0, at)];
    t.concat(&parts, axis)
}

/// Appends whether `column - row` is in an order with a number, for matrices of a shape.
pub(super) fn diagonal_mask(t: &mut Text, order: Order, offset: i64, shape: &[usize]) -> Value {
    let rank = shape.len();
    let row = t.iota(rank - 2, Element::I64, shape);
    let column = t.iota(rank - 1, Element::I64, shape);
    let gap = t.sub(&column, &row);
    t.compare_to(order, &gap, offset)
}

fn triangle(t: &mut Text, of: &Equation<'_>, order: Order) -> Value {
    let mask = diagonal_mask(t, order, of.int(0), of.shape());
    let zero = t.full_like(0, of.x());
    t.select(&mask, of.x(), &zero)
}

pub(super) fn tril(t: &mut Text, of: &Equation<'_>) -> Value {
    triangle(t, of, Order::Le)
}

pub(super) fn triu(t: &mut Text, of: &Equation<'_>) -> Value {
    triangle(t, of, Order::Ge)
}

/// Appends a diagonal of matrices, which has `len` elements.
///
/// In a square matrix of rows in a row, the elements of the diagonal are `len + 1` apart.
fn diagonal_of(t: &mut Text, x: &Value, offset: i64, len: usize) -> Value {
    let lead = x.rank() - 2;
    let shape = [&x.shape[..lead], &[len]].concat();
    if shape.contains(&0) {
        return t.full(0, x.element, &shape);
    }
    let (row, column) = ((-offset).max(0) as usize, offset.max(0) as usize);
    let square = t.part(x, lead, row, row + len);
    let square = t.part(&square, lead + 1, column, column + len);
    let flat = t.reshape(&square, &[&x.shape[..lead], &[len * len]].concat());
    let mut ranges: Vec<[usize; 3]> = flat.shape.iter().map(|len| [0, *len, 1]).collect();
    ranges[lead][2] = len + 1;
    t.slice(&flat, &ranges)
}

/// Appends matrices of zeros of a shape with a diagonal.
fn matrices(t: &mut Text, x: &Value, offset: i64, whole: &[usize]) -> Value {
    let lead = whole.len() - 2;
    let len = x.shape[lead];
    if x.shape.contains(&0) {
        return t.full(0, x.element, whole);
    }
    let mut margins = vec![Margin::default(); lead + 1];
    margins[lead].interior = len as i64;
    let flat = t.pad(x, 0, &margins);
    let square = t.reshape(&flat, &[&whole[..lead], &[len, len]].concat());
    let mut margins = vec![Margin::default(); lead + 2];
    for (axis, low) in [(lead, (-offset).max(0)), (lead + 1, offset.max(0))] {
        margins[axis].low = low;
        margins[axis].high = whole[axis] as i64 - len as i64 - low;
    }
    t.pad(&square, 0, &margins)
}

pub(super) fn diagonal(t: &mut Text, of: &Equation<'_>) -> Value {
    let len = of.shape()[of.shape().len() - 1];
    diagonal_of(t, of.x(), of.int(0), len)
}

pub(super) use diagonal as diag_t;

pub(super) fn diag(t: &mut Text, of: &Equation<'_>) -> Value {
    matrices(t, of.x(), of.int(0), of.shape())
}

pub(super) use diag as diagonal_t;

/// Returns the padding of each axis.
fn margins(of: &Equation<'_>, rank: usize) -> Vec<Margin> {
    let each = |i: usize| match of.ints(i) {
        [one] => vec![*one; rank],
        all => all.to_vec(),
    };
    let (low, high, interior) = (each(0), each(1), each(2));
    let margin = |axis: usize| Margin {
        low: low[axis],
        high: high[axis],
        interior: interior[axis],
    };
    (0..rank).map(margin).collect()
}

pub(super) fn pad(t: &mut Text, of: &Equation<'_>) -> Value {
    t.pad(of.x(), &of.statics[3], &margins(of, of.x().rank()))
}

pub(super) fn pad_zeros(t: &mut Text, of: &Equation<'_>) -> Value {
    t.pad(of.x(), 0, &margins(of, of.x().rank()))
}

/// Appends the elements without their padding. Elements that the padding removes get 0.
pub(super) fn pad_zeros_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let (whole, margins) = (of.shape(), margins(of, of.shape().len()));
    if whole.contains(&0) {
        return t.full(0, of.x().element, whole);
    }
    let outer = margins.iter().enumerate().map(|(axis, m)| {
        let spread = (whole[axis] as i64 - 1) * (m.interior + 1) + 1;
        // The padded axis is cut or extended to the elements with their gaps.
        Margin {
            low: -m.low,
            high: spread + m.low - of.x().shape[axis] as i64,
            interior: 0,
        }
    });
    let outer: Vec<Margin> = outer.collect();
    let spread = t.pad(of.x(), 0, &outer);
    let range = |(len, m): (&usize, &Margin)| [0, *len, m.interior as usize + 1];
    let ranges: Vec<[usize; 3]> = spread.shape.iter().zip(&margins).map(range).collect();
    t.slice(&spread, &ranges)
}

pub(super) fn upsample(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = of.x();
    let factors = of.ints(0);
    let first = x.rank() - factors.len();
    let mut shape = x.shape[..first].to_vec();
    let mut axes: Vec<usize> = (0..first).collect();
    for (len, factor) in x.shape[first..].iter().zip(factors) {
        axes.push(shape.len());
        shape.extend([*len, *factor as usize]);
    }
    let repeated = t.broadcast(x, &axes, &shape);
    t.reshape(&repeated, of.shape())
}

pub(super) fn upsample_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let whole = of.shape();
    let factors = of.ints(0);
    let first = whole.len() - factors.len();
    let mut shape = whole[..first].to_vec();
    let mut axes = Vec::new();
    for (len, factor) in whole[first..].iter().zip(factors) {
        axes.push(shape.len() + 1);
        shape.extend([*len, *factor as usize]);
    }
    let parts = t.reshape(of.x(), &shape);
    t.reduce("add", &parts, 0, &axes)
}
