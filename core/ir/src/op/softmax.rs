use super::log_softmax::log_softmax_at;
use super::logsumexp::less_largest;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { softmax {
    /// `exp(x) / sum(exp(x))` along an axis, without overflow. Shape and dtype are those of `self`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32, 0.0], [1000.0, 0.0]]);
    /// assert_eq!(x.softmax(-1).to_vec::<f32>(), [0.5, 0.5, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or the dtype is not a float.
    fn softmax(x: Data, axis: Static);
} }

/// `softmax[axis] x`: `exp(x) / sum(exp(x))` along `axis`, without overflow.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "softmax",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Axis.named("axis")],
    shape: |statics, args| shape::along(&args[0].shape, &statics[0]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    // dy = y (dx - sum(y dx))
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, y, axis) = (dx[0]?, eqn.out(), eqn.attrs[0]);
        Some(b.emit(Op::SoftmaxT, &[axis], &[dx, y]))
    }),
    kernel: Kernel::Softmax,
    count: Count::Rows {
        element: Ops::new(4, 1),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::composite(axes::ALONG, decompose).range(|of| of.x().positive().bounded()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = softmax[axis=-1] x return y }",
            "(x: f64[3, 2, 2]) { y = softmax[axis=0] x return y }",
            "(x: f64[2, 0]) { y = softmax[axis=1] x return y }",
        ],
    ),
};

/// `e / sum(e)` for `e = exp(x - max(x))`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (x, axis, keepdims) = (eqn.args[0], eqn.attrs[0], b.attr(true));
    let (shifted, _) = less_largest(b, x, axis, keepdims);
    let exp = b.unary(Op::Exp, shifted);
    let total = b.sum(exp, x, axis, keepdims);
    let total = b.sum_t(total, x, axis, keepdims);
    Some(vec![b.div(exp, total)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| log_softmax_at(of.x(), of.axis(0, of.rank()), &i).exp())
}
