use super::inv_std::centred;
use super::inv_std::moments;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Attr, Builder, Eqn, Op, StaticKind, Var};

methods! { normalize {
    /// `(x - mean) / sqrt(var + eps)` over `axes`, with the biased variance.
    ///
    /// Shape and dtype are those of `self`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, -5.0], [3.0, 5.0]]);
    /// assert_eq!(x.normalize(0, 0.0).to_vec::<f32>(), [-1.0, -1.0, 1.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the dtype is not a float.
    fn normalize(x: Data, axes: Static, eps: Static);
} }

/// `normalize[axes, eps] x`: `(x - mean) / sqrt(var + eps)` over `axes`.
///
/// The variance is the biased one.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "normalize",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::Epsilon.named("eps"),
    ],
    shape: |statics, args| {
        shape::reduce(&args[0].shape, &statics[0], &true.into())?;
        Ok(args[0].shape.clone())
    },
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let [axes, eps] = [eqn.attrs[0], eqn.attrs[1]];
        Some(tangent(b, axes, eps, eqn.args[0], eqn.out(), dx[0]?))
    }),
    kernel: Kernel::Normalize,
    count: Count::Rows {
        element: Ops::new(5, 0),
        row: Ops::new(3, 1),
    },
    facts: OpFacts::composite(axes::ALONG, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 4]) { y = normalize[axes=[-1], eps=0.01] x return y }",
            "(x: f64[2, 3, 2]) { y = normalize[axes=[0, 2], eps=0.01] x return y }",
            "(x: f64[2, 3]) { y = normalize[axes=all, eps=0.01] x return y }",
            "(x: f64[0, 3]) { y = normalize[axes=[1], eps=0.01] x return y }",
        ],
    ),
};

/// Emits the tangent of `y = normalize[axes, eps] x`.
///
/// With `m` the mean of `x`, `v = mean((x - m)^2)`, `r = (v + eps)^(-1/2)` and `y = (x - m) r`:
///
/// ```text
/// dv = 2 mean((x - m) dx)                   as the mean of x - m is 0
/// dr = -1/2 r^3 dv = -r^2 mean(y dx)
/// dy = (dx - mean(dx)) r + (x - m) dr
///    = r (dx - mean(dx) - y mean(y dx))
/// ```
fn tangent(b: &mut Builder, axes: Attr, eps: Attr, x: Var, y: Var, dx: Var) -> Var {
    let r = b.emit(Op::InvStd, &[axes, eps], &[x]);
    b.emit(Op::NormalizeT, &[axes], &[dx, y, r])
}

/// `(x - mean(x)) inv_std(x)`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let x = centred(b, eqn.args[0], eqn.attrs[0]);
    let r = b.emit(Op::InvStd, &eqn.attrs, &eqn.args);
    Some(vec![b.mul(x, r)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let (mean, scale) = moments(&of.x().row(&of.axes(0, of.rank()), &i), of.number(1));
        (of.x().get(&i) - mean) * scale
    })
}
