use super::Jacobian;
use super::class::same_along_axis;
use super::{Count, Kernel, OpFacts, Ops, axes};
use crate::{Op, StaticKind};

/// `log_softmax_jvp[axis] v, y`: `v - sum(exp(y) v)` along `axis`.
///
/// This is the Jacobian of `log_softmax` at the result `y`, applied to `v`. The elements of `y` are
/// logarithms of probabilities, so none is positive.
pub(super) static OP: Jacobian = Jacobian {
    name: "log_softmax_jvp",
    n_operands: 2,
    statics: &[StaticKind::Axis.named("axis")],
    shape: same_along_axis,
    // dz = -sum(exp(y) dy v)
    tangent: |b, eqn, dx| {
        let (v, y, dy) = (eqn.args[0], eqn.args[1], dx[1]?);
        let (axis, keepdims) = (eqn.attrs[0], b.attr(true));
        let p = b.unary(Op::Exp, y);
        let pv = b.mul(p, v);
        let shift = b.mul(dy, pv);
        let shift = b.sum(shift, y, axis, keepdims);
        let shift = b.sum_t(shift, y, axis, keepdims);
        Some(b.neg(shift))
    },
    transpose: Op::LogSoftmaxVjp,
    kernel: Kernel::LogSoftmaxJvp,
    count: Count::Rows {
        element: Ops::new(3, 1),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::along),
    domain: (-2.0, 0.0),
    samples: &[
        "(v: f64[2, 3], y: f64[2, 3]) { z = log_softmax_jvp[axis=-1] v, y return z }",
        "(v: f64[3, 2, 2], y: f64[3, 2, 2]) { z = log_softmax_jvp[axis=0] v, y return z }",
        "(v: f64[2, 0], y: f64[2, 0]) { z = log_softmax_jvp[axis=1] v, y return z }",
    ],
};
