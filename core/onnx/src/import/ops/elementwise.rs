//! Ops on each element.

use super::{Call, Fallible, Outputs, Table, all, one};
use gradloom::{DType, Tensor};

macro_rules! unary {
    ($($op:literal $method:ident,)* ; $($rest:tt)*) => {
        &[$(($op, |c| one(c.x(0)?.$method())),)* $($rest)*]
    };
}

pub(super) const OPS: Table = unary! {
    "Abs" abs, "Acos" acos, "Acosh" acosh, "Asin" asin, "Asinh" asinh, "Atan" atan, "Atanh" atanh, "Cos" cos,
    "Cosh" cosh, "Erf" erf, "HardSwish" hard_swish, "IsNaN" is_nan, "Mish" mish, "Neg" neg, "Reciprocal" reciprocal,
    "Round" round, "Sigmoid" sigmoid, "Sign" sign, "Sin" sin, "Sinh" sinh, "Softplus" softplus, "Softsign" softsign,
    "Tan" tan, "BitwiseNot" bit_not,
    ;
    // Versions before 6 have an attribute that says which inputs share memory with outputs.
    ("Ceil", |c| one(old_unary(c)?.ceil())),
    ("Exp", |c| one(old_unary(c)?.exp())),
    ("Floor", |c| one(old_unary(c)?.floor())),
    ("Log", |c| one(old_unary(c)?.log())),
    ("Relu", |c| one(old_unary(c)?.relu())),
    ("Sqrt", |c| one(old_unary(c)?.sqrt())),
    ("Tanh", |c| one(old_unary(c)?.tanh())),
    ("Identity", |c| match c.value(0)? {
        Some(value) => Ok(vec![value]),
        None => c.fault("has no input"),
    }),
    ("Not", |c| one(bools(c, c.x(0)?)?.bit_not())),
    ("Elu", |c| one(c.x(0)?.elu(c.float("alpha", 1.0)?))),
    ("Celu", |c| one(c.x(0)?.celu(c.float("alpha", 1.0)?))),
    ("LeakyRelu", |c| one(c.x(0)?.leaky_relu(c.float("alpha", 0.01)?))),
    ("Selu", |c| {
        let alpha = c.float("alpha", 1.673_263_192_176_818_8)?;
        one(c.x(0)?.elu(alpha) * c.float("gamma", 1.050_701_022_148_132_3)?)
    }),
    ("HardSigmoid", |c| one(hard_sigmoid(&c.x(0)?, c.float("alpha", 0.2)?, c.float("beta", 0.5)?))),
    ("ThresholdedRelu", |c| {
        let x = c.x(0)?;
        one(x.gt(c.float("alpha", 1.0)?).select(&x, 0.0))
    }),
    ("Shrink", |c| {
        let (x, bias, bound) = (c.x(0)?, c.float("bias", 0.0)?, c.float("lambd", 0.5)?);
        if !x.dtype().is_float() {
            return c.unsupported("it rounds integers");
        }
        let below = x.lt(-bound).select(&x + bias, 0.0);
        one(x.gt(bound).select(&x - bias, &below))
    }),
    ("Gelu", |c| {
        let (x, form) = (c.x(0)?, c.text("approximate", "none")?);
        c.one_of("approximate", form, &["none", "tanh"])?;
        one(if form == "tanh" { x.gelu_tanh() } else { x.gelu() })
    }),
    ("Swish", |c| {
        let x = c.x(0)?;
        one(&x * (&x * c.float("alpha", 1.0)?).sigmoid())
    }),
    ("SwiGLU", |c| {
        let (x, y) = c.pair()?;
        one(&x * (&x * c.float("alpha", 1.0)?).sigmoid() * y)
    }),
    ("Clip", clip),
    ("PRelu", |c| {
        let (x, slope) = c.pair()?;
        // Versions before 7 broadcast a vector along the channels.
        let n_after = x.rank().saturating_sub(2);
        let slope = match slope.rank() == 1 && c.opset() < 7 && slope.numel() > 1 {
            true => slope.unsqueeze((1..=n_after as i64).collect::<Vec<i64>>()),
            false => slope,
        };
        one(x.lt(0.0).select(&x * slope, &x))
    }),
    ("IsInf", |c| {
        let (x, low, high) = (c.x(0)?, c.flag("detect_negative", true)?, c.flag("detect_positive", true)?);
        one(match (low, high) {
            (true, true) => x.is_infinite(),
            (true, false) => x.eq(f64::NEG_INFINITY),
            (false, true) => x.eq(f64::INFINITY),
            (false, false) => Tensor::full(x.shape(), false, DType::Bool),
        })
    }),
    ("Cast", |c| {
        c.without_effect(&["saturate", "round_mode"]); // of floats of 8 bits
        let ty = c.int("to", 0)?;
        c.converted(&c.x(0)?, c.element(ty)?)
    }),
    ("CastLike", |c| {
        c.without_effect(&["saturate", "round_mode"]); // of floats of 8 bits
        c.converted(&c.x(0)?, (c.x(1)?.dtype(), c.narrow(1)))
    }),
    ("Add", |c| numbers(c, |x, y| x + y)),
    ("Sub", |c| numbers(c, |x, y| x - y)),
    ("Mul", |c| numbers(c, |x, y| x * y)),
    ("Div", |c| numbers(c, |x, y| x / y)),
    ("Pow", |c| {
        let (x, y) = aligned(c, c.x(0)?, c.x(1)?)?;
        let dtype = x.dtype();
        one(match (dtype.is_float(), y.dtype().is_float()) {
            (false, true) => x.cast(DType::F64).pow(y.cast(DType::F64)).cast(dtype),
            (false, false) => x.pow(y.cast(dtype)),
            // A whole exponent keeps its value in `f64`.
            (true, _) if y.dtype() != dtype => x.cast(DType::F64).pow(y.cast(DType::F64)).cast(dtype),
            _ => x.pow(y),
        })
    }),
    ("Mod", |c| {
        let (x, y) = c.pair()?;
        one(if c.flag("fmod", false)? { x.rem(y) } else { x.mod_floor(y) })
    }),
    ("And", |c| logic(c, |x, y| x.bit_and(y))),
    ("Or", |c| logic(c, |x, y| x.bit_or(y))),
    ("Xor", |c| logic(c, |x, y| x.bit_xor(y))),
    ("BitwiseAnd", |c| c.pair().and_then(|(x, y)| one(x.bit_and(y)))),
    ("BitwiseOr", |c| c.pair().and_then(|(x, y)| one(x.bit_or(y)))),
    ("BitwiseXor", |c| c.pair().and_then(|(x, y)| one(x.bit_xor(y)))),
    ("BitShift", |c| {
        let ((x, y), direction) = (c.pair()?, c.text("direction", "")?);
        c.one_of("direction", direction, &["LEFT", "RIGHT"])?;
        one(if direction == "LEFT" { x.shift_left(y) } else { x.shift_right(y) })
    }),
    ("Equal", |c| numbers(c, |x, y| x.eq(y))),
    ("Less", |c| numbers(c, |x, y| x.lt(y))),
    ("LessOrEqual", |c| numbers(c, |x, y| x.le(y))),
    ("Greater", |c| numbers(c, |x, y| x.gt(y))),
    ("GreaterOrEqual", |c| numbers(c, |x, y| x.ge(y))),
    ("Max", |c| joined(c, |x, y| x.maximum(y))),
    ("Min", |c| joined(c, |x, y| x.minimum(y))),
    ("Sum", |c| joined(c, |x, y| x + y)),
    ("Mean", |c| {
        let n = c.n_inputs();
        let mut sum = joined(c, |x, y| x + y)?;
        if let Some(super::Value::Tensor(x)) = sum.first_mut() {
            *x = &*x / n;
        }
        Ok(sum)
    }),
    ("Where", |c| {
        let (condition, x, y) = (c.x(0)?, c.x(1)?, c.x(2)?);
        c.same_dtype(&[&x, &y])?;
        one(bools(c, condition)?.select(&x, &y))
    }),
    ("Dropout", |c| {
        // Inference keeps all elements.
        let x = c.x(0)?;
        c.without_effect(&["seed", "consumed_inputs"]);
        let ratio = c.input_floats(1)?.map_or(Ok(0.5), |all| all.first().copied().ok_or(()));
        let ratio = c.float_or_none("ratio")?.unwrap_or(ratio.unwrap_or(0.5));
        let trains = c.input_int(2)?.unwrap_or(0) != 0 || c.opset() < 7 && !c.flag("is_test", false)?;
        if trains && ratio != 0.0 {
            return c.unsupported("it draws random numbers for training");
        }
        let kept = Tensor::full(x.shape(), true, DType::Bool);
        all([x, kept].into_iter().take(c.n_outputs()))
    }),
};

fn old_unary(c: &Call<'_>) -> Fallible<Tensor> {
    if c.opset() < 6 {
        c.without_effect(&["consumed_inputs"]);
    }
    c.x(0)
}

fn bools(c: &Call<'_>, x: Tensor) -> Fallible<Tensor> {
    match x.dtype() {
        DType::Bool => Ok(x),
        dtype => c.fault(format!("has an input of {dtype}, expected bool")),
    }
}

pub(super) fn hard_sigmoid(x: &Tensor, alpha: f64, beta: f64) -> Tensor {
    (x * alpha + beta).clamp(0.0, 1.0)
}

/// Applies the broadcasting of versions before 7: the second shape starts at an axis of the first.
fn aligned(c: &Call<'_>, x: Tensor, y: Tensor) -> Fallible<(Tensor, Tensor)> {
    if c.opset() >= 7 {
        return Ok((x, y));
    }
    c.without_effect(&["consumed_inputs"]);
    let (is_broadcast, axis) = (c.flag("broadcast", false)?, c.int_or_none("axis")?);
    let Some(axis) = axis.filter(|_| is_broadcast) else {
        return Ok((x, y));
    };
    let start = c.axis_of(axis, x.rank())?;
    let Some(n_after) = (x.rank() - start).checked_sub(y.rank()) else {
        return c.fault(format!("has {} at axis {axis} of {}", y.aval(), x.aval()));
    };
    let after = (0..n_after)
        .map(|i| (y.rank() + i) as i64)
        .collect::<Vec<i64>>();
    Ok((x, y.unsqueeze(after)))
}

fn numbers(c: &Call<'_>, f: fn(Tensor, Tensor) -> Tensor) -> Outputs {
    let (x, y) = c.pair()?;
    let (x, y) = aligned(c, x, y)?;
    one(f(x, y))
}

fn logic(c: &Call<'_>, f: fn(Tensor, Tensor) -> Tensor) -> Outputs {
    let (x, y) = aligned(c, bools(c, c.x(0)?)?, bools(c, c.x(1)?)?)?;
    one(f(x, y))
}

fn joined(c: &Call<'_>, f: fn(Tensor, Tensor) -> Tensor) -> Outputs {
    if c.opset() < 6 {
        c.without_effect(&["consumed_inputs"]);
    }
    let xs = c.xs()?;
    c.same_dtype(&xs.iter().collect::<Vec<_>>())?;
    match xs.into_iter().reduce(f) {
        Some(x) => one(x),
        None => c.fault("has no inputs"),
    }
}

fn clip(c: &Call<'_>) -> Outputs {
    c.without_effect(if c.opset() < 6 {
        &["consumed_inputs"]
    } else {
        &[]
    });
    let mut x = c.x(0)?;
    let (low, high) = (c.float_or_none("min")?, c.float_or_none("max")?);
    x = low.map_or(x.clone(), |low| x.maximum(low));
    x = high.map_or(x.clone(), |high| x.minimum(high));
    let (low, high) = (c.optional(1)?, c.optional(2)?);
    c.same_dtype(&[&x, low.as_ref().unwrap_or(&x), high.as_ref().unwrap_or(&x)])?;
    x = low.map_or(x.clone(), |low| x.maximum(low));
    one(high.map_or(x.clone(), |high| x.minimum(high)))
}
