//! Products and losses.

use super::{Call, Fallible, Outputs, Table, all, one, part};
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
    ("DFT", dft),
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
        mask *= weights.take(&labels, 0);
    }
    let picked = logs.take_along_axis(labels.unsqueeze(1), 1).squeeze(1);
    let losses = -(picked * &mask);
    Ok(match reduction {
        "none" => losses,
        "sum" => losses.sum(..),
        _ => losses.sum(..) / mask.sum(..),
    })
}

/// The discrete Fourier transform, as products with the matrices of cosines and sines.
fn dft(c: &Call<'_>) -> Outputs {
    let (x, is_inverse, one_sided) = (
        c.x(0)?,
        c.flag("inverse", false)?,
        c.flag("onesided", false)?,
    );
    let axis = match c.opset() < 20 {
        true => c.int("axis", 1)?,
        false => c.input_int(2)?.unwrap_or(-2),
    };
    let (axis, width) = (
        c.axis_of(axis, x.rank())?,
        x.shape().last().copied().unwrap_or(0),
    );
    let len = x.shape()[axis];
    let default = if is_inverse && one_sided {
        2 * (len as i64 - 1)
    } else {
        len as i64
    };
    let n = c.lens(&[c.input_int(1)?.unwrap_or(default)])?[0];
    if !(1..=2).contains(&width) || axis + 1 == x.rank() || n == 0 {
        return c.fault(format!(
            "transforms {} along axis {axis} to the length {n}",
            x.aval()
        ));
    }
    let half = n / 2 + 1;
    let n_in = len.min(if is_inverse && one_sided { half } else { n });
    let n_out = if one_sided && !is_inverse { half } else { n };
    super::movement::made(c, &[n_in, n_out])?;
    // The frequency and the place have equal roles; whole turns are dropped before the sine.
    let matrix = |f: fn(f64) -> f64| {
        let angle = |i: usize, j: usize| std::f64::consts::TAU * (i * j % n) as f64 / n as f64;
        // One side stands for both, except for the frequencies 0 and n / 2.
        let weight = |i: usize| match one_sided && is_inverse && i > 0 && 2 * i != n {
            true => 2.0,
            false => 1.0,
        };
        let scale = if is_inverse { 1.0 / n as f64 } else { 1.0 };
        let all =
            (0..n_in).flat_map(|i| (0..n_out).map(move |j| f(angle(i, j)) * weight(i) * scale));
        Tensor::from_vec(all.collect::<Vec<f64>>(), [n_in, n_out]).cast(x.dtype())
    };
    let (cos, sin) = (matrix(f64::cos), matrix(f64::sin));
    let x = part(&x, axis, 0, n_in);
    let side = |i: usize| x.select_index(-1, i).moveaxis(axis, -1);
    let real = side(0);
    let imaginary = if width == 2 {
        side(1)
    } else {
        real.zeros_like()
    };
    let sign = if is_inverse { -1.0 } else { 1.0 };
    let y = real.matmul(&cos) + imaginary.matmul(&sin) * sign;
    let z = imaginary.matmul(&cos) - real.matmul(&sin) * sign;
    let sides = if is_inverse && one_sided {
        vec![y]
    } else {
        vec![y, z]
    };
    let sides: Vec<Tensor> = sides.iter().map(|side| side.moveaxis(-1, axis)).collect();
    one(Tensor::stack(&sides, -1))
}
