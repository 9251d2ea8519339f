use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, Shape};

methods! { transpose {
    /// Reverses the order of the axes.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.transpose().shape(), [3, 2]);
    /// assert_eq!(x.transpose().to_vec::<f32>(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// ```
    fn transpose(x: Data);

    /// Alias of [`Tensor::transpose`].
    fn t(x: Data);
} }

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
    methods: METHODS,
    transpose: |b, _, ct| b.unary(Op::Transpose, ct),
    kernel: Kernel::Transpose,
    count: Count::View,
    facts: OpFacts::view(axes::REORDERED),
    samples: &[
        "(x: f64[2, 3]) { y = transpose x return y }",
        "(x: f64[2, 0, 3]) { y = transpose x return y }",
        "(x: f64[]) { y = transpose x return y }",
        "(x: i32[2, 3]) { y = transpose x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&i.into_iter().rev().collect::<Vec<_>>()))
}
