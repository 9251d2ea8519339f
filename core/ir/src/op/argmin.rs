use super::argmax::first_best;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, argmax, axes};
use crate::StaticKind;

methods! { argmin {
    /// Index of the first smallest element over `axes`, as `i64`.
    ///
    /// It counts the elements in row-major order of these axes: `x.argmin(..)` of all.
    ///
    /// The first NaN counts as the smallest.
    ///
    /// It has no derivative. A reduced axis of length 0 is an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.argmin(-1).to_vec::<i64>(), [0, 0]);
    /// assert_eq!(x.argmin(..).item::<i64>(), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn argmin(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::argmin`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.argmin_keepdims(0).shape(), [1, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn argmin_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `argmin[axes, keepdims] x`: the index of the smallest element over `axes`, as `i64`.
///
/// The first of equal elements wins, and the first NaN wins over all numbers.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "argmin",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: argmax::index_shape,
    dtype: argmax::index_dtype,
    methods: METHODS,
    rule: NonlinearRule::Zero("an index has no derivative"),
    kernel: Kernel::Argmin,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::REDUCED),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = argmin[axes=[1], keepdims=false] x return y }",
            "(x: f64[2, 3]) { y = argmin[axes=[-2], keepdims=true] x return y }",
            "(x: i64[4]) { y = argmin[axes=[0], keepdims=false] x return y }",
            "(x: bool[4]) { y = argmin[axes=[0], keepdims=false] x return y }",
            "(x: f64[2, 3]) { y = argmin[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = argmin[axes=[0, 2], keepdims=true] x return y }",
            "(x: f64[0, 3]) { y = argmin[axes=[1], keepdims=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        first_best(row, |x, y| x < y) as f64
    })
}
