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
    /// The row of a label outside of `0..classes` is 0 everywhere, so `-1` can mark a row without a
    /// label.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let labels = Tensor::from([2i64, 0, -1]);
    /// let rows = labels.one_hot(3, DType::I32).to_vec::<i32>();
    /// assert_eq!(rows, [0, 0, 1, 1, 0, 0, 0, 0, 0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the labels are not integers, or if `classes` is negative.
    fn one_hot(labels: Data, classes: Static, dtype: DType, checked: Switch(false));
} }

/// `one_hot[classes, dtype, checked] labels`: a row of length `classes` for each label.
///
/// The row is 1 at the label and 0 elsewhere. If the label is not in `0..classes`, the row is 0
/// everywhere, or an error at run time if `checked`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "one_hot",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Count.named("classes"),
        StaticKind::DType.named("dtype"),
        StaticKind::Flag.named("checked"),
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
        // `cross_entropy` is made of it where the labels differ between lanes.
        .fails(Fails::Labels(Op::CrossEntropy))
        .range(|_| Range::UNKNOWN.magnitude()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(labels: i64[2, 3]) { y = one_hot[classes=3, dtype=f64, checked=true] labels return y }",
            "(labels: i32[]) { y = one_hot[classes=4, dtype=bool, checked=false] labels return y }",
            "(labels: i64[0]) { y = one_hot[classes=2, dtype=i32, checked=false] labels return y }",
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
