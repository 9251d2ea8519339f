use super::nd_array::{Application, NdArray};
use super::{
    Count, Kernel, Linear, Linearity, OpFacts, Operands, Ops, Range, SumOver, axes, shape,
};
use crate::StaticKind;

methods! { sum {
    /// Sum over `axes`, in the same dtype; of integers of 8 bits, as `i64`; of `bool`, the number of true
    /// elements as `i64`. The sum of no elements is 0; integers wrap.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(0).to_vec::<f32>(), [4.0, 6.0]);
    /// assert_eq!(x.sum(..).item::<f32>(), 10.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn sum(x: Data + Like, axes: Static, keepdims: Switch(false));

    /// [`Tensor::sum`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn sum_keepdims(x: Data + Like, axes: Static, keepdims: Switch(true));
} }

/// `sum[axes, keepdims] x, like x`: the sum over `axes`. Integers wrap.
///
/// The `Like` operand is the primal with the shape of `x`, which the transpose needs if `x` is a
/// tangent. In user code it is `x` itself.
pub(super) static OP: Linear = Linear {
    name: "sum",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        shape::reduce(&x, &statics[0], &statics[1])
    },
    dtype: |_, args| shape::added(args[0].dtype),
    methods: METHODS,
    transpose: |b, eqn, ct| b.sum_t(ct, eqn.args[1], eqn.attrs[0], eqn.attrs[1]),
    kernel: Kernel::Sum,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::SUMMED)
        .linear(Linearity::Each(&[0]))
        .sum(SumOver::Axes)
        .range(|of| Range {
            not_0: of.x().not_0 && (of.x().at_least_0 || of.x().at_most_0),
            ..of.x()
        }),
    samples: &[
        "(x: f64[2, 3]) { y = sum[axes=all, keepdims=false] x, like x return y }",
        "(x: f64[2, 3, 2]) { y = sum[axes=[0, -1], keepdims=true] x, like x return y }",
        "(x: f64[2, 0]) { y = sum[axes=[1], keepdims=false] x, like x return y }",
        "(x: f64[]) { y = sum[axes=all, keepdims=false] x, like x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| row.iter().sum())
}
