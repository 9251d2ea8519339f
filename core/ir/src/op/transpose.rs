use super::array::{Application, Array};
use super::{Count, Kernel, Linear, Method, OpFacts, Operands, Param, axes, shape};
use crate::{Op, Shape};

/// `transpose x`: `x` with its axes in reverse order. It is its own inverse.
pub(super) static OP: Linear = Linear {
    name: "transpose",
    operands: Operands::Fixed(1, 0),
    statics: &[],
    shape: |_, args| {
        let dims = args[0].shape.dims();
        Ok(Shape(dims.map(|dims| dims.iter().rev().copied().collect())))
    },
    dtype: shape::of_operand,
    methods: &[
        Method::on_tensor("transpose", &[Param::Data]),
        Method::on_tensor("t", &[Param::Data]),
    ],
    transpose: |b, _, ct| b.unary(Op::Transpose, ct),
    kernel: Kernel::Transpose,
    count: Count::View,
    facts: OpFacts::view(axes::reordered),
    samples: &[
        "(x: f64[2, 3]) { y = transpose x return y }",
        "(x: f64[2, 0, 3]) { y = transpose x return y }",
        "(x: f64[]) { y = transpose x return y }",
        "(x: i32[2, 3]) { y = transpose x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Array {
    of.build(|i| of.x().get(&i.into_iter().rev().collect::<Vec<_>>()))
}
