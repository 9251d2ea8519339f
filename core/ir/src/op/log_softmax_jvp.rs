use super::Jacobian;
use super::class::same_along_axis;
use super::nd_array::{Application, NdArray};
use super::softmax_t::total;
use super::{Count, Kernel, OpFacts, Ops, axes};
use crate::{Builder, Eqn, Op, StaticKind, Var};

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
        let p = b.unary(Op::Exp, y);
        let pv = b.mul(p, v);
        let shift = b.mul(dy, pv);
        let shift = total(b, eqn, shift);
        Some(b.neg(shift))
    },
    transpose: Op::LogSoftmaxVjp,
    kernel: Kernel::LogSoftmaxJvp,
    count: Count::Rows {
        element: Ops::new(3, 1),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::composite(axes::ALONG, decompose),
    domain: (-2.0, 0.0),
    samples: &[
        "(v: f64[2, 3], y: f64[2, 3]) { z = log_softmax_jvp[axis=-1] v, y return z }",
        "(v: f64[3, 2, 2], y: f64[3, 2, 2]) { z = log_softmax_jvp[axis=0] v, y return z }",
        "(v: f64[2, 0], y: f64[2, 0]) { z = log_softmax_jvp[axis=1] v, y return z }",
    ],
};

/// `v - sum(exp(y) v)`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (v, y) = (eqn.args[0], eqn.args[1]);
    let p = b.unary(Op::Exp, y);
    let pv = b.mul(p, v);
    let total = total(b, eqn, pv);
    Some(vec![b.sub(v, total)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let [v, y] = [of.x(), of.y()].map(|x| x.row(&[of.axis(0, of.rank())], &i));
        let total: f64 = v.iter().zip(&y).map(|(v, y)| y.exp() * v).sum();
        of.x().get(&i) - total
    })
}
