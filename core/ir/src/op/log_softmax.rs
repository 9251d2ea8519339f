use super::logsumexp::{less_largest, log_sum_exp};
use super::nd_array::{Application, NdArray};
use super::{
    Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, Range, axes, shape,
};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { log_softmax {
    /// `x - log(sum(exp(x)))` along an axis: the logarithm of [`Tensor::softmax`].
    ///
    /// More precise than the logarithm of the softmax. Shape and dtype are those of `self`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1000.0f32, 0.0]);
    /// assert_eq!(x.log_softmax(0).to_vec::<f32>(), [0.0, -1000.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or the dtype is not a float.
    fn log_softmax(x: Data, axis: Static);
} }

/// `log_softmax[axis] x`: `x - logsumexp(x)` along `axis`, the logarithm of `softmax`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "log_softmax",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Axis.named("axis")],
    shape: |statics, args| shape::along(&args[0].shape, &statics[0]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    // dy = dx - sum(exp(y) dx), where exp(y) is the softmax.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, y, axis) = (dx[0]?, eqn.out(), eqn.attrs[0]);
        Some(b.emit(Op::LogSoftmaxJvp, &[axis], &[dx, y]))
    }),
    kernel: Kernel::LogSoftmax,
    count: Count::Rows {
        element: Ops::new(4, 1),
        row: Ops::new(0, 1),
    },
    facts: OpFacts::composite(axes::ALONG, decompose).range(|of| Range {
        at_most_0: true,
        ..of.x().unknown()
    }),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = log_softmax[axis=-1] x return y }",
            "(x: f64[3, 2, 2]) { y = log_softmax[axis=0] x return y }",
            "(x: f64[2, 0]) { y = log_softmax[axis=1] x return y }",
        ],
    ),
};

/// `s - log(sum(exp(s)))` for `s = x - max(x)`, which large elements do not round.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (x, axis, keepdims) = (eqn.args[0], eqn.attrs[0], b.attr(true));
    let (shifted, _) = less_largest(b, x, axis, keepdims);
    let exp = b.unary(Op::Exp, shifted);
    let total = b.sum(exp, x, axis, keepdims);
    let log = b.unary(Op::Log, total);
    let log = b.sum_t(log, x, axis, keepdims);
    Some(vec![b.sub(shifted, log)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| log_softmax_at(of.x(), of.axis(0, of.rank()), &i))
}

/// Returns an element of the logarithm of a softmax.
pub(super) fn log_softmax_at(x: &NdArray, axis: usize, index: &[usize]) -> f64 {
    x.get(index) - log_sum_exp(&x.row(&[axis], index))
}
