use super::nd_array::{Application, NdArray, truth};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::StaticKind;

methods! { all {
    /// Whether every element is true over `axes` of truth values, as `bool`. The result for no elements is true.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[true, false], [true, true]]);
    /// assert_eq!(x.all(0).to_vec::<bool>(), [true, false]);
    /// assert_eq!(x.eq(&x).all(..).item::<bool>(), true);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the dtype is not `bool`.
    fn all(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::all`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[true, false], [true, true]]);
    /// assert_eq!(x.all_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the dtype is not `bool`.
    fn all_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `all[axes, keepdims] x`: whether every element is true over `axes`. Takes bools.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "all",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::truth(args[0].dtype),
    methods: METHODS,
    rule: NonlinearRule::Zero("a truth value has no derivative"),
    kernel: Kernel::All,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::MINIMAL),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: bool[2, 3]) { y = all[axes=all, keepdims=false] x return y }",
            "(x: bool[2, 3, 2]) { y = all[axes=[0, -1], keepdims=true] x return y }",
            "(x: bool[2, 0]) { y = all[axes=[1], keepdims=false] x return y }",
            "(x: bool[]) { y = all[axes=all, keepdims=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        truth(row.iter().all(|x| *x != 0.0))
    })
}
