use super::nd_array::{Application, NdArray};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, axes, reshape, shape};
use crate::{Op, StaticKind};

/// `reshape_t[shape] y, like x`: the elements of `y` in the shape of `x`.
///
/// This is the transpose of `reshape`.
pub(super) static OP: Linear = Linear {
    name: "reshape_t",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::Reshape.named("shape")],
    shape: |statics, args| {
        let y = reshape::reshaped(&args[1].shape, &statics[0])?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Reshape, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::ReshapeT,
    count: Count::View,
    facts: OpFacts::view(axes::RESHAPED).equal(Equal::SameAval),
    samples: &[
        "(y: f64[2, 12], x: f64[2, 3, 4]) { z = reshape_t[shape=[2, 12]] y, like x return z }",
        "(y: f64[3, 2, 2], x: f64[2, 6]) { z = reshape_t[shape=[3, -1, 2]] y, like x return z }",
        "(y: f64[0, 5], x: f64[2, 0]) { z = reshape_t[shape=[0, 5]] y, like x return z }",
        "(y: f64[], x: f64[1]) { z = reshape_t[shape=[]] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.same_order()
}
