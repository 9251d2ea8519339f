use super::argmax::first_best;
use super::array::{Application, Array};
use super::{
    Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, Param, axes,
    shape,
};
use crate::{Op, StaticKind};

/// `min[axes, keepdims] x`: the smallest element over `axes`; NaN if there is one.
///
/// The derivative is shared equally among equal smallest elements.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "min",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::extremum(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: &[
        Method::on_tensor("min", &[Param::Data, Param::Static, Param::Switch(false)]),
        Method::on_tensor(
            "min_keepdims",
            &[Param::Data, Param::Static, Param::Switch(true)],
        ),
    ],
    rule: NonlinearRule::Tangent(|b, eqn, dx| super::max::tangent(b, eqn, dx, Op::Gt)),
    kernel: Kernel::Min,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::reduced).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = min[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = min[axes=[0, -1], keepdims=true] x return y }",
            "(x: f64[2, 3]) { y = min[axes=[1], keepdims=false] x return y }",
            "(x: f64[]) { y = min[axes=all, keepdims=false] x return y }",
            "(x: f64[0, 3]) { y = min[axes=[1], keepdims=false] x return y }",
            "(x: i64[2, 3]) { y = min[axes=[0], keepdims=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Array {
    of.reduce(&of.axes(0, of.rank()), |row| {
        row[first_best(row, |x, y| x < y)]
    })
}
