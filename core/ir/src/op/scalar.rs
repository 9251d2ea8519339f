use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Shape, StaticKind};

/// `scalar[value] like x`: a number of rank 0 with the dtype of `x`, but `f64` if the number is a float
/// and `x` has integers.
///
/// The dtype must be able to represent the number: `i32` cannot represent 2^40. Rounding to `f32` is
/// allowed.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "scalar",
    operands: Operands::Fixed(0, 1),
    statics: &[StaticKind::Number.named("value")],
    shape: |_, _| Ok(Shape::scalar()),
    dtype: |statics, args| shape::beside(&statics[0], args[0].dtype),
    methods: &[],
    rule: NonlinearRule::Zero("a constant"),
    kernel: Kernel::Scalar,
    count: Count::View,
    facts: OpFacts::view(axes::FILLED).range(|of| of.number()),
    laws: Laws::new(
        (-2.0, 2.0),
        &["(x: f64[2]) { y = scalar[value=0.5] like x return y }"],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|_| of.number(0))
}
