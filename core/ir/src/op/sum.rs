use super::array::{Application, Array};
use super::{
    Count, Kernel, Linear, Method, OpFacts, Operands, Ops, Param, Range, SumOver, axes, shape,
};
use crate::StaticKind;

/// `sum[axes, keepdims] x, like x`: the sum over `axes`. Integers wrap.
///
/// The `Like` operand is the primal with the shape of `x`, which the transpose needs if `x` is a
/// tangent. In user code it is `x` itself.
pub(super) static OP: Linear = Linear {
    name: "sum",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        shape::reduce(&x, &statics[0], &statics[1])
    },
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: &[
        Method::on_tensor("sum", &[Param::Data, Param::Static, Param::Switch(false)]),
        Method::on_tensor(
            "sum_keepdims",
            &[Param::Data, Param::Static, Param::Switch(true)],
        ),
    ],
    transpose: |b, eqn, ct| b.sum_t(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]),
    kernel: Kernel::Sum,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::summed)
        .sum(SumOver::Axes)
        .range(|of| Range {
            not_0: of.x().not_0 && (of.x().at_least_0 || of.x().at_most_0),
            ..of.x()
        }),
    samples: &[
        "(x: f64[2, 3]) { y = sum[axes=all, keepdims=false] x, like x return y }",
        "(x: f64[2, 3, 2]) { y = sum[axes=[0, -1], keepdims=true] x, like x return y }",
        "(x: f64[2, 0]) { y = sum[axes=[1], keepdims=false] x, like x return y }",
        "(x: f64[]) { y = sum[axes=all, keepdims=false] x, like x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Array {
    of.reduce(&of.axes(0, of.rank()), |row| row.iter().sum())
}
