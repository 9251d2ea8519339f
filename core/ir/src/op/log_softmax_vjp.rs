use super::Jacobian;
use super::class::same_along_axis;
use super::nd_array::{Application, NdArray};
use super::softmax_t::total;
use super::{Count, Kernel, OpFacts, Ops, axes};
use crate::{Builder, Eqn, Op, StaticKind, Var};

/// `log_softmax_vjp[axis] v, y`: `v - exp(y) sum(v)` along `axis`.
///
/// This is the transpose of `log_softmax_jvp`.
///
/// The elements of `y` are logarithms of probabilities, so none is positive.
pub(super) static OP: Jacobian = Jacobian {
    name: "log_softmax_vjp",
    n_operands: 2,
    statics: &[StaticKind::Axis.named("axis")],
    shape: same_along_axis,
    // dz = -exp(y) dy sum(v)
    tangent: |b, eqn, dx| {
        let (v, y, dy) = (eqn.args[0], eqn.args[1], dx[1]?);
        let p = b.unary(Op::Exp, y);
        let total = total(b, eqn, v);
        let factor = b.mul(p, total);
        let factor = b.neg(factor);
        Some(b.mul(dy, factor))
    },
    transpose: Op::LogSoftmaxJvp,
    kernel: Kernel::LogSoftmaxVjp,
    count: Count::Rows {
        element: Ops::new(3, 1),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::composite(axes::ALONG, decompose),
    domain: (-2.0, 0.0),
    samples: &[
        "(v: f64[2, 3], y: f64[2, 3]) { z = log_softmax_vjp[axis=-1] v, y return z }",
        "(v: f64[3, 2, 2], y: f64[3, 2, 2]) { z = log_softmax_vjp[axis=0] v, y return z }",
        "(v: f64[2, 0], y: f64[2, 0]) { z = log_softmax_vjp[axis=1] v, y return z }",
    ],
};

/// `v - exp(y) sum(v)`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (v, y) = (eqn.args[0], eqn.args[1]);
    let p = b.unary(Op::Exp, y);
    let total = total(b, eqn, v);
    let along = b.mul(p, total);
    Some(vec![b.sub(v, along)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let v = of.x().row(&[of.axis(0, of.rank())], &i);
        of.x().get(&i) - of.y().get(&i).exp() * v.iter().sum::<f64>()
    })
}
