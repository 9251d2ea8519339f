use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Op, StaticKind};

methods! { prod {
    /// Product over `axes` of numbers, in the same dtype; of integers of 8 bits and `bool`, as `i64`. The product of no
    /// elements is 1; integers wrap.
    ///
    /// Derivatives are correct for zeros, too.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.prod(0).to_vec::<f32>(), [3.0, 8.0]);
    /// assert_eq!(x.prod(..).item::<f32>(), 24.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn prod(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::prod`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.prod_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn prod_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `prod[axes, keepdims] x`: the product over `axes`. Integers wrap.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "prod",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::added(args[0].dtype),
    methods: METHODS,
    // dy is the sum of dx times the product of the elements before, and of those after. There is no
    // division, so zeros are not an exception.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x) = (dx[0]?, eqn.args[0]);
        let [axes, keepdims] = [eqn.attrs[0], eqn.attrs[1]];
        let [no, yes] = [b.attr(false), b.attr(true)];
        let [before, after] = [no, yes].map(|back| b.emit(Op::Cumprod, &[axes, back, yes], &[x]));
        let others = b.mul(before, after);
        let change = b.mul(dx, others);
        Some(b.sum(change, x, axes, keepdims))
    }),
    kernel: Kernel::Prod,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::MULTIPLIED),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = prod[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = prod[axes=[0, -1], keepdims=true] x return y }",
            "(x: f64[2, 3]) { y = prod[axes=[1], keepdims=false] x return y }",
            "(x: f64[2, 0]) { y = prod[axes=[1], keepdims=false] x return y }",
            "(x: f64[]) { y = prod[axes=all, keepdims=false] x return y }",
            "(x: i64[2, 3]) { y = prod[axes=[0], keepdims=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| row.iter().product())
}
