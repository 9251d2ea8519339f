use super::{
    Count, Fails, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape,
};
use crate::Op;

/// `softmax_less_hot x, labels`: the softmax of each row of `x`, minus 1 at its label.
///
/// This is the gradient of `logsumexp(x) - x[label]`, which the derivative of `cross_entropy`
/// needs. The rows of `x` are its last axis. A label out of range is an error at run time.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "softmax_less_hot",
    operands: Operands::Fixed(2, 0),
    statics: &[],
    shape: |_, args| shape::labelled(&args[0].shape, &args[1].shape),
    dtype: |_, args| {
        shape::integer(args[1].dtype, "an integer for the labels")?;
        shape::number(args[0].dtype, false)
    },
    methods: &[],
    // dy = p (dx - sum(p dx)) with the softmax p.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x, last) = (dx[0]?, eqn.args[0], b.attr(-1));
        let p = b.emit(Op::Softmax, &[last], &[x]);
        Some(b.emit(Op::SoftmaxT, &[last], &[dx, p]))
    }),
    kernel: Kernel::SoftmaxLessHot,
    count: Count::Rows {
        element: Ops::new(4, 1),
        row: Ops::new(1, 0),
    },
    facts: OpFacts::opaque(axes::classes).fails(Fails::Labels(Op::CrossEntropy)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3], labels: i64[2]) { y = softmax_less_hot x, labels return y }",
            "(x: f64[3], labels: i32[]) { y = softmax_less_hot x, labels return y }",
            "(x: f64[2, 0, 3], labels: i64[2, 0]) { y = softmax_less_hot x, labels return y }",
        ],
    ),
};
