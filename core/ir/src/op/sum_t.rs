use super::nd_array::{Application, NdArray, kept};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::StaticKind;

/// `sum_t[axes, keepdims] y, like x`: `y` repeated along `axes` to the shape of `x`.
///
/// This is the transpose of `sum`.
pub(super) static OP: Linear = Linear {
    name: "sum_t",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::repeat(&args[0].shape, &args[1].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: &[],
    transpose: |b, eqn, ct| b.sum(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]),
    kernel: Kernel::SumT,
    count: Count::View,
    facts: OpFacts::view(axes::SPREAD),
    samples: &[
        "(y: f64[2], x: f64[2, 3]) { z = sum_t[axes=[1], keepdims=false] y, like x return z }",
        "(y: f64[], x: f64[2, 3]) { z = sum_t[axes=all, keepdims=false] y, like x return z }",
        "(y: f64[0], x: f64[0, 3]) { z = sum_t[axes=[1], keepdims=false] y, like x return z }",
        "(y: f64[2], x: f64[2, 0]) { z = sum_t[axes=[1], keepdims=false] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let reduced = NdArray {
        shape: kept(of.out(), &of.axes(0, of.out().len())),
        data: of.x().data.clone(),
    };
    of.build(|i| reduced.spread(&i))
}
