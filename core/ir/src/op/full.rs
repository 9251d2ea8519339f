use super::nd_array::{Application, NdArray};
use super::{
    Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, OpFacts, Operands, Param, axes, shape,
};
use crate::StaticKind;

/// `full[shape, value, dtype]`: a tensor filled with one number.
///
/// The dtype must be able to represent the number: `i32` cannot represent `1.5`. Rounding to `f32`
/// is allowed.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "full",
    operands: Operands::Fixed(0, 0),
    statics: &[
        StaticKind::Shape.named("shape"),
        StaticKind::Number.named("value"),
        StaticKind::DType.named("dtype"),
    ],
    shape: |statics, _| shape::lengths(&statics[0]),
    dtype: |statics, _| shape::holds(&statics[1], statics[2].dtype()),
    methods: &[
        Method::on_type("full", &[Param::Static, Param::Static, Param::Static]),
        Method::on_type("zeros", &[Param::Static, Param::Number(0), Param::Static]),
        Method::on_type("ones", &[Param::Static, Param::Number(1), Param::Static]),
    ],
    rule: NonlinearRule::Zero("a constant"),
    kernel: Kernel::Full,
    count: Count::View,
    facts: OpFacts::view(axes::FILLED).range(|of| of.number()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "() { y = full[shape=[2, 3], value=0.5, dtype=f64] return y }",
            "() { y = full[shape=[], value=2, dtype=i32] return y }",
            "() { y = full[shape=[2, 0], value=0, dtype=bool] return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|_| of.number(1))
}
