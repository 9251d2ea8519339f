use super::argmax::first_best;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Op, StaticKind};

methods! { min {
    /// Smallest element over `axes` of numbers, in the same dtype. NaN if any element is NaN.
    ///
    /// Equal smallest elements share the derivative equally. A reduced axis of length 0 is an
    /// error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.min(0).to_vec::<f32>(), [1.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn min(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::min`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.min_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn min_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

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
    dtype: shape::of_operand,
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| super::max::tangent(b, eqn, dx, Op::Gt)),
    kernel: Kernel::Min,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::MINIMAL).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = min[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = min[axes=[0, -1], keepdims=true] x return y }",
            "(x: f64[2, 3]) { y = min[axes=[1], keepdims=false] x return y }",
            "(x: f64[]) { y = min[axes=all, keepdims=false] x return y }",
            "(x: f64[0, 3]) { y = min[axes=[1], keepdims=false] x return y }",
            "(x: i64[2, 3]) { y = min[axes=[0], keepdims=false] x return y }",
            "(x: bool[2, 3]) { y = min[axes=[0], keepdims=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        row[first_best(row, |x, y| x < y || x.is_nan())]
    })
}
