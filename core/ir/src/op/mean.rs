use super::nd_array::{Application, NdArray, mean};
use super::{Count, Kernel, Linear, Linearity, OpFacts, Operands, Ops, axes, shape};
use crate::StaticKind;

methods! { mean {
    /// Mean over `axes`: of floats in their dtype, of integers and `bool` as `f64`. The mean of no
    /// elements is NaN.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.mean(0).to_vec::<f32>(), [2.0, 4.5]);
    /// assert_eq!(x.mean_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn mean(x: Data + Like, axes: Static, keepdims: Switch(false));

    /// [`Tensor::mean`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.mean_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn mean_keepdims(x: Data + Like, axes: Static, keepdims: Switch(true));
} }

/// `mean[axes, keepdims] x, like x`: the mean over `axes`. Takes floats.
///
/// The mean of no elements is NaN.
///
/// The `Like` operand is the primal with the shape of `x`, which the transpose needs if `x` is a
/// tangent. In user code it is `x` itself.
pub(super) static OP: Linear = Linear {
    name: "mean",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        shape::reduce(&x, &statics[0], &statics[1])
    },
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    transpose: |b, eqn, ct| b.mean_t(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]),
    kernel: Kernel::Mean,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(1, 0),
    },
    facts: OpFacts::opaque(axes::SUMMED)
        .linear(Linearity::Each(&[0]))
        .averages()
        .range(|of| of.x()),
    samples: &[
        "(x: f64[2, 3]) { y = mean[axes=all, keepdims=false] x, like x return y }",
        "(x: f64[2, 3, 2]) { y = mean[axes=[0, -1], keepdims=true] x, like x return y }",
        "(x: f64[2, 0]) { y = mean[axes=[0], keepdims=false] x, like x return y }",
        "(x: f64[]) { y = mean[axes=all, keepdims=false] x, like x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), mean)
}
