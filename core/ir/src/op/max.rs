use super::argmax::first_best;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { max {
    /// Largest element over `axes` of numbers, in the same dtype. NaN if any element is NaN.
    ///
    /// Equal largest elements share the derivative equally. A reduced axis of length 0 is an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.max(0).to_vec::<f32>(), [3.0, 5.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn max(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::max`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.max_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn max_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `max[axes, keepdims] x`: the largest element over `axes`; NaN if there is one.
///
/// The derivative is shared equally among equal largest elements.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "max",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::extremum(&args[0].shape, &statics[0], &statics[1]),
    dtype: shape::of_operand,
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| tangent(b, eqn, dx, Op::Lt)),
    kernel: Kernel::Max,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::MAXIMAL).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = max[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = max[axes=[0, -1], keepdims=true] x return y }",
            "(x: f64[2, 3]) { y = max[axes=[1], keepdims=false] x return y }",
            "(x: f64[]) { y = max[axes=all, keepdims=false] x return y }",
            "(x: f64[0, 3]) { y = max[axes=[1], keepdims=false] x return y }",
            "(x: i64[2, 3]) { y = max[axes=[0], keepdims=false] x return y }",
            "(x: bool[2, 3]) { y = max[axes=[0], keepdims=false] x return y }",
        ],
    ),
};

/// Emits the tangent of a maximum or minimum `y`: the mean of `dx` over the elements equal to `y`.
///
/// `short` is the comparison that is true for elements other than `y`: `Lt` for a maximum. If `y`
/// is NaN, the tangent is NaN.
pub(super) fn tangent(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>], short: Op) -> Option<Var> {
    let (dx, x, y) = (dx[0]?, eqn.args[0], eqn.out());
    let [axes, keepdims] = [eqn.attrs[0], eqn.attrs[1]];
    let extremum = b.sum_t(y, x, axes, keepdims);
    let short = b.binary(short, x, extremum);
    let [zero, one] = [0.0, 1.0].map(|n| b.scalar(n, x));
    let hits = b.select(short, zero, one);
    let n_hits = b.sum(hits, x, axes, keepdims);
    let is_number = b.binary(Op::Eq, y, y);
    let n_hits = b.select(is_number, n_hits, y);
    // Linear ops do not broadcast, so the zeros need the shape of `dx`.
    let zeros = b.zeros_like(x);
    let dx = b.select(short, zeros, dx);
    let total = b.sum(dx, x, axes, keepdims);
    Some(b.div(total, n_hits))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| {
        row[first_best(row, |x, y| x > y || x.is_nan())]
    })
}
