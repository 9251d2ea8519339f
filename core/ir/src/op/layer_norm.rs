use super::inv_std::moments;
use super::nd_array::{Application, NdArray};
use super::norm_jvp::Norm;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, shape};
use crate::{Aval, Builder, Dim, Eqn, Fault, Op, Shape, StaticKind, Var};

methods! { layer_norm {
    /// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis, with the biased variance.
    ///
    /// `weight` and `bias` have the length of the last axis and the same float dtype as `self`.
    /// Shape and dtype of the result are those of `self`. See Ba, Kiros, Hinton: Layer
    /// Normalization, 2016.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 3.0], [-5.0, 5.0]]);
    /// let (weight, bias) = (Tensor::from([1.0f32, 1.0]), Tensor::from([0.0f32, 10.0]));
    /// assert_eq!(x.layer_norm(&weight, &bias, 0.0).to_vec::<f32>(), [-1.0, 11.0, -1.0, 11.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the rank is 0, `weight` or `bias` does not have the shape `[n]` of the last axis, or the
    /// dtypes differ or are not floats.
    fn layer_norm(x: Data, weight: Data, bias: Data, eps: Static);
} }

/// `layer_norm[eps] x, w, b`: `normalize(x) w + b` over the last axis.
///
/// The weight `w` and the bias `b` are vectors with the length of the last axis.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "layer_norm",
    operands: Operands::Fixed(3, 0),
    statics: &[StaticKind::Epsilon.named("eps")],
    shape: |_, args| {
        with_vectors(
            &args[0].shape,
            &[(args[1], "the weight"), (args[2], "the bias")],
        )
    },
    dtype: |_, args| shape::same_floats(args),
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let of = Norm::new(b, eqn, true, eqn.attrs[0]);
        of.tangent(b, [dx[0], dx[1], dx[2]])
    }),
    kernel: Kernel::LayerNorm,
    count: Count::Rows {
        element: Ops::new(7, 0),
        row: Ops::new(3, 1),
    },
    facts: OpFacts::composite(axes::ROWS, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 4], w: f64[4], b: f64[4]) { y = layer_norm[eps=0.01] x, w, b return y }",
            "(x: f64[2, 2, 3], w: f64[3], b: f64[3]) { y = layer_norm[eps=0.01] x, w, b return y }",
            "(x: f64[3], w: f64[3], b: f64[3]) { y = layer_norm[eps=0.01] x, w, b return y }",
            "(x: f64[0, 3], w: f64[3], b: f64[3]) { y = layer_norm[eps=0.01] x, w, b return y }",
        ],
    ),
};

/// Returns the shape of `x`, whose last axis must have the length of each of the vectors.
pub(super) fn with_vectors(x: &Shape, vectors: &[(&Aval, &str)]) -> Result<Shape, Fault> {
    let mut last = Dim::Unknown;
    if let Some(dims) = x.dims() {
        last = *dims.last().ok_or(Fault::Rank {
            found: 0,
            expected: "at least 1".into(),
        })?;
    }
    for (v, what) in vectors {
        last = last.meet(vector(v, last, what)?);
    }
    Ok(Shape(x.dims().map(|dims| {
        let rows = dims[..dims.len() - 1].iter().copied();
        rows.chain([last]).collect()
    })))
}

/// Returns the length of a vector, which must be that of the last axis of `x`.
fn vector(v: &Aval, last: Dim, what: &str) -> Result<Dim, Fault> {
    let Some(dims) = v.shape.dims() else {
        return Ok(Dim::Unknown);
    };
    match *dims {
        [len] if !len.differs(last) => Ok(len),
        [len] => Err(Fault::Length {
            what: what.to_owned(),
            found: len.to_string(),
            expected: format!("{last}, as the last axis"),
        }),
        _ => Err(Fault::Rank {
            found: dims.len(),
            expected: format!("1 for {what}"),
        }),
    }
}

/// `normalize(x) w + b`.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let last = b.attr(-1);
    let n = b.emit(Op::Normalize, &[last, eqn.attrs[0]], &[eqn.args[0]]);
    let scaled = b.mul(n, eqn.args[1]);
    Some(vec![b.add(scaled, eqn.args[2])])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let (mean, scale) = moments(&of.x().row(&[of.rank() - 1], &i), of.number(0));
        (of.x().get(&i) - mean) * scale * of.y().spread(&i) + of.args[2].spread(&i)
    })
}
