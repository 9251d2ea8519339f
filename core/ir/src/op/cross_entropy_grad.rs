use super::log_softmax::log_softmax_at;
use super::nd_array::{Application, NdArray, truth};
use super::{
    Count, Fails, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape,
};
use crate::{Builder, DType, Eqn, Op, Var};

/// `cross_entropy_grad x, labels`: the softmax of each row of `x`, minus 1 at its label.
///
/// This is the gradient of `logsumexp(x) - x[label]`, which the derivative of `cross_entropy`
/// needs. The rows of `x` are its last axis. A label out of range is an error at run time.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "cross_entropy_grad",
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
    kernel: Kernel::CrossEntropyGrad,
    count: Count::Rows {
        element: Ops::new(4, 1),
        row: Ops::new(1, 0),
    },
    facts: OpFacts::composite(axes::CLASSES, decompose).fails(Fails::Labels(Op::CrossEntropy)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3], labels: i64[2]) { y = cross_entropy_grad x, labels return y }",
            "(x: f64[3], labels: i32[]) { y = cross_entropy_grad x, labels return y }",
            "(x: f64[2, 0, 3], labels: i64[2, 0]) { y = cross_entropy_grad x, labels return y }",
        ],
    ),
};

/// `softmax(x)`, less 1 at the label.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (x, last) = (eqn.args[0], b.attr(-1));
    let hot = one_hot_mask(b, x, eqn.args[1])?;
    let p = b.emit(Op::Softmax, &[last], &[x]);
    let one = b.scalar(1.0, x);
    let less = b.sub(p, one);
    Some(vec![b.select(hot, less, p)])
}

/// Emits a bool for each class of a row, true at its label. Returns `None` if their number is
/// unknown.
pub(super) fn one_hot_mask(b: &mut Builder, x: Var, labels: Var) -> Option<Var> {
    let n_classes = b.aval(x).shape.dims()?.last()?.known()?;
    let statics = [b.attr(n_classes as i64), b.attr(DType::Bool), b.attr(true)];
    Some(b.emit(Op::OneHot, &statics, &[labels]))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let p = log_softmax_at(of.x(), of.rank() - 1, &i).exp();
        let (class, row) = (i[i.len() - 1], &i[..i.len() - 1]);
        p - truth(of.y().get(row) == class as f64)
    })
}
