use super::Jacobian;
use super::class::same_along_axis;
use super::nd_array::{Application, NdArray, dot};
use super::{Count, Kernel, OpFacts, Ops, axes};
use crate::{Builder, Eqn, Op, StaticKind, Var};

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
        let yv = b.mul(y, v);
        let along_y = total(b, eqn, yv);
        let rest = b.sub(v, along_y);
        let own = b.mul(dy, rest);
        let dyv = b.mul(dy, v);
        let shift = total(b, eqn, dyv);
        let shift = b.mul(y, shift);
        Some(b.sub(own, shift))
    },
    transpose: Op::SoftmaxT,
    kernel: Kernel::SoftmaxT,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::composite(axes::ALONG, decompose),
    domain: (-2.0, 2.0),
    samples: &[
        "(v: f64[2, 3], y: f64[2, 3]) { z = softmax_t[axis=-1] v, y return z }",
        "(v: f64[3, 2, 2], y: f64[3, 2, 2]) { z = softmax_t[axis=0] v, y return z }",
        "(v: f64[2, 0], y: f64[2, 0]) { z = softmax_t[axis=1] v, y return z }",
    ],
};

/// `y (v - sum(y v))`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (v, y) = (eqn.args[0], eqn.args[1]);
    let yv = b.mul(y, v);
    let total = total(b, eqn, yv);
    let rest = b.sub(v, total);
    Some(vec![b.mul(y, rest)])
}

/// Emits the sum of `x` along the axis of `eqn`, repeated to the shape of `x`.
pub(super) fn total(b: &mut Builder, eqn: &Eqn, x: Var) -> Var {
    let (y, axis, keepdims) = (eqn.args[1], eqn.attrs[0], b.attr(true));
    let total = b.sum(x, y, axis, keepdims);
    b.sum_t(total, y, axis, keepdims)
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let [v, y] = [of.x(), of.y()].map(|x| x.row(&[of.axis(0, of.rank())], &i));
        of.y().get(&i) * (of.x().get(&i) - dot(&v, &y))
    })
}
