use super::nd_array::{Application, NdArray, truth};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::StaticKind;

methods! { any {
    /// Whether an element is true over `axes` of truth values, as `bool`. The result for no elements is false.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[true, false], [true, true]]);
    /// assert_eq!(x.any(0).to_vec::<bool>(), [true, true]);
    /// assert_eq!(x.eq(&x).any(..).item::<bool>(), true);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the dtype is not `bool`.
    fn any(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::any`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[true, false], [true, true]]);
    /// assert_eq!(x.any_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the dtype is not `bool`.
    fn any_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `any[axes, keepdims] x`: whether an element is true over `axes`. Takes bools.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "any",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::truth(args[0].dtype),
    methods: METHODS,
    rule: NonlinearRule::Zero("a truth value has no derivative"),
    kernel: Kernel::Any,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::MAXIMAL),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: bool[2, 3]) { y = any[axes=all, keepdims=false] x return y }",
            "(x: bool[2, 3, 2]) { y = any[axes=[0, -1], keepdims=true] x return y }",
            "(x: bool[2, 0]) { y = any[axes=[1], keepdims=false] x return y }",
            "(x: bool[]) { y = any[axes=all, keepdims=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        truth(row.iter().any(|x| *x != 0.0))
    })
}
