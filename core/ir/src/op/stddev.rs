use super::nd_array::{Application, NdArray};
use super::var::{half_tangent, variance};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { stddev {
    /// Standard deviation over `axes`: of floats in their dtype, of integers and `bool` as `f64`. NaN if
    /// there are no elements.
    ///
    /// The divisor of the squares is the number of elements minus `correction`: 0 for the biased
    /// variance, 1 for the unbiased one. A divisor below 0 counts as 0.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 5.0]);
    /// assert_eq!(x.std(0, 0).item::<f32>(), 2.0);
    /// assert_eq!((x * 2f32.sqrt()).std(0, 1).item::<f32>().round(), 4.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn std(x: Data, axes: Static, keepdims: Switch(false), correction: Static);

    /// [`Tensor::std`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.std_keepdims(-1, 0).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn std_keepdims(x: Data, axes: Static, keepdims: Switch(true), correction: Static);
} }

/// `stddev[axes, keepdims, correction] x`: the square root of `var`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "stddev",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
        StaticKind::Offset.named("correction"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    // dy = dvar / (2 y).
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let half = half_tangent(b, eqn, dx[0]?);
        Some(b.div(half, eqn.out()))
    }),
    kernel: Kernel::Stddev,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(3, 1),
    },
    facts: OpFacts::composite(axes::REDUCED, decompose).range(|of| of.unknown().magnitude()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = stddev[axes=all, keepdims=false, correction=0] x return y }",
            "(x: f64[2, 3, 2]) { y = stddev[axes=[0, -1], keepdims=true, correction=1] x return y }",
            "(x: f64[4, 3]) { y = stddev[axes=[0], keepdims=false, correction=-2] x return y }",
            "(x: f64[0, 3]) { y = stddev[axes=[1], keepdims=false, correction=0] x return y }",
        ],
    ),
};

fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let var = b.emit(Op::Var, &eqn.attrs, &[eqn.args[0]]);
    Some(vec![b.unary(Op::Sqrt, var)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        variance(row, of.int(2)).sqrt()
    })
}
