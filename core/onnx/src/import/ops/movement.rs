//! Ops that move elements, and that make tensors.

use super::{Call, Fallible, Outputs, Table, all, as_lens, ints, iota, one};
use crate::import::model::Attribute;
use gradloom::{DType, Tensor};
use gradloom_ir::Static;

/// Elements that a node of constants may make: a few bytes of a file do not ask for all memory.
const MAX_MADE: usize = 1 << 31;

pub(super) const OPS: Table = &[
    ("Reshape", |c| {
        let x = c.x(0)?;
        let allow_zero = c.flag("allowzero", false)?;
        let Some(mut shape) = c.ints_of("shape", 1)? else {
            return c.fault("has no shape");
        };
        for (i, len) in shape
            .iter_mut()
            .enumerate()
            .filter(|(_, len)| **len == 0 && !allow_zero)
        {
            match x.shape().get(i) {
                Some(own) => *len = *own as i64,
                None => return c.fault(format!("takes the length of axis {i} of {}", x.aval())),
            }
        }
        one(x.reshape(shape))
    }),
    ("Flatten", |c| {
        let x = c.x(0)?;
        let axis = match c.int("axis", 1)? {
            axis if axis == x.rank() as i64 => x.rank(),
            axis => c.axis_of(axis, x.rank())?,
        };
        let (rows, columns) = x.shape().split_at(axis);
        one(x.reshape([rows.iter().product::<usize>(), columns.iter().product()]))
    }),
    ("Squeeze", |c| {
        let x = c.x(0)?;
        let axes = match c.ints_of("axes", 1)? {
            Some(axes) => axes,
            None => (0..x.rank() as i64)
                .filter(|i| x.shape()[*i as usize] == 1)
                .collect(),
        };
        one(x.squeeze(axes))
    }),
    ("Unsqueeze", |c| match c.ints_of("axes", 1)? {
        Some(axes) => one(c.x(0)?.unsqueeze(axes)),
        None => c.fault("has no axes"),
    }),
    ("Transpose", |c| {
        let x = c.x(0)?;
        one(match c.ints("perm")? {
            Some(axes) => x.permute(axes),
            None => x.transpose(),
        })
    }),
    ("Concat", |c| {
        let xs = c.xs()?;
        c.same_dtype(&xs.iter().collect::<Vec<_>>())?;
        let rank = xs.first().map_or(0, Tensor::rank);
        let default = if c.opset() < 4 { 1 } else { 0 };
        one(Tensor::concat(&xs, c.axis(default, rank)?))
    }),
    ("Split", |c| {
        let x = c.x(0)?;
        let axis = c.axis(0, x.rank())?;
        let n_parts = c
            .int_or_none("num_outputs")?
            .unwrap_or(c.n_outputs() as i64);
        let len = x.shape()[axis];
        let sizes = match c.ints_of("split", 1)? {
            Some(sizes) => c.lens(&sizes)?,
            None => {
                let n_parts = usize::try_from(n_parts)
                    .ok()
                    .filter(|n| (1..=len.max(1)).contains(n));
                let Some(n_parts) = n_parts else {
                    return c.fault(format!("cuts {len} elements into {n_parts:?} parts"));
                };
                let size = len.div_ceil(n_parts);
                (0..n_parts)
                    .map(|i| size.min(len.saturating_sub(i * size)))
                    .collect()
            }
        };
        if sizes.iter().sum::<usize>() != len || sizes.len() != c.n_outputs() {
            return c.fault(format!(
                "cuts {len} elements into the {} parts {sizes:?}",
                c.n_outputs()
            ));
        }
        all(x.split_sizes(sizes, axis))
    }),
    ("Slice", slice),
    ("Expand", |c| {
        let (x, Some(shape)) = (c.x(0)?, c.input_ints(1)?) else {
            return c.fault("has no shape");
        };
        let shape = c.lens(&shape)?;
        one(x.broadcast_to(joint_shape(c, x.shape(), &shape)?))
    }),
    ("Tile", |c| {
        let (x, Some(counts)) = (c.x(0)?, c.input_ints(1)?) else {
            return c.fault("has no counts");
        };
        if counts.len() != x.rank() {
            return c.fault(format!("has {} counts for {}", counts.len(), x.aval()));
        }
        let counts = c.lens(&counts)?;
        let lens = x
            .shape()
            .iter()
            .zip(&counts)
            .map(|(len, n)| len.saturating_mul(*n));
        made(c, &lens.collect::<Vec<usize>>())?;
        one(x.tile(counts))
    }),
    ("Pad", pad),
    ("DepthToSpace", |c| {
        let (x, block) = blocks(c)?;
        let [n, d, h, w] = x.shape()[..] else {
            unreachable!("checked")
        };
        let mode = c.text("mode", "DCR")?;
        c.one_of("mode", mode, &["DCR", "CRD"])?;
        let depth = d / (block * block);
        let y = match mode {
            "DCR" => x
                .reshape([n, block, block, depth, h, w])
                .permute([0, 3, 4, 1, 5, 2]),
            _ => x
                .reshape([n, depth, block, block, h, w])
                .permute([0, 1, 4, 2, 5, 3]),
        };
        one(y.reshape([n, depth, h * block, w * block]))
    }),
    ("SpaceToDepth", |c| {
        let (x, block) = blocks(c)?;
        let [n, d, h, w] = x.shape()[..] else {
            unreachable!("checked")
        };
        let mode = c.text("mode", "DCR")?;
        c.one_of("mode", mode, &["DCR", "CRD"])?;
        let y = x.reshape([n, d, h / block, block, w / block, block]);
        let y = if mode == "DCR" {
            y.permute([0, 3, 5, 1, 2, 4])
        } else {
            y.permute([0, 1, 3, 5, 2, 4])
        };
        one(y.reshape([n, d * block * block, h / block, w / block]))
    }),
    ("Trilu", |c| {
        let (x, k) = (c.x(0)?, c.input_int(1)?.unwrap_or(0));
        one(if c.flag("upper", true)? {
            x.triu(k)
        } else {
            x.tril(k)
        })
    }),
    ("CenterCropPad", |c| {
        let (x, Some(shape)) = (c.x(0)?, c.input_ints(1)?) else {
            return c.fault("has no shape");
        };
        let axes = c
            .ints("axes")?
            .unwrap_or_else(|| (0..x.rank() as i64).collect());
        let axes = c.axes_of(&axes, x.rank())?;
        if axes.len() != shape.len() {
            return c.fault(format!(
                "has {} lengths for {} axes",
                shape.len(),
                axes.len()
            ));
        }
        let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
        for (axis, len) in axes.into_iter().zip(shape) {
            let added = len - x.shape()[axis] as i64;
            // Half of the margin, rounded down, is before the elements.
            low[axis] = if added < 0 { -(-added / 2) } else { added / 2 };
            high[axis] = added - low[axis];
        }
        one(x.pad(low, high, 0, zero(x.dtype())))
    }),
    ("ReverseSequence", |c| {
        let (x, Some(lens)) = (c.x(0)?, c.input_ints(1)?) else {
            return c.fault("has no lengths");
        };
        let (time, batch) = (c.int("time_axis", 0)?, c.int("batch_axis", 1)?);
        let (time, batch) = (c.axis_of(time, x.rank())?, c.axis_of(batch, x.rank())?);
        let (n, m) = (x.shape()[time], x.shape()[batch]);
        if lens.len() != m || time == batch || lens.iter().any(|len| !(0..=n as i64).contains(len))
        {
            return c.fault(format!("has the lengths {lens:?} for {}", x.aval()));
        }
        let mut shape = vec![1usize; x.rank()];
        (shape[time], shape[batch]) = (n, m);
        let at = |i: i64, len: i64| if i < len { len - 1 - i } else { i };
        let n = n as i64;
        let places: Vec<i64> = match time < batch {
            true => (0..n)
                .flat_map(|i| lens.iter().map(move |len| at(i, *len)))
                .collect(),
            false => lens
                .iter()
                .flat_map(|len| (0..n).map(|i| at(i, *len)))
                .collect(),
        };
        one(x.take_along_axis(Tensor::from_vec(places, shape), time))
    }),
    ("Shape", |c| {
        let Some(value) = c.value(0)? else {
            return c.fault("has no input");
        };
        let super::Value::Tensor(x) = value else {
            return c.fault("has a sequence as its input");
        };
        let rank = x.rank() as i64;
        let bound =
            |n: i64| (if n < 0 { n.saturating_add(rank) } else { n }).clamp(0, rank) as usize;
        let (start, end) = (bound(c.int("start", 0)?), bound(c.int("end", i64::MAX)?));
        one(ints(&x.shape()[start..end.max(start)]))
    }),
    ("Size", |c| one(Tensor::from(c.x(0)?.numel() as i64))),
    ("Constant", |c| {
        let names = [
            "value",
            "value_float",
            "value_int",
            "value_floats",
            "value_ints",
        ];
        match names.iter().find_map(|name| c.attribute(name)) {
            Some(Attribute::Tensor(element, x)) => c.converted(x, *element),
            Some(Attribute::Float(x)) => one(Tensor::from(*x)),
            Some(Attribute::Int(n)) => one(Tensor::from(*n)),
            Some(Attribute::Floats(all)) => one(Tensor::from(all.clone())),
            Some(Attribute::Ints(all)) => one(Tensor::from(all.clone())),
            _ => c.unsupported("its value is not a tensor, a number or a list of numbers"),
        }
    }),
    ("ConstantOfShape", |c| {
        let Some(shape) = c.input_ints(0)? else {
            return c.fault("has no shape");
        };
        let shape = c.lens(&shape)?;
        made(c, &shape)?;
        let value = match c.attribute("value") {
            Some(Attribute::Tensor((_, narrow), x)) if x.numel() == 1 => {
                narrow.iter().for_each(|narrow| c.set_narrow(0, *narrow));
                x.clone()
            }
            Some(found) => return c.wrong("value", "a tensor of one element", found),
            None => Tensor::from([0.0f32]),
        };
        one(value.reshape(()).broadcast_to(shape))
    }),
    ("EyeLike", |c| {
        let (x, k) = (c.x(0)?, c.int("k", 0)?);
        let dtype = match c.int_or_none("dtype")? {
            Some(ty) => c.dtype(ty)?,
            None => x.dtype(),
        };
        let &[rows, columns] = x.shape() else {
            return c.fault(format!("has {}, expected a matrix", x.aval()));
        };
        let places = iota(0, 2, rows, DType::I64) + k;
        one(places.eq(iota(1, 2, columns, DType::I64)).cast(dtype))
    }),
    ("Range", |c| {
        let (start, stop, step) = (c.x(0)?, c.x(1)?, c.x(2)?);
        c.same_dtype(&[&start, &stop, &step])?;
        let all = [&start, &stop, &step];
        if all.iter().any(|x| x.numel() != 1) {
            return c.fault("has bounds that are not numbers");
        }
        let n = if start.dtype().is_float() {
            let [start, stop, step] = all.map(|x| c.read_floats(x));
            ((stop?[0] - start?[0]) / step?[0]).ceil().max(0.0)
        } else {
            let [start, stop, step] = all.map(|x| c.read_ints(x));
            let (len, step) = (
                i128::from(stop?[0]) - i128::from(start?[0]),
                i128::from(step?[0]),
            );
            match step {
                0 => f64::NAN,
                _ => ((len + step - step.signum()) / step).max(0) as f64,
            }
        };
        if !n.is_finite() {
            return c.fault("has the step 0 or a bound that is not finite");
        }
        made(c, &[n as usize])?;
        let dtype = start.dtype();
        one(Tensor::arange(n as usize, dtype) * step.reshape(()) + start.reshape(()))
    }),
    ("HannWindow", |c| window(c, [0.5, -0.5, 0.0])),
    ("HammingWindow", |c| {
        window(c, [25.0 / 46.0, -21.0 / 46.0, 0.0])
    }),
    ("BlackmanWindow", |c| window(c, [0.42, -0.5, 0.08])),
    ("AffineGrid", |c| {
        let (theta, Some(size)) = (c.x(0)?, c.input_ints(1)?) else {
            return c.fault("has no size");
        };
        let size = c.lens(&size)?;
        let (corners, dtype) = (c.flag("align_corners", false)?, theta.dtype());
        let lens = size.get(2..).filter(|lens| (2..=3).contains(&lens.len()));
        let Some(lens) = lens else {
            return c.fault(format!("has the size {size:?}, expected 4 or 5 lengths"));
        };
        made(c, lens)?;
        // Coordinates of the last axis come first.
        let columns = lens.iter().enumerate().rev().map(|(axis, len)| {
            let i = iota(axis, lens.len(), *len, dtype);
            let x = match corners {
                true => i * (2.0 / (*len as f64 - 1.0)) - 1.0,
                false => (i * 2.0 + 1.0) / *len as f64 - 1.0,
            };
            x.broadcast_to(lens)
        });
        let mut columns: Vec<Tensor> = columns.collect();
        columns.push(Tensor::ones(lens, dtype));
        let points: usize = lens.iter().product();
        let grid = Tensor::stack(&columns, -1).reshape([points, lens.len() + 1]);
        let shape = [&size[..1], lens, &[lens.len()]].concat();
        one(grid.matmul(theta.swap_axes(-1, -2)).reshape(shape))
    }),
];

/// Returns `a + b cos(t) + c cos(2 t)` for one period of `t`.
fn window(c: &Call<'_>, [constant, first, second]: [f64; 3]) -> Outputs {
    let (size, is_periodic) = (c.input_int(0)?.unwrap_or(0), c.flag("periodic", true)?);
    let dtype = c.dtype(c.int("output_datatype", 1)?)?;
    let n = c.lens(&[size])?[0];
    made(c, &[n])?;
    let period = if is_periodic { n } else { n.saturating_sub(1) }.max(1);
    let t = Tensor::arange(n, DType::F64) * (std::f64::consts::TAU / period as f64);
    one((t.cos() * first + (t * 2.0).cos() * second + constant).cast(dtype))
}

/// Checks that a tensor of this shape may be made.
pub(super) fn made(c: &Call<'_>, shape: &[usize]) -> Fallible<()> {
    match shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len)) {
        Some(n) if n <= MAX_MADE => Ok(()),
        _ => c.fault(format!(
            "makes a tensor of the shape {shape:?}, which has more than {MAX_MADE} elements"
        )),
    }
}

/// Returns zero as an element of a dtype.
fn zero(dtype: DType) -> Static {
    match dtype {
        DType::Bool => Static::Bool(false),
        _ => Static::Int(0),
    }
}

/// Returns the shape to which two shapes broadcast.
fn joint_shape(c: &Call<'_>, x: &[usize], y: &[usize]) -> Fallible<Vec<usize>> {
    let joint = crate::graph::joint_shape(x, y);
    made(c, &joint)?;
    Ok(joint)
}

fn blocks(c: &Call<'_>) -> Fallible<(Tensor, usize)> {
    let (x, block) = (c.x(0)?, c.int("blocksize", 0)?);
    match as_lens(&[block]).as_deref() {
        Some(&[block]) if block > 0 && x.rank() == 4 => Ok((x, block)),
        _ => c.fault(format!("has blocks of {block} for {}", x.aval())),
    }
}

fn slice(c: &Call<'_>) -> Outputs {
    let x = c.x(0)?;
    let (Some(starts), Some(ends)) = (c.ints_of("starts", 1)?, c.ints_of("ends", 2)?) else {
        return c.fault("has no starts or ends");
    };
    let axes = c
        .ints_of("axes", 3)?
        .unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = c.input_ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return c.fault("has lists of starts, ends, axes and steps that differ in length");
    }
    let axes = c.axes_of(&axes, x.rank())?;
    let (mut low, mut high, mut by) = (
        vec![0; x.rank()],
        vec![i64::MAX; x.rank()],
        vec![1; x.rank()],
    );
    let mut y = x;
    for (i, axis) in axes.into_iter().enumerate() {
        let (len, step) = (y.shape()[axis] as i64, steps[i]);
        let bound = |n: i64, low: i64, high: i64| {
            (if n < 0 { n.saturating_add(len) } else { n }).clamp(low, high)
        };
        if step == 0 {
            return c.fault("has the step 0");
        }
        if step > 0 {
            (low[axis], high[axis]) = (bound(starts[i], 0, len), bound(ends[i], 0, len));
            high[axis] = high[axis].max(low[axis]);
            by[axis] = step;
            continue;
        }
        // A negative step is a slice of the elements in reverse order.
        y = y.flip(axis);
        let flipped = |n: i64| len - 1 - bound(n, -1, len - 1);
        (low[axis], high[axis]) = (
            flipped(starts[i]).clamp(0, len),
            flipped(ends[i]).clamp(0, len),
        );
        high[axis] = high[axis].max(low[axis]);
        by[axis] = step.saturating_neg();
    }
    one(y.slice(low, high, by))
}

fn pad(c: &Call<'_>) -> Outputs {
    let (mut x, mode) = (c.x(0)?, c.text("mode", "constant")?);
    c.one_of("mode", mode, &["constant", "reflect", "edge", "wrap"])?;
    let name = if c.opset() < 2 { "paddings" } else { "pads" };
    let Some(pads) = c.ints_of(name, 1)? else {
        return c.fault("has no pads");
    };
    let axes = c
        .input_ints(3)?
        .unwrap_or_else(|| (0..x.rank() as i64).collect());
    let axes = c.axes_of(&axes, x.rank())?;
    if pads.len() != 2 * axes.len() {
        return c.fault(format!("has {} pads for {} axes", pads.len(), axes.len()));
    }
    let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
    for (i, axis) in axes.iter().enumerate() {
        (low[*axis], high[*axis]) = (pads[i], pads[axes.len() + i]);
    }
    let lens = (0..x.rank()).map(|i| {
        (x.shape()[i] as i64)
            .saturating_add(low[i])
            .saturating_add(high[i])
    });
    made(
        c,
        &lens
            .map(|len| usize::try_from(len).unwrap_or(0))
            .collect::<Vec<usize>>(),
    )?;
    let value = match c.optional(2)? {
        Some(value) => {
            c.same_dtype(&[&x, &value])?;
            Some(value.reshape(()))
        }
        None => None,
    };
    let number = c.float("value", 0.0)?;
    if mode == "constant" {
        let Some(value) = value else {
            let number = if number == 0.0 {
                zero(x.dtype())
            } else {
                Static::Float(number)
            };
            return one(x.pad(low, high, 0, number));
        };
        let is_inside = Tensor::full(x.shape(), true, DType::Bool);
        let is_inside = is_inside.pad(&low, &high, 0, false);
        return one(is_inside.select(x.pad(low, high, 0, zero(x.dtype())), value));
    }
    let removed = |pads: &[i64]| pads.iter().map(|n| (*n).min(0)).collect::<Vec<i64>>();
    x = x.pad(removed(&low), removed(&high), 0, zero(x.dtype()));
    let added = |pads: &[i64]| {
        pads.iter()
            .map(|n| usize::try_from(*n).unwrap_or(0))
            .collect::<Vec<usize>>()
    };
    let (low, high) = (added(&low), added(&high));
    one(match mode {
        "reflect" => x.pad_reflect(low, high),
        "edge" => x.pad_edge(low, high),
        _ => x.pad_wrap(low, high),
    })
}
