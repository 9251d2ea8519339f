//! Convolutions and their transposes, as convolutions.
//!
//! With windows that start `stride` apart and have elements `dilation` apart, the input at `i * stride + k *
//! dilation - before` meets the weight `k` in the result `i`.

use crate::equation::Equation;
use crate::text::{ConvAxes, ConvAxis, Text, Value};
use gradloom_ir::op::windows::{WindowAxis, conv_axes};

/// Returns the number of groups.
fn groups(of: &Equation<'_>) -> usize {
    of.int(3) as usize
}

/// Returns the length that elements `step` apart span.
fn span(count: usize, step: usize) -> i64 {
    (count.max(1) as i64 - 1) * step as i64 + 1
}

/// Returns the axes of a convolution with windows, given the shapes of its input, weights and result.
fn axes(
    of: &Equation<'_>,
    [x, w, z]: [&[usize]; 3],
    axis: impl Fn(WindowAxis) -> ConvAxis,
) -> Vec<ConvAxis> {
    conv_axes(&of.statics, x, w, z)
        .into_iter()
        .map(axis)
        .collect()
}

/// Appends zeros if a shape has no elements: some readers refuse such convolutions.
fn nothing(t: &mut Text, of: &Equation<'_>) -> Option<Value> {
    let is_empty = of.x().numel() == 0 || of.y().numel() == 0 || of.shape().contains(&0);
    is_empty.then(|| t.full(0, of.out().element, of.shape()))
}

pub(super) fn conv(t: &mut Text, of: &Equation<'_>) -> Value {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let (x, w, z) = (of.x(), of.y(), of.shape());
    let axis = |a: WindowAxis| {
        let end = span(a.count, a.stride) + span(a.window, a.dilation) - 1;
        ConvAxis {
            stride: a.stride,
            low: a.before,
            high: end - a.before - a.len as i64,
            lhs_dilation: 1,
            rhs_dilation: a.dilation,
        }
    };
    let axes = axes(of, [&x.shape, &w.shape, z], axis);
    let of_conv = ConvAxes {
        letters: ["bf", "oi", "bf"],
        axes: &axes,
        feature_groups: groups(of),
        batch_groups: 1,
    };
    t.convolution(x, w, &of_conv, z)
}

/// Operands: `c, w, like x, like w`. The weights are reversed, and their channels exchanged within groups.
pub(super) fn conv_input_t(t: &mut Text, of: &Equation<'_>) -> Value {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let (c, w, x) = (of.x(), of.y(), of.shape());
    let n_groups = groups(of);
    let spatial = &w.shape[2..];
    let split = [&[n_groups, w.shape[0] / n_groups, w.shape[1]], spatial].concat();
    let mut order: Vec<usize> = (0..split.len()).collect();
    order.swap(1, 2);
    let exchanged = t.reshape(w, &split);
    let exchanged = t.transpose(&exchanged, &order);
    let shape = [&[n_groups * w.shape[1], w.shape[0] / n_groups], spatial].concat();
    let exchanged = t.reshape(&exchanged, &shape);
    let all: Vec<usize> = (2..shape.len()).collect();
    let reversed = t.reverse(&exchanged, &all);
    let axis = |a: WindowAxis| {
        let reach = span(a.window, a.dilation) - 1;
        let low = reach - a.before;
        ConvAxis {
            stride: 1,
            low,
            high: a.len as i64 + reach - span(a.count, a.stride) - low,
            lhs_dilation: a.stride,
            rhs_dilation: a.dilation,
        }
    };
    let axes = axes(of, [x, &w.shape, &c.shape], axis);
    let of_conv = ConvAxes {
        letters: ["bf", "oi", "bf"],
        axes: &axes,
        feature_groups: n_groups,
        batch_groups: 1,
    };
    t.convolution(c, &reversed, &of_conv, x)
}

pub(super) use conv_input_t as conv_transpose;

/// Operands: `x, c, like x, like w`. The channels of the input are a batch, and the batch is contracted.
pub(super) fn conv_weight_t(t: &mut Text, of: &Equation<'_>) -> Value {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let (x, c, w) = (of.x(), of.y(), of.shape());
    let axis = |a: WindowAxis| ConvAxis {
        stride: a.dilation,
        low: a.before,
        high: span(a.window, a.dilation) - 1 + span(a.count, a.stride) - a.len as i64 - a.before,
        lhs_dilation: 1,
        rhs_dilation: a.stride,
    };
    let axes = axes(of, [&x.shape, w, &c.shape], axis);
    let of_conv = ConvAxes {
        letters: ["fb", "io", "fb"],
        axes: &axes,
        feature_groups: 1,
        batch_groups: groups(of),
    };
    t.convolution(x, c, &of_conv, w)
}
