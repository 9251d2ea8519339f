//! Products and losses.

use super::{Call, Fallible, Table, all, one};
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("MatMul", |c| c.pair().and_then(|(x, y)| one(x.matmul(y)))),
    ("Gemm", |c| {
        let (x, y) = c.pair()?;
        if [x.rank(), y.rank()] != [2, 2] {
            return c.fault(format!(
                "has {} and {}, expected matrices",
                x.aval(),
                y.aval()
            ));
        }
        let (alpha, beta) = (c.float("alpha", 1.0)?, c.float("beta", 1.0)?);
        let (flip_x, flip_y) = (c.flag("transA", false)?, c.flag("transB", false)?);
        if c.opset() < 7 {
            c.without_effect(&["broadcast"]); // shapes that do not broadcast are an error
        }
        let x = if flip_x { x.transpose() } else { x };
        let y = if flip_y { y.transpose() } else { y };
        let scaled = |x: Tensor, by: f64| match x.dtype().is_float() {
            _ if by == 1.0 => Ok(x),
            true => Ok(x * by),
            false if by.fract() == 0.0 => Ok(x * by as i64),
            false => c.unsupported(format!("it multiplies integers by {by}")),
        };
        let z = scaled(x.matmul(y), alpha)?;
        one(match c.optional(2)? {
            Some(bias) => {
                c.same_dtype(&[&z, &bias])?;
                z + scaled(bias, beta)?
            }
            None => z,
        })
    }),
    ("Einsum", |c| {
        let (xs, equation) = (c.xs()?, c.text("equation", "")?);
        c.same_dtype(&xs.iter().collect::<Vec<_>>())?;
        let equation: String = equation.chars().filter(|x| !x.is_whitespace()).collect();
        one(Tensor::einsum(&equation, &xs))
    }),
    ("Det", |c| one(c.x(0)?.det())),
    ("NegativeLogLikelihoodLoss", |c| {
        let x = c.x(0)?;
        one(loss(c, &x)?)
    }),
    ("SoftmaxCrossEntropyLoss", |c| {
        let logs = c.x(0)?.log_softmax(1);
        all([loss(c, &logs)?, logs].into_iter().take(c.n_outputs()))
    }),
];

/// Returns the loss of logarithms of probabilities, whose classes are on axis 1.
fn loss(c: &Call<'_>, logs: &Tensor) -> Fallible<Tensor> {
    let (labels, reduction) = (c.x(1)?.cast(DType::I64), c.text("reduction", "mean")?);
    c.one_of("reduction", reduction, &["none", "sum", "mean"])?;
    let mut mask = Tensor::ones(labels.shape(), logs.dtype());
    let mut labels = labels;
    if let Some(ignored) = c.int_or_none("ignore_index")? {
        let is_ignored = labels.eq(ignored);
        mask = is_ignored.select(0.0, &mask);
        labels = is_ignored.select(0i64, &labels);
    }
    if let Some(weights) = c.optional(2)? {
        mask = mask * weights.take(&labels, 0);
    }
    let picked = logs.take_along_axis(labels.unsqueeze(1), 1).squeeze(1);
    let losses = -(picked * &mask);
    Ok(match reduction {
        "none" => losses,
        "sum" => losses.sum(..),
        _ => losses.sum(..) / mask.sum(..),
    })
}
