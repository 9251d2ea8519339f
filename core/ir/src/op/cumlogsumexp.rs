use super::cumsum::{scanned, walk};
use super::logsumexp::log_sum_exp;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

methods! { cumlogsumexp {
    /// `log(sum(exp(x)))` of the elements up to each one along `axes` of floats, without overflow.
    ///
    /// Several axes are walked in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1e3f64, 1e3]);
    /// assert_eq!(x.cumlogsumexp(0).to_vec::<f64>(), [1e3, 1e3 + 2f64.ln()]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cumlogsumexp(x: Data, axes: Static, reverse: Switch(false));
} }

/// `cumlogsumexp[axes, reverse] x`: `log(sum(exp(x)))` of the elements up to each one along `axes`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "cumlogsumexp",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    shape: scanned,
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    // dy[i] = exp(x[i] - y[i]) dx[i] + exp(y[i - 1] - y[i]) dy[i - 1]. Where y is minus infinity, all
    // elements so far are, and the factors are 1.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x, y) = (dx[0]?, eqn.args[0], eqn.out());
        let before = b.emit(Op::Shift, &eqn.attrs, &[y]);
        let least = b.scalar(f64::NEG_INFINITY, x);
        let is_least = b.binary(Op::Eq, y, least);
        let zero = b.scalar(0.0, x);
        let [weights, factors] = [x, before].map(|x| {
            let gap = b.sub(x, y);
            let gap = b.select(is_least, zero, gap);
            b.unary(Op::Exp, gap)
        });
        let no = b.attr(false);
        let attrs = [eqn.attrs[0], eqn.attrs[1], no];
        let change = b.mul(weights, dx);
        Some(b.emit(Op::Recurrence, &attrs, &[change, factors]))
    }),
    kernel: Kernel::Cumlogsumexp,
    count: Count::each(3, 2),
    facts: OpFacts::opaque(axes::ALONG),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = cumlogsumexp[axes=[1], reverse=false] x return y }",
            "(x: f64[3, 2]) { y = cumlogsumexp[axes=[-2], reverse=true] x return y }",
            "(x: f64[2, 2, 2]) { y = cumlogsumexp[axes=[0, 2], reverse=false] x return y }",
            "(x: f64[2, 0]) { y = cumlogsumexp[axes=[1], reverse=false] x return y }",
            "(x: f64[]) { y = cumlogsumexp[axes=all, reverse=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| log_sum_exp(&rows[0]))
}
