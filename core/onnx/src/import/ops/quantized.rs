//! Ops between floats and quantised integers.

use super::windows::convolved;
use super::{Call, Fallible, Outputs, Table, all, one};
use crate::import::narrow::NarrowInt;
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("QuantizeLinear", |c| {
        c.without_effect(&["saturate"]); // of floats of 8 bits
        let (x, scale) = (c.x(0)?, c.x(1)?);
        let to = match (c.narrow(2), c.int("output_dtype", 0)?) {
            (Some(to), 0) => to,
            (to, ty) if ty != 0 => match NarrowInt::from_number(ty) {
                Some(own) if to.is_none_or(|to| to == own) => own,
                _ => return c.unsupported(format!("its attribute `output_dtype` is {ty}")),
            },
            _ if c.optional(2)?.is_some() => {
                return c.unsupported("its zero point is not a narrow integer");
            }
            _ => NarrowInt::U8,
        };
        if c.int("precision", 0)? != 0 {
            return c.unsupported("its attribute `precision` is not");
        }
        let spread = spreads(c, &x)?;
        let zero = c.optional(2)?.map(&spread).transpose()?;
        c.set_narrow(0, to);
        one(quantized(
            &(x.cast(scale.dtype()) / spread(scale)?),
            zero.as_ref(),
            to,
        ))
    }),
    ("DequantizeLinear", |c| {
        let (x, scale) = (c.x(0)?, c.x(1)?);
        if c.int("output_dtype", 0)? != 0 {
            return c.unsupported("its attribute `output_dtype` is not");
        }
        let spread = spreads(c, &x)?;
        let x = match c.optional(2)? {
            Some(zero) => x - spread(zero)?,
            None => x,
        };
        one(x.cast(scale.dtype()) * spread(scale)?)
    }),
    ("DynamicQuantizeLinear", |c| {
        let x = c.x(0)?;
        let (low, high) = (x.min(..).minimum(0.0), x.max(..).maximum(0.0));
        let scale = (high - &low) / 255.0;
        let zero = quantized(&(-low / &scale), None, NarrowInt::U8);
        c.set_narrow(0, NarrowInt::U8);
        c.set_narrow(2, NarrowInt::U8);
        all([
            quantized(&(x / &scale), Some(&zero), NarrowInt::U8),
            scale,
            zero,
        ])
    }),
    ("MatMulInteger", |c| one(product(c, 0, 1, [2, 3])?)),
    ("ConvInteger", |c| {
        let (x, w) = (centred(c, 0, 2, None)?, centred(c, 1, 3, Some(0))?);
        one(convolved(c, &x, &w)?)
    }),
    ("QLinearMatMul", |c| {
        let sums = product(c, 0, 3, [2, 5])?;
        let scale = c.x(1)? * c.x(4)? / c.x(6)?;
        requantized(c, sums, &scale, 7)
    }),
    ("QLinearConv", |c| {
        let (x, w) = (centred(c, 0, 2, None)?, centred(c, 3, 5, Some(0))?);
        let sums = convolved(c, &x, &w)?;
        let channels = |x: Tensor| match x.numel() {
            1 => x.reshape(()),
            _ => x.unsqueeze((1..sums.rank() - 1).collect::<Vec<usize>>()),
        };
        let scale = channels(c.x(1)? * c.x(4)? / c.x(6)?);
        let sums = match c.optional(8)? {
            Some(bias) => &sums + channels(bias),
            None => sums.clone(),
        };
        requantized(c, sums, &scale, 7)
    }),
];

/// Returns the nearest integers of the type, with `zero` added; numbers out of range are its ends.
fn quantized(x: &Tensor, zero: Option<&Tensor>, to: NarrowInt) -> Tensor {
    let (low, high) = to.range();
    let y = x.round();
    let y = match zero {
        Some(zero) => &y + zero.cast(y.dtype()),
        None => y,
    };
    y.clamp(low as f64, high as f64).cast(to.dtype())
}

fn requantized(c: &Call<'_>, sums: Tensor, scale: &Tensor, zero: usize) -> Outputs {
    let Some(to) = c.narrow(zero) else {
        return c.unsupported(format!("its input {zero} is not a narrow integer"));
    };
    c.set_narrow(0, to);
    one(quantized(
        &(sums.cast(scale.dtype()) * scale),
        Some(&c.x(zero)?),
        to,
    ))
}

/// Returns a function that gives scales and zero points the rank of `x`: one for all, one for each index of an axis, or
/// one for each block of it.
fn spreads<'a>(
    c: &'a Call<'a>,
    x: &Tensor,
) -> Fallible<impl Fn(Tensor) -> Fallible<Tensor> + use<'a>> {
    let (axis, block) = (c.int("axis", 1)?, c.lens(&[c.int("block_size", 0)?])?[0]);
    let shape = x.shape().to_vec();
    Ok(move |of: Tensor| {
        if of.numel() == 1 && block == 0 {
            return Ok(of.reshape(()));
        }
        let axis = c.axis_of(axis, shape.len())?;
        if block > 0 && of.rank() == shape.len() {
            return Ok(super::part(
                &of.repeat(block, axis as i64),
                axis,
                0,
                shape[axis],
            ));
        }
        match of.shape() == [shape[axis]] {
            true => Ok(of.unsqueeze((1..shape.len() - axis).collect::<Vec<usize>>())),
            false => c.fault(format!(
                "has {} for axis {axis} of the shape {shape:?}",
                of.aval()
            )),
        }
    })
}

/// Returns an input without its zero point. A vector of zero points belongs to an axis.
fn centred(c: &Call<'_>, input: usize, zero: usize, axis: Option<usize>) -> Fallible<Tensor> {
    let x = c.x(input)?.cast(DType::I32);
    let Some(zero) = c.optional(zero)? else {
        return Ok(x);
    };
    match (zero.numel(), axis) {
        (1, _) => Ok(x - zero.reshape(())),
        (n, Some(axis)) if zero.rank() == 1 && x.shape()[axis] == n => {
            let after = (1..x.rank() - axis).collect::<Vec<usize>>();
            Ok(x - zero.unsqueeze(after))
        }
        _ => c.fault(format!(
            "has the zero point {} for {}",
            zero.aval(),
            x.aval()
        )),
    }
}

/// Returns the matrix product of two inputs without their zero points.
fn product(c: &Call<'_>, x: usize, y: usize, [zero_x, zero_y]: [usize; 2]) -> Fallible<Tensor> {
    let rows = c.x(x)?.rank().checked_sub(2);
    let columns = c.x(y)?.rank().checked_sub(1);
    Ok(centred(c, x, zero_x, rows)?.matmul(centred(c, y, zero_y, columns)?))
}
