use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Attr, Builder, Dim, Eqn, Op, StaticKind, Var};

methods! { logsumexp {
    /// `log(sum(exp(x)))` over `axes` of floats, in the same dtype, without overflow.
    ///
    /// The result for no elements is negative infinity.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1e3f64, 1e3]);
    /// assert_eq!(x.logsumexp(..).item::<f64>(), 1e3 + 2f64.ln());
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn logsumexp(x: Data, axes: Static, keepdims: Switch(false));

    /// [`Tensor::logsumexp`] that keeps the reduced axes with length 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.logsumexp_keepdims(-1).shape(), [2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn logsumexp_keepdims(x: Data, axes: Static, keepdims: Switch(true));
} }

/// `logsumexp[axes, keepdims] x`: `log(sum(exp(x)))` over `axes`, without overflow.
///
/// The result for no elements is minus infinity.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "logsumexp",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Flag.named("keepdims"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &statics[1]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    // dy = sum(exp(x - y) dx) / sum(exp(x - y)). The divisor is 1 but for the rounding of y, which is
    // large if y is.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x, y) = (dx[0]?, eqn.args[0], eqn.out());
        let [axes, keepdims] = [eqn.attrs[0], eqn.attrs[1]];
        let total = b.sum_t(y, x, axes, keepdims);
        let log_p = b.sub(x, total);
        let p = b.unary(Op::Exp, log_p);
        let pdx = b.mul(p, dx);
        let [change, one] = [pdx, p].map(|terms| b.sum(terms, x, axes, keepdims));
        Some(b.div(change, one))
    }),
    kernel: Kernel::Logsumexp,
    count: Count::Rows {
        element: Ops::new(3, 1),
        row: Ops::new(1, 1),
    },
    facts: OpFacts::composite(axes::REDUCED, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = logsumexp[axes=all, keepdims=false] x return y }",
            "(x: f64[2, 3, 2]) { y = logsumexp[axes=[0, -1], keepdims=true] x return y }",
            "(x: f64[2, 3]) { y = logsumexp[axes=[1], keepdims=false] x return y }",
            "(x: f64[]) { y = logsumexp[axes=all, keepdims=false] x return y }",
            "(x: f64[0, 3]) { y = logsumexp[axes=[1], keepdims=false] x return y }",
        ],
    ),
};

/// With the largest element `m`, the result is `m + log(sum(exp(x - m)))`.
///
/// A sum of 0 has the logarithm minus infinity, without a derivative.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (x, axes, keepdims) = (eqn.args[0], eqn.attrs[0], eqn.attrs[1]);
    let (zero, one) = (b.scalar(0.0, x), b.scalar(1.0, x));
    let (shifted, largest) = less_largest(b, x, axes, keepdims);
    let exp = b.unary(Op::Exp, shifted);
    let total = b.sum(exp, x, axes, keepdims);
    let is_zero = b.binary(Op::Eq, total, zero);
    let positive = b.select(is_zero, one, total);
    let log = b.unary(Op::Log, positive);
    let log = match largest {
        Some(largest) => b.add(log, largest),
        None => log,
    };
    let infinity = b.scalar(f64::INFINITY, x);
    let least = b.neg(infinity);
    Some(vec![b.select(is_zero, least, log)])
}

/// Emits `x - m` and `m`, the largest element along the axes, or 0 if that is infinite.
///
/// There is no `m` along axes of length 0.
pub(super) fn less_largest(
    b: &mut Builder,
    x: Var,
    axes: Attr,
    keepdims: Attr,
) -> (Var, Option<Var>) {
    let is_empty = |dims: &[Dim]| {
        let axes = shape::axes(b.static_of(axes), dims.len()).ok().flatten();
        axes.is_some_and(|axes| axes.iter().any(|a| dims[*a] == Dim::Known(0)))
    };
    if b.aval(x).shape.dims().is_some_and(is_empty) {
        return (x, None);
    }
    let (zero, infinity) = (b.scalar(0.0, x), b.scalar(f64::INFINITY, x));
    let m = b.emit(Op::Max, &[axes, keepdims], &[x]);
    let m = b.unary(Op::StopGradient, m);
    let size = b.unary(Op::Abs, m);
    let is_finite = b.binary(Op::Lt, size, infinity);
    let m = b.select(is_finite, m, zero);
    let each = b.sum_t(m, x, axes, keepdims);
    (b.sub(x, each), Some(m))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), log_sum_exp)
}

/// Returns the logarithm of the sum of the exponentials.
pub(super) fn log_sum_exp(row: &[f64]) -> f64 {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = if top.is_finite() { top } else { 0.0 };
    top + row.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
}
