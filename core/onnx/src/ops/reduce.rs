//! Reductions, products of matrices, normalisations and orders.

use super::elementwise::numeric;
use super::{Results, decomposed};
use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Value};
use crate::proto::Attribute;
use gradloom_ir::DType;

fn reduced(g: &mut Graph, of: &Equation<'_>, op: &str) -> Value {
    let axes = of.axes(0, of.x().rank());
    // ONNX has no reductions of bools to their maximum before version 20, and runtimes lack them.
    let x = numeric(g, of.x());
    let mut y = g.reduce(op, &x, &axes);
    if y.dtype != of.dtype() {
        // The maximum of no integers is the least one.
        y = g.compare_with("Greater", &y, 0i64);
    }
    g.reshape(&y, of.shape())
}

macro_rules! reductions {
    ($($name:ident = $op:literal,)*) => {$(
        pub(super) fn $name(g: &mut Graph, of: &Equation<'_>) -> Value {
            reduced(g, of, $op)
        }
    )*};
}

reductions! {
    sum = "ReduceSum",
    max = "ReduceMax",
    min = "ReduceMin",
    prod = "ReduceProd",
    any = "ReduceMax",
    all = "ReduceMin",
}

pub(super) fn mean(g: &mut Graph, of: &Equation<'_>) -> Value {
    let axes = of.axes(0, of.x().rank());
    let n: usize = axes.iter().map(|axis| of.x().shape[*axis]).product();
    let total = sum(g, of);
    g.with("Div", &total, n as f64)
}

/// Appends the operand repeated along the axes that were reduced.
pub(super) fn sum_t(g: &mut Graph, of: &Equation<'_>) -> Value {
    let shape = of.shape();
    let axes = of.axes(0, shape.len());
    let len = |(axis, len): (usize, &usize)| if axes.contains(&axis) { 1 } else { *len };
    let lens: Vec<usize> = shape.iter().enumerate().map(len).collect();
    let y = g.reshape(of.x(), &lens);
    g.expand(&y, shape)
}

pub(super) fn mean_t(g: &mut Graph, of: &Equation<'_>) -> Value {
    let axes = of.axes(0, of.shape().len());
    let n: usize = axes.iter().map(|axis| of.shape()[*axis]).product();
    let y = sum_t(g, of);
    g.with("Div", &y, n as f64)
}

/// Appends the sum over the axes along which the result was repeated.
pub(super) fn unbroadcast(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, to) = (of.x(), of.shape());
    let first = x.rank() - to.len();
    let repeated = |axis: &usize| match axis.checked_sub(first) {
        Some(i) => to[i] != x.shape[*axis],
        None => true,
    };
    let axes: Vec<usize> = (0..x.rank()).filter(repeated).collect();
    let total = g.reduce("ReduceSum", x, &axes);
    g.reshape(&total, to)
}

pub(super) fn matmul(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    g.node("MatMul", &[&x, &y], &[], (x.dtype, of.shape()))
}

pub(super) fn det(g: &mut Graph, of: &Equation<'_>) -> Value {
    g.node("Det", &[of.x()], &[], (of.dtype(), of.shape()))
}

fn along_axis(g: &mut Graph, of: &Equation<'_>, op: &str) -> Value {
    let x = of.x();
    let axis = [Attribute::Int("axis", of.axis(0, x.rank()) as i64)];
    g.node(op, &[x], &axis, (x.dtype, &x.shape))
}

pub(super) fn softmax(g: &mut Graph, of: &Equation<'_>) -> Value {
    along_axis(g, of, "Softmax")
}

pub(super) fn log_softmax(g: &mut Graph, of: &Equation<'_>) -> Value {
    along_axis(g, of, "LogSoftmax")
}

/// The epsilon of ONNX is an `f32`, so a norm of `f64` is decomposed.
pub(super) fn layer_norm(g: &mut Graph, of: &Equation<'_>) -> Results {
    let x = of.x();
    if x.dtype != DType::F32 {
        return decomposed(g, of);
    }
    let eps = of.statics[0].float().expect("epsilon is a number") as f32;
    let inputs = [x, of.y(), &of.args[2]];
    let by = [Attribute::Float("epsilon", eps)];
    Ok(vec![g.node(
        "LayerNormalization",
        &inputs,
        &by,
        (x.dtype, &x.shape),
    )])
}

/// Appends `x` with `axes` moved behind the others and joined to one.
fn joined(g: &mut Graph, x: &Value, axes: &[usize]) -> Value {
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let x = g.transpose(x, &[&kept, axes].concat());
    let (lens, last) = x.shape.split_at(kept.len());
    let shape = [lens, &[last.iter().product()]].concat();
    g.reshape(&x, &shape)
}

fn index_of(g: &mut Graph, of: &Equation<'_>, op: &str) -> Value {
    let axes = of.axes(0, of.x().rank());
    let x = numeric(g, of.x());
    let rows = joined(g, &x, &axes);
    let (last, lens) = rows.shape.split_last().expect("the axes are one");
    debug_assert!(*last > 0, "there is an element");
    let by = [
        Attribute::Int("axis", lens.len() as i64),
        Attribute::Int("keepdims", 0),
    ];
    let index = g.node(op, &[&rows], &by, (DType::I64, lens));
    g.reshape(&index, of.shape())
}

pub(super) fn argmax(g: &mut Graph, of: &Equation<'_>) -> Value {
    index_of(g, of, "ArgMax")
}

pub(super) fn argmin(g: &mut Graph, of: &Equation<'_>) -> Value {
    index_of(g, of, "ArgMin")
}

pub(super) fn cumsum(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    let x = of.x();
    let axes = of.axes(0, x.rank());
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let rows = joined(g, x, &axes);
    let axis = g.number(DType::I64, rows.rank() - 1);
    let by = [Attribute::Int("reverse", of.flag(1).into())];
    let y = g.node("CumSum", &[&rows, &axis], &by, (x.dtype, &rows.shape));
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let lens: Vec<usize> = order.iter().map(|axis| x.shape[*axis]).collect();
    let y = g.reshape(&y, &lens);
    let mut inverse = vec![0; order.len()];
    for (i, axis) in order.iter().enumerate() {
        inverse[*axis] = i;
    }
    Ok(g.transpose(&y, &inverse))
}

/// Appends the first `n` elements along an axis in order, and their indices. Equal elements keep their order.
fn first(g: &mut Graph, x: &Value, axis: usize, n: usize, is_descending: bool) -> [Value; 2] {
    let dtype = x.dtype;
    let x = numeric(g, x);
    let mut shape = x.shape.clone();
    shape[axis] = n;
    let n = g.ints(&[n as i64]);
    let by = [
        Attribute::Int("axis", axis as i64),
        Attribute::Int("largest", is_descending.into()),
    ];
    let [y, index] = g.node_of_two("TopK", &[&x, &n], &by, [x.dtype, DType::I64], &shape);
    [g.convert(&y, dtype), index]
}

fn sorted(g: &mut Graph, of: &Equation<'_>) -> [Value; 2] {
    let x = of.x();
    let axis = of.axis(0, x.rank());
    first(g, x, axis, x.shape[axis], of.flag(1))
}

pub(super) fn sort(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [y, _] = sorted(g, of);
    y
}

pub(super) fn argsort(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [_, index] = sorted(g, of);
    index
}

fn greatest(g: &mut Graph, of: &Equation<'_>) -> [Value; 2] {
    let axis = of.axis(1, of.x().rank());
    first(g, of.x(), axis, of.shape()[axis], true)
}

pub(super) fn top_k(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [y, _] = greatest(g, of);
    y
}

pub(super) fn top_k_indices(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [_, index] = greatest(g, of);
    index
}
