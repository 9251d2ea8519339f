//! Ops that read and write at computed indices. A negative index counts from the end.

use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Value};
use crate::proto::Attribute;
use gradloom_ir::DType;

pub(super) fn one_hot(g: &mut Graph, of: &Equation<'_>) -> Value {
    let labels = of.x();
    let classes = g.iota(labels.rank(), labels.dtype, of.shape());
    let labels = g.reshape(labels, &[&labels.shape[..], &[1]].concat());
    let hit = g.compare("Equal", &labels, &classes);
    g.convert(&hit, of.dtype())
}

pub(super) fn take(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    let (x, shape) = (of.x(), of.shape());
    let axis = of.axis(0, x.rank());
    if of.flag(2) {
        return of.refused("ONNX reads the slices of equal indices several times");
    }
    let at = [Attribute::Int("axis", axis as i64)];
    let (is_along, i) = (of.flag(1), g.convert(of.y(), DType::I64));
    if !is_along {
        return Ok(g.node("Gather", &[x, &i], &at, (x.dtype, shape)));
    }
    let mut whole = shape.to_vec();
    whole[axis] = x.shape[axis];
    let x = g.expand(x, &whole);
    let i = g.expand(&i, shape);
    Ok(g.node("GatherElements", &[&x, &i], &at, (x.dtype, shape)))
}

/// Appends `x` with updates combined with the elements at indices of an axis.
fn scattered(
    g: &mut Graph,
    of: &Equation<'_>,
    x: &Value,
    updates: &Value,
    reduction: &str,
) -> Value {
    let axis = of.axis(0, x.rank());
    let i = g.convert(of.y(), DType::I64);
    let (i, updates) = match of.flag(1) {
        true => (g.expand(&i, &updates.shape), updates.clone()),
        // The axes of the indices become one, and each index stands for a slice.
        false => {
            let mut lens = vec![1; x.rank()];
            lens[axis] = i.numel();
            let mut part = x.shape.clone();
            part[axis] = i.numel();
            let i = g.reshape(&i, &lens);
            (g.expand(&i, &part), g.reshape(updates, &part))
        }
    };
    let by = [
        Attribute::Int("axis", axis as i64),
        Attribute::Text("reduction", reduction),
    ];
    g.node(
        "ScatterElements",
        &[x, &i, &updates],
        &by,
        (x.dtype, &x.shape),
    )
}

pub(super) fn scatter(g: &mut Graph, of: &Equation<'_>) -> Value {
    let reduction = if of.flag(2) { "none" } else { "add" };
    scattered(g, of, of.x(), &of.args[2], reduction)
}

pub(super) fn scatter_extreme(g: &mut Graph, of: &Equation<'_>) -> Value {
    let reduction = if of.flag(2) { "max" } else { "min" };
    scattered(g, of, of.x(), &of.args[2], reduction)
}

/// A sum of rows is made of it.
pub(super) fn take_t(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    if of.flag(1) || of.flag(2) {
        return of.refused("it is part of a derivative, and ONNX models are for inference");
    }
    let zeros = g.full(of.dtype(), 0i64, of.shape());
    Ok(scattered(g, of, &zeros, of.x(), "add"))
}

pub(super) fn select_index(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = of.x();
    let axis = of.axis(0, x.rank());
    let index = of.int(1).rem_euclid(x.shape[axis].max(1) as i64) as usize;
    let part = g.part(x, axis, index, index + 1);
    g.reshape(&part, of.shape())
}

/// Appends the index of each axis of a tensor of shape `whole` from which a part starts, as a list.
fn starts(g: &mut Graph, of: &Equation<'_>, whole: &[usize], part: &[usize]) -> Value {
    let n = of.y().numel();
    let starts = g.reshape(of.y(), &[n]);
    let starts = g.convert(&starts, DType::I64);
    let lens: Vec<i64> = whole[..n].iter().map(|len| *len as i64).collect();
    let last = whole[..n]
        .iter()
        .zip(part)
        .map(|(len, part)| (len - part) as i64);
    let last: Vec<i64> = last.collect();
    let [lens, last] = [lens, last].map(|all| g.ints(&all));
    let negative = g.compare_with("Less", &starts, 0i64);
    let wrapped = g.binary("Add", &starts, &lens);
    let starts = g.select(&negative, &wrapped, &starts);
    let starts = g.with("Max", &starts, 0i64);
    g.binary("Min", &starts, &last)
}

pub(super) fn dynamic_slice(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, part) = (of.x(), of.shape());
    let n = of.y().numel();
    if n == 0 {
        return x.clone();
    }
    let starts = starts(g, of, &x.shape, part);
    let lens: Vec<i64> = part[..n].iter().map(|len| *len as i64).collect();
    let lens = g.ints(&lens);
    let ends = g.binary("Add", &starts, &lens);
    let axes: Vec<i64> = (0..n as i64).collect();
    let axes = g.ints(&axes);
    g.node("Slice", &[x, &starts, &ends, &axes], &[], (x.dtype, part))
}

pub(super) use dynamic_slice as dynamic_slice_like;

/// The positions of the part in the tensor, whose elements are in a row. Operands: `x, starts, updates`.
pub(super) fn dynamic_update_slice(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, updates) = (of.x(), &of.args[2]);
    if updates.numel() == 0 {
        return x.clone();
    }
    let n = of.y().numel();
    let starts = starts(g, of, &x.shape, &updates.shape);
    let mut position = g.number(DType::I64, 0i64);
    for axis in 0..x.rank() {
        let mut index = g.iota(axis, DType::I64, &updates.shape);
        if axis < n {
            let start = g.part(&starts, 0, axis, axis + 1);
            let start = g.reshape(&start, &[]);
            index = g.binary("Add", &index, &start);
        }
        let stride: usize = x.shape[axis + 1..].iter().product();
        let index = g.with("Mul", &index, stride);
        position = g.binary("Add", &position, &index);
    }
    let position = g.expand(&position, &updates.shape);
    let position = g.reshape(&position, &[updates.numel()]);
    let flat = g.reshape(x, &[x.numel()]);
    let updates = g.reshape(updates, &[updates.numel()]);
    let reduction = if of.flag(0) { "none" } else { "add" };
    let y = g.node(
        "ScatterElements",
        &[&flat, &position, &updates],
        &[Attribute::Text("reduction", reduction)],
        (x.dtype, &flat.shape),
    );
    g.reshape(&y, &x.shape)
}
