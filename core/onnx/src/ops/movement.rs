//! Ops that make or move elements.

use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Value};
use crate::proto::Attribute;
use gradloom_ir::{DType, StaticKind};

pub(super) fn full(g: &mut Graph, of: &Equation<'_>) -> Value {
    let at = of
        .op
        .static_at(StaticKind::Number)
        .expect("the op has a number");
    g.full(of.dtype(), &of.statics[at], of.shape())
}

pub(super) use {full as full_like, full as scalar};

pub(super) fn iota(g: &mut Graph, of: &Equation<'_>) -> Value {
    g.iota(0, of.dtype(), of.shape())
}

pub(super) fn eye(g: &mut Graph, of: &Equation<'_>) -> Value {
    let diagonal = on_diagonal(g, of.shape());
    g.convert(&diagonal, of.dtype())
}

/// Appends whether an element of matrices is on the main diagonal.
fn on_diagonal(g: &mut Graph, shape: &[usize]) -> Value {
    let matrix = &shape[shape.len() - 2..];
    let [row, column] = [0, 1].map(|axis| g.iota(axis, DType::I64, matrix));
    g.compare("Equal", &row, &column)
}

pub(super) fn broadcast_to(g: &mut Graph, of: &Equation<'_>) -> Value {
    g.expand(of.x(), of.shape())
}

pub(super) use broadcast_to as broadcast_like;

pub(super) fn concat(g: &mut Graph, of: &Equation<'_>) -> Value {
    let parts = of.promoted(g);
    g.concat(&parts, of.axis(0, of.shape().len()))
}

/// Appends the consecutive parts of `x` along an axis, which have the lengths of the results.
fn parts(g: &mut Graph, of: &Equation<'_>, axis: usize) -> Vec<Value> {
    let mut start = 0;
    let part = |(_, shape): &(DType, Vec<usize>)| {
        let stop = start + shape[axis];
        let part = g.part(of.x(), axis, start, stop);
        start = stop;
        part
    };
    of.outs.iter().map(part).collect()
}

pub(super) fn concat_t(g: &mut Graph, of: &Equation<'_>) -> Vec<Value> {
    parts(g, of, of.axis(0, of.x().rank()))
}

pub(super) fn split(g: &mut Graph, of: &Equation<'_>) -> Vec<Value> {
    parts(g, of, of.axis(1, of.x().rank()))
}

pub(super) fn stack(g: &mut Graph, of: &Equation<'_>) -> Value {
    let axis = of.axis(0, of.shape().len());
    let mut lens = of.shape().to_vec();
    lens[axis] = 1;
    let parts: Vec<Value> = of.promoted(g).iter().map(|x| g.reshape(x, &lens)).collect();
    g.concat(&parts, axis)
}

pub(super) fn unbind(g: &mut Graph, of: &Equation<'_>) -> Vec<Value> {
    let axis = of.axis(0, of.x().rank());
    let part = |i: usize| {
        let part = g.part(of.x(), axis, i, i + 1);
        g.reshape(&part, &of.outs[i].1)
    };
    (0..of.outs.len()).map(part).collect()
}

pub(super) fn transpose(g: &mut Graph, of: &Equation<'_>) -> Value {
    let axes: Vec<usize> = (0..of.x().rank()).rev().collect();
    g.transpose(of.x(), &axes)
}

/// Returns the axes of a permutation.
fn permutation(of: &Equation<'_>) -> Vec<usize> {
    let rank = of.x().rank() as i64;
    let axes = of.ints(0).iter();
    axes.map(|axis| axis.rem_euclid(rank.max(1)) as usize)
        .collect()
}

pub(super) fn permute(g: &mut Graph, of: &Equation<'_>) -> Value {
    g.transpose(of.x(), &permutation(of))
}

pub(super) fn permute_t(g: &mut Graph, of: &Equation<'_>) -> Value {
    let axes = permutation(of);
    let mut inverse = vec![0; axes.len()];
    for (i, axis) in axes.into_iter().enumerate() {
        inverse[axis] = i;
    }
    g.transpose(of.x(), &inverse)
}

pub(super) fn swap_axes(g: &mut Graph, of: &Equation<'_>) -> Value {
    let rank = of.x().rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(of.axis(0, rank), of.axis(1, rank));
    g.transpose(of.x(), &axes)
}

pub(super) fn moveaxis(g: &mut Graph, of: &Equation<'_>) -> Value {
    let rank = of.x().rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    let moved = axes.remove(of.axis(0, rank));
    axes.insert(of.axis(1, rank), moved);
    g.transpose(of.x(), &axes)
}

pub(super) fn reshape(g: &mut Graph, of: &Equation<'_>) -> Value {
    g.reshape(of.x(), of.shape())
}

pub(super) use {reshape as reshape_t, reshape as squeeze, reshape as unsqueeze};

/// Returns the first index, the number of elements, and the step of each axis that `slice` reads.
fn ranges(of: &Equation<'_>, whole: &[usize], part: &[usize]) -> Vec<(i64, usize, i64)> {
    let starts = of.ints(0).iter().zip(of.ints(2)).enumerate();
    let given = starts.map(|(axis, (&start, &step))| {
        let first = if start < 0 {
            start + whole[axis] as i64
        } else {
            start
        };
        (first, part[axis], step)
    });
    let rest = whole[of.ints(0).len()..].iter().map(|len| (0, *len, 1));
    given.chain(rest).collect()
}

pub(super) fn slice(g: &mut Graph, of: &Equation<'_>) -> Value {
    let ranges = ranges(of, &of.x().shape, of.shape());
    g.slice(of.x(), &ranges)
}

/// The updates and a mask, padded to the shape of the tensor.
pub(super) fn set_slice(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    let [x, updates] = of.pair(g);
    let ranges = ranges(of, &x.shape, &updates.shape);
    if updates.numel() == 0 {
        return Ok(x);
    }
    if ranges.iter().any(|(_, n, step)| *step != 1 && *n > 1) {
        return of.refused("ONNX pads with single elements only, so the steps must be 1");
    }
    let margin = |((first, n, _), len): (&(i64, usize, i64), &usize)| {
        [*first, *len as i64 - first - *n as i64]
    };
    let margins: Vec<[i64; 2]> = ranges.iter().zip(&x.shape).map(margin).collect();
    let hit = g.full(DType::I32, 1i64, &updates.shape);
    let hit = g.pad(&hit, 0i64, &margins);
    let hit = g.convert(&hit, DType::Bool);
    let placed = g.pad(&updates, 0i64, &margins);
    let written = match of.flag(3) {
        true => placed,
        false => g.same("Add", &[&x, &placed]),
    };
    Ok(g.select(&hit, &written, &x))
}

/// Appends the elements of `x` along axes in reverse order.
pub(super) fn flip(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = of.x();
    let axes = of.axes(0, x.rank());
    let range = |(axis, len): (usize, &usize)| match axes.contains(&axis) {
        true => (*len as i64 - 1, *len, -1),
        false => (0, *len, 1),
    };
    let ranges: Vec<(i64, usize, i64)> = x.shape.iter().enumerate().map(range).collect();
    g.slice(x, &ranges)
}

pub(super) fn roll(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = of.x();
    let axis = of.axis(1, x.rank());
    let n = x.shape[axis];
    let shift = if of.flag(2) { -of.int(0) } else { of.int(0) };
    let at = (-shift).rem_euclid(n.max(1) as i64) as usize;
    if at == 0 {
        return x.clone();
    }
    let parts = [g.part(x, axis, at, n), g.part(x, axis, 0, at)];
    g.concat(&parts, axis)
}

fn triangle(g: &mut Graph, of: &Equation<'_>, is_upper: bool) -> Value {
    let x = of.x();
    let k = g.number(DType::I64, of.int(0));
    let upper = [Attribute::Int("upper", is_upper.into())];
    g.node("Trilu", &[x, &k], &upper, (x.dtype, &x.shape))
}

pub(super) fn tril(g: &mut Graph, of: &Equation<'_>) -> Value {
    triangle(g, of, false)
}

pub(super) fn triu(g: &mut Graph, of: &Equation<'_>) -> Value {
    triangle(g, of, true)
}

/// Appends a diagonal of matrices: elements of their rows in a row.
pub(super) fn diagonal(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, offset) = (of.x(), of.int(0));
    let lead = x.rank() - 2;
    let columns = x.shape[lead + 1];
    let (row, column) = ((-offset).max(0), offset.max(0));
    let len = of.shape()[lead] as i64;
    let at = |i: i64| (row + i) * columns as i64 + column + i;
    let indices: Vec<i64> = (0..len).map(at).collect();
    let flat = g.reshape(x, &[&x.shape[..lead], &[x.shape[lead] * columns]].concat());
    let indices = g.ints(&indices);
    let axis = [Attribute::Int("axis", lead as i64)];
    g.node("Gather", &[&flat, &indices], &axis, (x.dtype, of.shape()))
}

pub(super) use diagonal as diag_t;

/// Appends matrices of zeros with a diagonal: its elements, padded to the rows, where row and column meet.
pub(super) fn diag(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, whole, offset) = (of.x(), of.shape(), of.int(0));
    let lead = whole.len() - 2;
    let (rows, columns) = (whole[lead], whole[lead + 1]);
    let low = (-offset).max(0);
    let mut margins = vec![[0, 0]; lead + 1];
    margins[lead] = [low, rows as i64 - low - x.shape[lead] as i64];
    let x = g.pad(x, 0i64, &margins);
    let x = g.reshape(&x, &[&whole[..lead], &[rows, 1]].concat());
    let row = g.iota(0, DType::I64, &[rows, 1]);
    let row = g.with("Add", &row, offset);
    let column = g.iota(1, DType::I64, &[1, columns]);
    let hit = g.compare("Equal", &row, &column);
    let zero = g.number(x.dtype, 0i64);
    let y = g.select(&hit, &x, &zero);
    g.reshape(&y, whole)
}

pub(super) use diag as diagonal_t;

/// Appends a padded tensor. `fill` is the position of the static argument with the number.
fn padded(g: &mut Graph, of: &Equation<'_>, fill: Option<usize>) -> Result<Value, ExportError> {
    let x = of.x();
    let each = |i: usize| match of.ints(i) {
        [one] => vec![*one; x.rank()],
        all => all.to_vec(),
    };
    let (low, high, interior) = (each(0), each(1), each(2));
    if interior
        .iter()
        .zip(&x.shape)
        .any(|(gap, len)| *gap != 0 && *len > 1)
    {
        return of.refused("ONNX does not pad between elements");
    }
    let margins: Vec<[i64; 2]> = low.into_iter().zip(high).map(|(l, h)| [l, h]).collect();
    Ok(match fill {
        Some(i) => g.pad(x, &of.statics[i], &margins),
        None => g.pad(x, 0i64, &margins),
    })
}

pub(super) fn pad(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    padded(g, of, Some(3))
}

pub(super) fn pad_zeros(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    padded(g, of, None)
}

pub(super) fn upsample(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, factors) = (of.x(), of.ints(0));
    let first = x.rank() - factors.len();
    let [mut apart, mut repeated] = [x.shape[..first].to_vec(), x.shape[..first].to_vec()];
    for (len, factor) in x.shape[first..].iter().zip(factors) {
        apart.extend([*len, 1]);
        repeated.extend([*len, *factor as usize]);
    }
    let x = g.reshape(x, &apart);
    let x = g.expand(&x, &repeated);
    g.reshape(&x, of.shape())
}
