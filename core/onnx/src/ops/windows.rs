//! Convolutions and pooling. Padding is a node of its own where ONNX or a runtime limits it.

use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Number, Value, least};
use crate::proto::Attribute;
use gradloom_ir::op::windows::{WindowAxis, conv_axes, pool_axes};

/// Returns the length that elements `step` apart span.
fn span(count: usize, step: usize) -> i64 {
    (count.max(1) as i64 - 1) * step as i64 + 1
}

const OF_INTEGERS: &str = "ONNX has it for floats only";

/// Returns an attribute for each axis.
fn each(axes: &[WindowAxis], of: impl Fn(&WindowAxis) -> usize) -> Vec<i64> {
    axes.iter().map(|axis| of(axis) as i64).collect()
}

/// Appends `x` with the padding of its last axes, up to the ends of the last windows.
fn padded(g: &mut Graph, x: &Value, n: impl Into<Number>, axes: &[WindowAxis]) -> Value {
    let margin = |a: &WindowAxis| {
        let end = (a.count.max(1) as i64 - 1) * a.stride as i64 + span(a.window, a.dilation);
        [a.before, end - a.before - a.len as i64]
    };
    let leading = vec![[0, 0]; x.rank() - axes.len()];
    let margins: Vec<[i64; 2]> = leading.into_iter().chain(axes.iter().map(margin)).collect();
    g.pad(x, n, &margins)
}

/// Returns why a convolution has no ONNX form.
fn refusal(of: &Equation<'_>) -> Option<&'static str> {
    (!of.dtype().is_float()).then_some(OF_INTEGERS)
}

/// Appends zeros if a shape has no elements: runtimes refuse such convolutions.
fn nothing(g: &mut Graph, of: &Equation<'_>) -> Option<Value> {
    let is_empty = of.x().numel() == 0 || of.y().numel() == 0 || of.shape().contains(&0);
    is_empty.then(|| g.full(of.dtype(), 0i64, of.shape()))
}

pub(super) fn conv(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    if let Some(reason) = refusal(of) {
        return of.refused(reason);
    }
    if let Some(zeros) = nothing(g, of) {
        return Ok(zeros);
    }
    let [x, w] = of.pair(g);
    let axes = conv_axes(&of.statics, &x.shape, &w.shape, of.shape());
    let x = padded(g, &x, 0i64, &axes);
    let [strides, dilations] = [each(&axes, |a| a.stride), each(&axes, |a| a.dilation)];
    let by = [
        Attribute::Ints("strides", &strides),
        Attribute::Ints("dilations", &dilations),
        Attribute::Int("group", of.int(3)),
    ];
    Ok(g.node("Conv", &[&x, &w], &by, (x.dtype, of.shape())))
}

/// Operands: `c, w`, with results of the shape of the input of the convolution.
pub(super) fn conv_transpose(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    if let Some(reason) = refusal(of) {
        return of.refused(reason);
    }
    if let Some(zeros) = nothing(g, of) {
        return Ok(zeros);
    }
    let (c, w, x) = (of.x(), of.y(), of.shape());
    let axes = conv_axes(&of.statics, x, &w.shape, &c.shape);
    let [strides, dilations] = [each(&axes, |a| a.stride), each(&axes, |a| a.dilation)];
    let by = [
        Attribute::Ints("strides", &strides),
        Attribute::Ints("dilations", &dilations),
        Attribute::Int("group", of.int(3)),
    ];
    // Without padding, the result has all elements that a window reaches. Those in the padding are cut.
    let reach = |a: &WindowAxis| span(a.count, a.stride) + span(a.window, a.dilation) - 1;
    let lens: Vec<usize> = axes.iter().map(|a| reach(a) as usize).collect();
    let whole = [&x[..2], &lens].concat();
    let y = g.node("ConvTranspose", &[c, w], &by, (c.dtype, &whole));
    let margin = |a: &WindowAxis| [-a.before, a.len as i64 + a.before - reach(a)];
    let margins: Vec<[i64; 2]> = [[0, 0]; 2]
        .into_iter()
        .chain(axes.iter().map(margin))
        .collect();
    Ok(g.pad(&y, 0i64, &margins))
}

pub(super) use conv_transpose as conv_input_t;

/// Appends the pooling of the last axes of `x`, which is padded. ONNX pools all axes after the first two.
fn pooled(g: &mut Graph, of: &Equation<'_>, op: &str, x: &Value, axes: &[WindowAxis]) -> Value {
    // A window without axes has one element.
    if axes.is_empty() {
        return x.clone();
    }
    let (lead, lens) = x.shape.split_at(x.rank() - axes.len());
    let flat = [&[lead.iter().product(), 1], lens].concat();
    let x = g.reshape(x, &flat);
    let [window, strides] = [each(axes, |a| a.window), each(axes, |a| a.stride)];
    let by = [
        Attribute::Ints("kernel_shape", &window),
        Attribute::Ints("strides", &strides),
    ];
    let counts: Vec<usize> = axes.iter().map(|a| a.count).collect();
    let shape = [&flat[..2], &counts].concat();
    let y = g.node(op, &[&x], &by, (x.dtype, &shape));
    g.reshape(&y, of.shape())
}

pub(super) fn sum_pool(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    if let Some(reason) = refusal(of) {
        return of.refused(reason);
    }
    if of.shape().contains(&0) {
        return Ok(g.full(of.dtype(), 0i64, of.shape()));
    }
    let axes = pool_axes(&of.statics, &of.x().shape, of.shape());
    let x = padded(g, of.x(), 0i64, &axes);
    let mean = pooled(g, of, "AveragePool", &x, &axes);
    let n: i64 = of.ints(0).iter().product();
    Ok(match of.flag(3) {
        true => mean,
        false => g.with("Mul", &mean, n),
    })
}

pub(super) fn max_pool(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    if let Some(reason) = refusal(of) {
        return of.refused(reason);
    }
    let low = least(of.dtype());
    if of.shape().contains(&0) || of.x().numel() == 0 {
        return Ok(g.full(of.dtype(), low, of.shape()));
    }
    let axes = pool_axes(&of.statics, &of.x().shape, of.shape());
    let x = padded(g, of.x(), low, &axes);
    Ok(pooled(g, of, "MaxPool", &x, &axes))
}
