use super::Jacobian;
use super::class::same_along_axis;
use super::{Count, Kernel, OpFacts, Ops, axes};
use crate::{Op, StaticKind};

/// `softmax_t[axis] v, y`: `y (v - sum(y v))` along `axis`.
///
/// This is the Jacobian of `softmax` at the result `y`, applied to `v`.
pub(super) static OP: Jacobian = Jacobian {
    name: "softmax_t",
    n_operands: 2,
    statics: &[StaticKind::Axis.named("axis")],
    shape: same_along_axis,
    // dz = dy (v - sum(y v)) - y sum(dy v)
    tangent: |b, eqn, dx| {
        let (v, y, dy) = (eqn.args[0], eqn.args[1], dx[1]?);
        let (axis, keepdims) = (eqn.attrs[0], b.attr(true));
        let yv = b.mul(y, v);
        let total = b.sum(yv, y, axis, keepdims);
        let total = b.sum_t(total, y, axis, keepdims);
        let rest = b.sub(v, total);
        let own = b.mul(dy, rest);
        let dyv = b.mul(dy, v);
        let shift = b.sum(dyv, y, axis, keepdims);
        let shift = b.sum_t(shift, y, axis, keepdims);
        let shift = b.mul(y, shift);
        Some(b.sub(own, shift))
    },
    transpose: Op::SoftmaxT,
    kernel: Kernel::SoftmaxT,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::along),
    domain: (-2.0, 2.0),
    samples: &[
        "(v: f64[2, 3], y: f64[2, 3]) { z = softmax_t[axis=-1] v, y return z }",
        "(v: f64[3, 2, 2], y: f64[3, 2, 2]) { z = softmax_t[axis=0] v, y return z }",
        "(v: f64[2, 0], y: f64[2, 0]) { z = softmax_t[axis=1] v, y return z }",
    ],
};
