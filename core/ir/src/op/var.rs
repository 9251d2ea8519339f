use super::inv_std::centred;
use super::nd_array::{Application, NdArray, mean};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Attr, Builder, Eqn, Op, StaticKind, Var};

methods! { var {
    /// Variance over `axes`: of floats in their dtype, of integers and `bool` as `f64`. NaN if there are
    /// no elements.
    ///
    /// The divisor of the squares is the number of elements minus `correction`: 0 for the biased
    /// variance, 1 for the unbiased one. A divisor below 0 counts as 0.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 5.0]);
    /// assert_eq!(x.var(0, 0).item::<f32>(), 4.0);
    /// assert_eq!((x * 2f32.sqrt()).var(0, 1).item::<f32>().round(), 16.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn var(x: Data, axes: Static, keepdims: Switch(false), correction: Static);

    /// [`Tensor::var`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.var_keepdims(-1, 0).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn var_keepdims(x: Data, axes: Static, keepdims: Switch(true), correction: Static);
} }

/// `var[axes, keepdims, correction] x`: the variance over `axes`.
///
/// The divisor is the number of elements minus `correction`, at least 0.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "var",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
        StaticKind::Offset.named("correction"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    // dy = 2 sum((x - mean) dx) / divisor, because the deviations add up to 0.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let half = half_tangent(b, eqn, dx[0]?);
        Some(b.add(half, half))
    }),
    kernel: Kernel::Var,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(3, 0),
    },
    facts: OpFacts::composite(axes::REDUCED, decompose).range(|of| of.unknown().magnitude()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = var[axes=all, keepdims=false, correction=0] x return y }",
            "(x: f64[2, 3, 2]) { y = var[axes=[0, -1], keepdims=true, correction=1] x return y }",
            "(x: f64[4, 3]) { y = var[axes=[0], keepdims=false, correction=-2] x return y }",
            "(x: f64[0, 3]) { y = var[axes=[1], keepdims=false, correction=0] x return y }",
        ],
    ),
};

/// Emits `sum((x - mean) dx) / divisor`.
pub(super) fn half_tangent(b: &mut Builder, eqn: &Eqn, dx: Var) -> Var {
    let (x, axes, keepdims) = (eqn.args[0], eqn.attrs[0], eqn.attrs[1]);
    // The mean is rounded. If it is large, the deviations from it do not add up to 0.
    let near_0 = centred(b, x, axes);
    let centred = centred(b, near_0, axes);
    let product = b.mul(centred, dx);
    let total = b.sum(product, x, axes, keepdims);
    let divisor = divisor(b, x, [axes, keepdims, eqn.attrs[2]]);
    b.div(total, divisor)
}

/// Emits the number of elements minus the correction, in the shape of the result.
fn divisor(b: &mut Builder, x: Var, [axes, keepdims, correction]: [Attr; 3]) -> Var {
    let one = b.attr(1.0);
    let ones = b.emit(Op::FullLike, &[one], &[x]);
    let n = b.sum(ones, x, axes, keepdims);
    let correction = b.emit(Op::Scalar, &[correction], &[x]);
    let zero = b.scalar(0.0, x);
    let divisor = b.sub(n, correction);
    b.binary(Op::Maximum, divisor, zero)
}

/// `sum((x - mean)^2) / divisor`.
pub(super) fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (x, axes, keepdims) = (eqn.args[0], eqn.attrs[0], eqn.attrs[1]);
    let centred = centred(b, eqn.args[0], eqn.attrs[0]);
    let squares = b.mul(centred, centred);
    let total = b.sum(squares, x, axes, keepdims);
    let divisor = divisor(b, x, [axes, keepdims, eqn.attrs[2]]);
    Some(vec![b.div(total, divisor)])
}

/// Returns the variance of a row.
pub(super) fn variance(row: &[f64], correction: i64) -> f64 {
    let mean = mean(row);
    let squares: f64 = row.iter().map(|x| (x - mean).powi(2)).sum();
    squares / (row.len() as i64 - correction).max(0) as f64
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| variance(row, of.int(2)))
}
