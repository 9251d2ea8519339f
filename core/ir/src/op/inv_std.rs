use super::nd_array::{Application, NdArray, mean};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Attr, Builder, Eqn, Op, StaticKind, Var};

/// `inv_std[axes, eps] x`: `1 / sqrt(var + eps)`, with the biased variance over `axes`.
///
/// The axes are kept with length 1.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "inv_std",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Epsilon.named("eps"),
    ],
    shape: |statics, args| shape::reduce(&args[0].shape, &statics[0], &true.into()),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: &[],
    // dr = -r^2 mean(normalize(x) dx), as derived in `normalize.rs`.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x, r) = (dx[0]?, eqn.args[0], eqn.out());
        let keepdims = b.attr(true);
        let y = b.emit(Op::Normalize, &eqn.attrs, &[x]);
        let ydx = b.mul(y, dx);
        let mean = b.mean(ydx, x, eqn.attrs[0], keepdims);
        let r2 = b.mul(r, r);
        let factor = b.neg(r2);
        Some(b.mul(factor, mean))
    }),
    kernel: Kernel::InvStd,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(3, 1),
    },
    facts: OpFacts::composite(axes::ALONG, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 4]) { y = inv_std[axes=[-1], eps=0.01] x return y }",
            "(x: f64[2, 3, 2]) { y = inv_std[axes=[0, 2], eps=0.01] x return y }",
            "(x: f64[2, 3]) { y = inv_std[axes=all, eps=0.01] x return y }",
            "(x: f64[0, 3]) { y = inv_std[axes=[1], eps=0.01] x return y }",
        ],
    ),
};

/// `1 / sqrt(mean((x - mean(x))^2) + eps)`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (axes, keepdims) = (eqn.attrs[0], b.attr(true));
    let x = centred(b, eqn.args[0], eqn.attrs[0]);
    let squares = b.mul(x, x);
    let var = b.mean(squares, x, axes, keepdims);
    let eps = b.emit(Op::Scalar, &[eqn.attrs[1]], &[x]);
    let var = b.add(var, eps);
    Some(vec![b.unary(Op::Rsqrt, var)])
}

/// Emits `x - mean(x)` over `axes`.
pub(super) fn centred(b: &mut Builder, x: Var, axes: Attr) -> Var {
    let keepdims = b.attr(true);
    let mean = b.mean(x, x, axes, keepdims);
    let mean = b.sum_t(mean, x, axes, keepdims);
    b.sub(x, mean)
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.reduce(&of.axes(0, of.rank()), |row| moments(row, of.number(1)).1)
}

/// Returns the mean of a row, and the reciprocal of its standard deviation.
pub(super) fn moments(row: &[f64], eps: f64) -> (f64, f64) {
    let centre = mean(row);
    let squares: Vec<f64> = row.iter().map(|x| (x - centre).powi(2)).collect();
    (centre, 1.0 / (mean(&squares) + eps).sqrt())
}
