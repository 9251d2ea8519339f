use super::array::{Application, Array};
use super::{
    Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, OpFacts, Operands, Param, axes, shape,
};
use crate::StaticKind;

/// `full_like[value] like x`: a tensor filled with one number, with the dtype and shape of `x`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "full_like",
    operands: Operands::Fixed(0, 1),
    statics: &[StaticKind::Number.named("value")],
    shape: |_, args| Ok(args[0].shape.clone()),
    dtype: |statics, args| shape::holds(&statics[0], args[0].dtype),
    methods: &[
        Method::on_tensor("full_like", &[Param::Like, Param::Static]),
        Method::on_tensor("zeros_like", &[Param::Like, Param::Number(0)]),
        Method::on_tensor("ones_like", &[Param::Like, Param::Number(1)]),
    ],
    rule: NonlinearRule::Zero("a constant"),
    kernel: Kernel::FullLike,
    count: Count::View,
    facts: OpFacts::view(axes::opaque).range(|of| of.number()),
    laws: Laws::new(
        (-2.0, 2.0),
        &["(x: f64[2]) { y = full_like[value=0.5] like x return y }"],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Array {
    of.build(|_| of.number(0))
}
