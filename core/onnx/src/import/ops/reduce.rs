//! Reductions, and ops along axes.

use super::{Call, Fallible, Outputs, Table, all, iota, one, part};
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("ReduceSum", |c| reduced(c, |x, axes| x.sum_keepdims(axes))),
    ("ReduceMean", |c| {
        reduced(c, |x, axes| x.mean_keepdims(axes).cast(x.dtype()))
    }),
    ("ReduceMax", |c| {
        reduced(c, |x, axes| {
            extreme(x, axes, f64::NEG_INFINITY, |x, axes| x.max_keepdims(axes))
        })
    }),
    ("ReduceMin", |c| {
        reduced(c, |x, axes| {
            extreme(x, axes, f64::INFINITY, |x, axes| x.min_keepdims(axes))
        })
    }),
    ("ReduceProd", |c| {
        reduced(c, |x, axes| x.prod_keepdims(axes))
    }),
    ("ReduceL1", |c| {
        reduced(c, |x, axes| x.abs().sum_keepdims(axes))
    }),
    ("ReduceL2", |c| {
        reduced(c, |x, axes| x.square().sum_keepdims(axes).sqrt())
    }),
    ("ReduceLogSum", |c| {
        reduced(c, |x, axes| x.sum_keepdims(axes).log())
    }),
    ("ReduceLogSumExp", |c| {
        reduced(c, |x, axes| x.logsumexp_keepdims(axes))
    }),
    ("ReduceSumSquare", |c| {
        reduced(c, |x, axes| x.square().sum_keepdims(axes))
    }),
    ("ArgMax", |c| index_of(c, |x, axis| x.argmax_keepdims(axis))),
    ("ArgMin", |c| index_of(c, |x, axis| x.argmin_keepdims(axis))),
    ("CumSum", |c| {
        let (x, axis, reverse) = cumulated(c)?;
        let y = if reverse {
            x.cumsum_reverse(axis)
        } else {
            x.cumsum(axis)
        };
        shifted(c, &y, axis, reverse, 0)
    }),
    ("CumProd", |c| {
        let (x, axis, reverse) = cumulated(c)?;
        let y = if reverse {
            x.cumprod_reverse(axis)
        } else {
            x.cumprod(axis)
        };
        shifted(c, &y, axis, reverse, 1)
    }),
    ("Softmax", |c| on_rows(c, |x, axis| x.softmax(axis))),
    ("LogSoftmax", |c| on_rows(c, |x, axis| x.log_softmax(axis))),
    ("Hardmax", |c| {
        on_rows(c, |x, axis| {
            let places = iota(axis, x.rank(), x.shape()[axis], DType::I64);
            places.eq(x.argmax_keepdims(axis)).cast(x.dtype())
        })
    }),
    ("LpNormalization", |c| {
        let x = c.x(0)?;
        let axis = c.axis(-1, x.rank())?;
        let norm = match c.int("p", 2)? {
            1 => x.abs().sum_keepdims(axis),
            2 => x.square().sum_keepdims(axis).sqrt(),
            p => return c.fault(format!("has the attribute `p` {p}, expected 1 or 2")),
        };
        let is_zero = norm.eq(0.0);
        let safe = is_zero.select(1.0, &norm);
        one(is_zero.select(0.0, x / safe))
    }),
    ("TopK", |c| {
        let x = c.x(0)?;
        let (axis, is_largest) = (c.axis(-1, x.rank())?, c.flag("largest", true)?);
        // Sorted results are one of the orders that the others may have.
        c.flag("sorted", true)?;
        let Some(k) = c
            .int_or_none("k")?
            .map_or_else(|| c.input_int(1), |k| Ok(Some(k)))?
        else {
            return c.fault("has no `k`");
        };
        let k = c.lens(&[k])?[0];
        if k > x.shape()[axis] {
            return c.fault(format!("takes {k} of axis {axis} of {}", x.aval()));
        }
        let order = if is_largest {
            x.argsort_descending(axis)
        } else {
            x.argsort(axis)
        };
        let order = part(&order, axis, 0, k);
        all([x.take_along_axis(&order, axis), order])
    }),
];

/// Returns the extreme elements. Those of no elements are the identity.
fn extreme(x: &Tensor, axes: &[i64], identity: f64, f: fn(&Tensor, &[i64]) -> Tensor) -> Tensor {
    if axes.iter().all(|axis| x.dim(*axis as isize) > 0) {
        return f(x, axes);
    }
    let mut shape = x.shape().to_vec();
    axes.iter().for_each(|axis| shape[*axis as usize] = 1);
    match x.dtype() {
        DType::Bool => Tensor::full(shape, identity > 0.0, DType::Bool),
        DType::I32 => Tensor::full(
            shape,
            if identity < 0.0 { i32::MIN } else { i32::MAX },
            DType::I32,
        ),
        DType::I64 => Tensor::full(
            shape,
            if identity < 0.0 { i64::MIN } else { i64::MAX },
            DType::I64,
        ),
        dtype => Tensor::full(shape, identity, dtype),
    }
}

fn reduced(c: &Call<'_>, f: impl Fn(&Tensor, &[i64]) -> Tensor) -> Outputs {
    let (x, keep) = (c.x(0)?, c.flag("keepdims", true)?);
    let axes = c.ints_of("axes", 1)?.unwrap_or_default();
    let is_noop = c.flag("noop_with_empty_axes", false)?;
    let mut axes = c.axes_of(&axes, x.rank())?;
    if axes.is_empty() && !is_noop {
        axes = (0..x.rank()).collect();
    }
    let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
    let y = f(&x, &axes);
    let y = if y.dtype() == x.dtype() {
        y
    } else {
        y.cast(x.dtype())
    };
    one(if keep { y } else { y.squeeze(axes) })
}

fn index_of(c: &Call<'_>, f: fn(&Tensor, usize) -> Tensor) -> Outputs {
    let (x, keep) = (c.x(0)?, c.flag("keepdims", true)?);
    let axis = c.axis(0, x.rank())?;
    let y = match c.flag("select_last_index", false)? {
        true => f(&x.flip(axis), axis) * -1i64 + (x.shape()[axis] as i64 - 1),
        false => f(&x, axis),
    };
    one(if keep { y } else { y.squeeze(axis) })
}

fn cumulated(c: &Call<'_>) -> Fallible<(Tensor, usize, bool)> {
    let x = c.x(0)?;
    match c.input_int(1)? {
        Some(axis) => Ok((
            x.clone(),
            c.axis_of(axis, x.rank())?,
            c.flag("reverse", false)?,
        )),
        None => c.fault("has no axis"),
    }
}

/// Returns sums or products without the element of the place itself, if the node says so.
fn shifted(c: &Call<'_>, y: &Tensor, axis: usize, reverse: bool, identity: i64) -> Outputs {
    if !c.flag("exclusive", false)? {
        return one(y.clone());
    }
    let (mut low, mut high) = (vec![0i64; y.rank()], vec![0i64; y.rank()]);
    let (added, dropped) = if reverse {
        (&mut high, &mut low)
    } else {
        (&mut low, &mut high)
    };
    added[axis] = 1;
    dropped[axis] = -1;
    one(y.pad(low, high, 0, identity))
}

/// Applies `f` along an axis. Versions before 13 flatten the axes from there on.
fn on_rows(c: &Call<'_>, f: fn(&Tensor, usize) -> Tensor) -> Outputs {
    let x = c.x(0)?;
    if c.opset() >= 13 {
        let axis = c.axis(-1, x.rank())?;
        return one(f(&x, axis));
    }
    let axis = c.axis(1, x.rank().max(2))?;
    let rows: usize = x.shape()[..axis].iter().product();
    let y = f(&x.reshape([rows, x.numel() / rows.max(1)]), 1);
    one(y.reshape(x.shape()))
}
