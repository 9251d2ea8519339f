use super::nd_array::{Application, NdArray};
use super::sum_t;
use super::{Count, Kernel, Linear, Linearity, OpFacts, Operands, Ops, axes, shape};
use crate::StaticKind;

/// `mean_t[axes, keepdims] y, like x`: `y` repeated along `axes` and divided by the count.
///
/// This is the transpose of `mean`. The result has the shape of `x`.
pub(super) static OP: Linear = Linear {
    name: "mean_t",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::repeat(&args[0].shape, &args[1].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: &[],
    transpose: |b, eqn, ct| b.mean(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]),
    kernel: Kernel::MeanT,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::SPREAD)
        .linear(Linearity::Each(&[0]))
        .averages()
        .cheap(),
    samples: &[
        "(y: f64[2], x: f64[2, 3]) { z = mean_t[axes=[1], keepdims=false] y, like x return z }",
        "(y: f64[], x: f64[2, 3]) { z = mean_t[axes=all, keepdims=false] y, like x return z }",
        "(y: f64[0], x: f64[0, 3]) { z = mean_t[axes=[1], keepdims=false] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axes = of.axes(0, of.out().len());
    let n: usize = axes.iter().map(|&a| of.out()[a]).product();
    let mut total = sum_t::reference(of);
    total.data.iter_mut().for_each(|y| *y /= n as f64);
    total
}
