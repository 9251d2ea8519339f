use super::layer_norm::with_vectors;
use super::nd_array::{Application, NdArray, mean};
use super::norm_jvp::Norm;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Builder, Eqn, StaticKind, Var};

methods! { rms_norm {
    /// `x / sqrt(mean(x^2) + eps) * weight` over the last axis.
    ///
    /// `weight` has the length of the last axis and the same float dtype as `self`. Shape and dtype
    /// of the result are those of `self`. See Zhang, Sennrich: Root Mean Square Layer
    /// Normalization, 2019.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, -3.0]);
    /// assert_eq!(x.rms_norm(&Tensor::from([1.0f32, 2.0]), 0.0).to_vec::<f32>(), [1.0, -2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the rank is 0, `weight` does not have the shape `[n]` of the last axis, or the dtypes
    /// differ or are not floats.
    fn rms_norm(x: Data, weight: Data, eps: Static);
} }

/// `rms_norm[eps] x, w`: `x / sqrt(mean(x^2) + eps) w` over the last axis.
///
/// The weight `w` is a vector with the length of the last axis.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "rms_norm",
    operands: Operands::Fixed(2, 0),
    statics: &[StaticKind::Epsilon.named("eps")],
    shape: |_, args| with_vectors(&args[0].shape, &[(args[1], "the weight")]),
    dtype: |_, args| shape::same_floats(args),
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let of = Norm::new(b, eqn, false, eqn.attrs[0]);
        of.tangent(b, [dx[0], dx[1], None])
    }),
    kernel: Kernel::RmsNorm,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(2, 1),
    },
    facts: OpFacts::composite(axes::ROWS, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 4], w: f64[4]) { y = rms_norm[eps=0.01] x, w return y }",
            "(x: f64[2, 2, 3], w: f64[3]) { y = rms_norm[eps=0.01] x, w return y }",
            "(x: f64[3], w: f64[3]) { y = rms_norm[eps=0.01] x, w return y }",
            "(x: f64[0, 3], w: f64[3]) { y = rms_norm[eps=0.01] x, w return y }",
        ],
    ),
};

/// `x / sqrt(mean(x^2) + eps) w`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let of = Norm::new(b, eqn, false, eqn.attrs[0]);
    let n = of.parts(b).n;
    Some(vec![b.mul(n, of.w)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let row = of.x().row(&[of.rank() - 1], &i);
        let squares: Vec<f64> = row.iter().map(|x| x * x).collect();
        of.x().get(&i) / (mean(&squares) + of.number(0)).sqrt() * of.y().spread(&i)
    })
}
