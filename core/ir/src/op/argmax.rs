use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Aval, DType, Fault, Shape, Static, StaticKind};

methods! { argmax {
    /// Index of the first largest element over `axes`, as `i64`.
    ///
    /// It counts the elements in row-major order of these axes: `x.argmax(..)` of all.
    ///
    /// The first NaN counts as the largest.
    ///
    /// It has no derivative. A reduced axis of length 0 is an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.argmax(-1).to_vec::<i64>(), [1, 1]);
    /// assert_eq!(x.argmax(..).item::<i64>(), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn argmax(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::argmax`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.argmax_keepdims(0).shape(), [1, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn argmax_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `argmax[axes, keepdims] x`: the index of the largest element over `axes`, as `i64`.
///
/// The first of equal elements wins, and the first NaN wins over all numbers.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "argmax",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: index_shape,
    dtype: index_dtype,
    methods: METHODS,
    rule: NonlinearRule::Zero("an index has no derivative"),
    kernel: Kernel::Argmax,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::REDUCED),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = argmax[axes=[1], keepdims=false] x return y }",
            "(x: f64[2, 3]) { y = argmax[axes=[-2], keepdims=true] x return y }",
            "(x: i64[4]) { y = argmax[axes=[0], keepdims=false] x return y }",
            "(x: bool[4]) { y = argmax[axes=[0], keepdims=false] x return y }",
            "(x: f64[2, 3]) { y = argmax[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = argmax[axes=[0, 2], keepdims=true] x return y }",
            "(x: f64[0, 3]) { y = argmax[axes=[1], keepdims=false] x return y }",
        ],
    ),
};

/// Returns the shape of an index along an axis, which must have at least one element.
pub(super) fn index_shape(statics: &[Static], args: &[&Aval]) -> Result<Shape, Fault> {
    shape::extremum(&args[0].shape, &statics[0], &statics[1])
}

/// Returns the dtype of an index.
pub(super) fn index_dtype(_: &[Static], _: &[&Aval]) -> Result<Option<DType>, Fault> {
    Ok(Some(DType::I64))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        first_best(row, |x, y| x > y) as f64
    })
}

/// Returns the index of the first element that no other wins against. It is defined without NaN.
pub(super) fn first_best(row: &[f64], wins: fn(f64, f64) -> bool) -> usize {
    let better = |best: usize, i: usize| if wins(row[i], row[best]) { i } else { best };
    (1..row.len()).fold(0, better)
}
