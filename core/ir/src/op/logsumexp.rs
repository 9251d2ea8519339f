use super::{
    Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, Param, axes,
    shape,
};
use crate::{Op, StaticKind};

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
    methods: &[
        Method::on_tensor(
            "logsumexp",
            &[Param::Data, Param::Static, Param::Switch(false)],
        ),
        Method::on_tensor(
            "logsumexp_keepdims",
            &[Param::Data, Param::Static, Param::Switch(true)],
        ),
    ],
    // dy = sum(exp(x - y) dx), where exp(x - y) is the softmax over all of the axes together.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x, y) = (dx[0]?, eqn.args[0], eqn.out());
        let [axes, keepdims] = [eqn.attrs[0], eqn.attrs[1]];
        let total = b.sum_t(y, x, axes, keepdims);
        let log_p = b.sub(x, total);
        let p = b.unary(Op::Exp, log_p);
        let pdx = b.mul(p, dx);
        Some(b.sum(pdx, x, axes, keepdims))
    }),
    kernel: Kernel::Logsumexp,
    count: Count::Rows {
        element: Ops::new(3, 1),
        row: Ops::new(1, 1),
    },
    facts: OpFacts::opaque(axes::reduced),
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
