use super::cross_entropy_grad::one_hot_mask;
use super::log_softmax::log_softmax_at;
use super::logsumexp::less_largest;
use super::nd_array::{Application, NdArray, indices, mean};
use super::{
    Count, Fails, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, lanes,
    shape,
};
use crate::{Builder, Eqn, Op, Shape, Var};

methods! { cross_entropy {
    /// `mean(logsumexp(x) - x[label])` over all rows: the mean cross entropy of logits and labels.
    ///
    /// The logits are floats of shape `[.., C]`, the labels integers of shape `[..]`. The result
    /// has rank 0 and the dtype of the logits; it is NaN if there are no rows.
    ///
    /// A label outside of `0..C` is an error when the value is computed.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let logits = Tensor::from([[0.0f64, 0.0], [0.0, 0.0]]);
    /// let loss = logits.cross_entropy(&Tensor::from([0i64, 1]));
    /// assert!((loss.item::<f64>() - 2f64.ln()).abs() < 1e-15);
    /// ```
    ///
    /// # Panics
    ///
    /// If the logits have rank 0, the shape of the labels is not that of the rows, the logits are
    /// not floats, or the labels are not integers.
    fn cross_entropy(logits: Data, labels: Data);
} }

/// `cross_entropy x, labels`: the mean over all rows of `logsumexp(x) - x[label]`.
///
/// The rows of `x` are its last axis, and `labels` holds an integer for each row. A label out of
/// range is an error at run time. The mean over no rows is NaN.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "cross_entropy",
    operands: Operands::Fixed(2, 0),
    statics: &[],
    shape: |_, args| {
        let rows = shape::labelled(&args[0].shape, &args[1].shape)?;
        shape::check_size(&rows)?;
        Ok(Shape::scalar())
    },
    dtype: |_, args| {
        shape::integer(args[1].dtype, "an integer for the labels")?;
        shape::number(args[0].dtype, false)
    },
    methods: METHODS,
    // dy = mean over rows of sum((softmax(x) - one_hot(labels)) dx). Only the shape of `labels` is
    // needed for the mean.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x, labels) = (dx[0]?, eqn.args[0], eqn.args[1]);
        let [last, all, no] = [b.attr(-1), b.attr(crate::Static::All), b.attr(false)];
        let factor = b.emit(Op::CrossEntropyGrad, &[], &[x, labels]);
        let d = b.mul(factor, dx);
        let d = b.sum(d, x, last, no);
        Some(b.mean(d, labels, all, no))
    }),
    kernel: Kernel::CrossEntropy,
    count: Count::Rows {
        element: Ops::new(3, 1),
        row: Ops::new(3, 1),
    },
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose)
        .byproduct(Op::CrossEntropyGrad)
        .fails(Fails::Labels(Op::CrossEntropy)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3], labels: i64[2]) { y = cross_entropy x, labels return y }",
            "(x: f64[2, 2, 4], labels: i32[2, 2]) { y = cross_entropy x, labels return y }",
            "(x: f64[3], labels: i64[]) { y = cross_entropy x, labels return y }",
        ],
    ),
};

/// The mean over rows of `logsumexp(s)` less the element of `s` at the label, for `s = x - max(x)`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let x = eqn.args[0];
    let hot = one_hot_mask(b, x, eqn.args[1])?;
    let [last, all, no] = [b.attr(-1), b.attr(crate::Static::All), b.attr(false)];
    let keepdims = b.attr(true);
    let (shifted, _) = less_largest(b, x, last, keepdims);
    let total = b.emit(Op::Logsumexp, &[last, no], &[shifted]);
    let zero = b.scalar(0.0, x);
    let at_label = b.select(hot, shifted, zero);
    let at_label = b.sum(at_label, x, last, no);
    let loss = b.sub(total, at_label);
    Some(vec![b.mean(loss, loss, all, no)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let loss = |row: Vec<usize>| {
        let at_label = [&row[..], &[of.y().get(&row) as usize]].concat();
        -log_softmax_at(of.x(), of.rank() - 1, &at_label)
    };
    let losses: Vec<f64> = indices(&of.y().shape).into_iter().map(loss).collect();
    of.build(|_| mean(&losses))
}
