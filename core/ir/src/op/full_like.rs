use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::StaticKind;

methods! { full_like {
    /// Returns a tensor of the shape and dtype of `self` with `value` in every element.
    ///
    /// The elements of `self` are not read, so the result keeps nothing alive.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.full_like(7).to_vec::<f32>(), [7.0, 7.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype cannot hold the number.
    fn full_like(x: Like, value: Static);

    /// Returns zeros of the shape and dtype of `self`, whose elements are not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.zeros_like().to_vec::<f32>(), [0.0, 0.0]);
    /// ```
    fn zeros_like(x: Like, value: Number(0));

    /// Returns ones of the shape and dtype of `self`, whose elements are not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(x.ones_like().to_vec::<i64>(), [1, 1]);
    /// ```
    fn ones_like(x: Like, value: Number(1));
} }

/// `full_like[value] like x`: a tensor filled with one number, with the dtype and shape of `x`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "full_like",
    operands: Operands::Fixed(0, 1),
    statics: &[StaticKind::Number.named("value")],
    shape: |_, args| Ok(args[0].shape.clone()),
    dtype: |statics, args| shape::holds(&statics[0], args[0].dtype),
    methods: METHODS,
    rule: NonlinearRule::Zero("a constant"),
    kernel: Kernel::FullLike,
    count: Count::View,
    facts: OpFacts::view(axes::FILLED).range(|of| of.number()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2]) { y = full_like[value=0.5] like x return y }",
            "(x: f64[2, 0]) { y = full_like[value=1] like x return y }",
            "(x: bool[]) { y = full_like[value=true] like x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|_| of.number(0))
}
