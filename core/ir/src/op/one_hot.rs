use super::nd_array::{Application, NdArray, truth};
use super::{
    Count, Fails, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Range, axes, shape,
};
use crate::Op;
use crate::{Shape, StaticKind};

methods! { one_hot {
    /// Appends an axis of length `classes` that is 1 at the label and 0 elsewhere.
    ///
    /// The labels are integers of shape `[..]`; the result has the shape `[.., classes]` and the
    /// given dtype. It has no derivative.
    ///
    /// A label outside of `0..classes` is an error when the value is computed, as in
    /// [`Tensor::cross_entropy`].
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let labels = Tensor::from([2i64, 0]);
    /// assert_eq!(labels.one_hot(3, DType::F32).to_vec::<f32>(), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the labels are not integers, or if `classes` is negative.
    fn one_hot(labels: Data, classes: Static, dtype: DType);
} }

/// `one_hot[classes, dtype] labels`: a row of length `classes` for each label.
///
/// The row is 1 at the label and 0 elsewhere. A label outside `0..classes` is an error at run time.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "one_hot",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Count.named("classes"),
        StaticKind::DType.named("dtype"),
    ],
    shape: |statics, args| {
        let classes = shape::dim(&statics[0]);
        Ok(Shape(args[0].shape.dims().map(|labels| {
            labels.iter().copied().chain([classes]).collect()
        })))
    },
    dtype: |statics, args| {
        shape::integer(args[0].dtype, "an integer")?;
        Ok(statics[1].dtype())
    },
    methods: METHODS,
    rule: NonlinearRule::Zero("labels have no derivative"),
    kernel: Kernel::OneHot,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::CLASSES)
        .cheap()
        .fails(Fails::Labels(Op::OneHot))
        .range(|_| Range::UNKNOWN.magnitude()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(labels: i64[2, 3]) { y = one_hot[classes=3, dtype=f64] labels return y }",
            "(labels: i32[]) { y = one_hot[classes=4, dtype=bool] labels return y }",
            "(labels: i64[0]) { y = one_hot[classes=2, dtype=i32] labels return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let (class, row) = (i[i.len() - 1], &i[..i.len() - 1]);
        truth(of.x().get(row) == class as f64)
    })
}
