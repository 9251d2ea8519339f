//! Helpers shared by the shape rules and dtype rules.

use crate::MAX_RANK;
use crate::{Aval, DType, Dim, Dims, Fault, Shape, Static};

/// Returns the shape after NumPy broadcasting of two shapes.
///
/// Axes are aligned from the right, and a length of 1 fits every other length.
pub fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, Fault> {
    let (Some(a), Some(b)) = (a.dims(), b.dims()) else {
        return Ok(Shape::UNKNOWN);
    };
    let rank = a.len().max(b.len());
    let at = |dims: &[Dim], axis: usize| {
        (axis + dims.len())
            .checked_sub(rank)
            .map_or(Dim::Known(1), |i| dims[i])
    };
    let dims = (0..rank).map(|axis| {
        let (left, right) = (at(a, axis), at(b, axis));
        // A length that is certainly not 1 is the length of the result.
        let wide = |dim: Dim| dim.differs(Dim::Known(1));
        match (left, right) {
            (Dim::Known(1), other) | (other, Dim::Known(1)) => Ok(other),
            _ if left == right => Ok(left),
            _ if wide(left) && wide(right) && left.differs(right) => Err(Fault::Broadcast {
                axis,
                left: left.to_string(),
                right: right.to_string(),
            }),
            _ if wide(left) && wide(right) => Ok(left.meet(right)),
            _ if wide(left) => Ok(left),
            _ if wide(right) => Ok(right),
            // Either length may be 1.
            _ => Ok(Dim::Unknown),
        }
    });
    Ok(Shape(Some(dims.collect::<Result<_, _>>()?)))
}

/// Returns an axis counted from the left, given one that may be negative to count from the right.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Fault> {
    let from_left = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(from_left)
        .ok()
        .filter(|a| *a < rank)
        .ok_or(Fault::Axis { axis, rank })
}

/// Returns the axis of a static argument, counted from the left, or `None` if it is unknown.
pub fn known_axis(value: &Static, rank: usize) -> Result<Option<usize>, Fault> {
    value.int().map(|a| axis(a, rank)).transpose()
}

/// Returns the axes of a static argument in ascending order, or `None` if they are unknown.
pub fn axes(value: &Static, rank: usize) -> Result<Option<Vec<usize>>, Fault> {
    if *value == Static::All {
        return Ok(Some((0..rank).collect()));
    }
    let Some(given) = value.ints() else {
        return Ok(None);
    };
    let mut found = Vec::with_capacity(given.len());
    for &a in given {
        let from_left = axis(a, rank)?;
        if found.contains(&from_left) {
            return Err(Fault::RepeatedAxis { axis: a });
        }
        found.push(from_left);
    }
    found.sort_unstable();
    Ok(Some(found))
}

/// Returns the shape that a static argument gives.
pub fn lengths(value: &Static) -> Result<Shape, Fault> {
    let lens = asked_lengths(value)?;
    Ok(Shape(lens.and_then(|lens| lens.into_iter().collect())))
}

/// Returns the text of a requested shape for error messages.
pub(crate) fn shown(shape: &Static) -> String {
    match shape {
        Static::Dims(_, lens) => crate::program::dims_text(lens),
        other => other.to_string(),
    }
}

/// Returns the lengths that a static argument requests, or `None` if even their number is unknown.
///
/// A negative length is `None`.
pub(crate) fn asked_lengths(value: &Static) -> Result<Option<Vec<Option<Dim>>>, Fault> {
    let len = |n: &i64| usize::try_from(*n).ok().map(Dim::Known);
    let lens: Option<Vec<Option<Dim>>> = match value {
        Static::Dims(_, lens) => Some(lens.clone()),
        other => other.ints().map(|lens| lens.iter().map(len).collect()),
    };
    match &lens {
        Some(lens) if lens.len() > MAX_RANK => Err(Fault::TooManyAxes { rank: lens.len() }),
        _ => Ok(lens),
    }
}

/// Returns the dim that a static argument gives.
pub fn dim(value: &Static) -> Dim {
    let len = value.int().and_then(|n| usize::try_from(n).ok());
    len.map_or(Dim::Unknown, Dim::Known)
}

/// Returns the shape `x` after a check that it has the axis.
pub fn along(x: &Shape, axis: &Static) -> Result<Shape, Fault> {
    if let (Some(axis), Some(dims)) = (axis.int(), x.dims()) {
        self::axis(axis, dims.len())?;
    }
    Ok(x.clone())
}

/// Returns the shape `x` after a check that it has at least two axes.
pub fn matrices(x: &Shape) -> Result<Shape, Fault> {
    match x.dims() {
        Some(dims) if dims.len() < 2 => Err(Fault::Rank {
            found: dims.len(),
            expected: "at least 2".into(),
        }),
        _ => Ok(x.clone()),
    }
}

/// Returns the shape after a maximum or minimum over `axes`.
///
/// # Errors
///
/// If there are no elements along one of the axes.
pub fn extremum(x: &Shape, axes: &Static, keepdims: &Static) -> Result<Shape, Fault> {
    let shape = reduce(x, axes, keepdims)?;
    if let Some(dims) = x.dims()
        && let Some(axes) = self::axes(axes, dims.len())?
        && let Some(axis) = axes.into_iter().find(|a| dims[*a] == Dim::Known(0))
    {
        return Err(Fault::EmptyReduction { axis });
    }
    Ok(shape)
}

/// Returns the shape of `x`, whose axes before the last must be those of `labels`.
pub fn labelled(x: &Shape, labels: &Shape) -> Result<Shape, Fault> {
    let Some(x) = x.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    let Some((classes, rows)) = x.split_last() else {
        return Err(Fault::Rank {
            found: 0,
            expected: "at least 1".into(),
        });
    };
    let Some(labels) = labels.dims() else {
        return Ok(Shape::from(x));
    };
    if labels.len() != rows.len() {
        return Err(Fault::Rank {
            found: x.len(),
            expected: format!("{}, one more than that of the labels", labels.len() + 1),
        });
    }
    let met = first_axes(rows, labels, "the labels")?;
    Ok(Shape(Some(met.chain([*classes]).collect())))
}

/// Returns the dims of `axes`, which must be the first axes of another operand. Messages call it `name`.
pub fn first_axes(
    axes: &[Dim],
    other: &[Dim],
    name: &str,
) -> Result<impl Iterator<Item = Dim>, Fault> {
    let both = axes.iter().zip(other);
    for (axis, (dim, found)) in both.clone().enumerate() {
        if dim.differs(*found) {
            return Err(Fault::Length {
                what: format!("axis {axis} of {name}"),
                found: found.to_string(),
                expected: dim.to_string(),
            });
        }
    }
    Ok(both.map(|(dim, other)| dim.meet(*other)))
}

/// Returns the shape after a reduction of `x` over `axes`.
pub fn reduce(x: &Shape, axes: &Static, keepdims: &Static) -> Result<Shape, Fault> {
    let Some(dims) = x.dims() else {
        // A reduction over all axes gives rank 0, even if the rank of `x` is unknown.
        let to_scalar = *axes == Static::All && *keepdims == Static::Bool(false);
        return Ok(if to_scalar {
            Shape::scalar()
        } else {
            Shape::UNKNOWN
        });
    };
    let axes = self::axes(axes, dims.len())?;
    let keepdims = keepdims.bool();
    Ok(Shape(match (axes, keepdims) {
        (Some(axes), Some(true)) => {
            let kept = dims.iter().enumerate();
            Some(
                kept.map(|(i, d)| if axes.contains(&i) { Dim::Known(1) } else { *d })
                    .collect(),
            )
        }
        (Some(axes), Some(false)) => {
            let kept = dims.iter().enumerate().filter(|(i, _)| !axes.contains(i));
            Some(kept.map(|(_, d)| *d).collect())
        }
        (None, Some(true)) => Some(vec![Dim::Unknown; dims.len()].into()),
        _ => None,
    }))
}

/// Returns the shape of the transpose of a reduction of `x` to `y`: that of `x`.
pub fn repeat(y: &Shape, x: &Shape, axes: &Static, keepdims: &Static) -> Result<Shape, Fault> {
    same(&reduce(x, axes, keepdims)?, y)?;
    Ok(x.clone())
}

/// Returns the shape of two operands that must have equal shapes.
pub fn same(x: &Shape, y: &Shape) -> Result<Shape, Fault> {
    let (Some(x), Some(y)) = (x.dims(), y.dims()) else {
        return Ok(if x.dims().is_some() { x } else { y }.clone());
    };
    if x.len() != y.len() {
        return Err(Fault::Rank {
            found: y.len(),
            expected: x.len().to_string(),
        });
    }
    let meet = |(axis, (x, y)): (usize, (&Dim, &Dim))| {
        if x.differs(*y) {
            return Err(Fault::Length {
                what: format!("axis {axis}"),
                found: y.to_string(),
                expected: x.to_string(),
            });
        }
        Ok(x.meet(*y))
    };
    let dims: Result<Dims, Fault> = x.iter().zip(y).enumerate().map(meet).collect();
    Ok(Shape(Some(dims?)))
}

/// Checks that a shape has at most [`MAX_RANK`] axes and an addressable number of elements.
pub fn check_size(shape: &Shape) -> Result<(), Fault> {
    let Some(dims) = shape.dims() else {
        return Ok(());
    };
    if dims.len() > MAX_RANK {
        return Err(Fault::TooManyAxes { rank: dims.len() });
    }
    // The product of the nonzero lengths must fit, so that strides fit even if a length is 0.
    let known = dims.iter().filter_map(|d| d.known()).filter(|n| *n > 0);
    let bytes = known
        .into_iter()
        .try_fold(8usize, |total, n| total.checked_mul(n));
    match bytes {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Fault::Overflow {
            shape: shape.to_string(),
        }),
    }
}

/// The dtype rule of an op whose result has the dtype of its first operand.
pub fn of_operand(_: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
    Ok(args[0].dtype)
}

/// Returns the common dtype of two operands.
pub fn same_dtype(a: Option<DType>, b: Option<DType>) -> Result<Option<DType>, Fault> {
    match (a, b) {
        (Some(left), Some(right)) if left != right => Err(Fault::MixedDTypes { left, right }),
        _ => Ok(a.or(b)),
    }
}

/// Returns the dtype of two operands that are cast by [`DType::promoted`] before the op.
///
/// The cast is an equation of its own, so known dtypes must be equal here. An operand of unknown
/// dtype may be wider than the other one.
pub fn promoted(a: Option<DType>, b: Option<DType>) -> Result<Option<DType>, Fault> {
    let both = a.is_some() && b.is_some();
    Ok(same_dtype(a, b)?.filter(|dtype| both || is_widest(*dtype)))
}

/// Returns the dtype of operands that are cast by [`DType::promoted`] before the op.
pub fn all_promoted(args: &[&Aval]) -> Result<Option<DType>, Fault> {
    let known = args.iter().all(|arg| arg.dtype.is_some());
    Ok(same_dtypes(args)?.filter(|dtype| known || is_widest(*dtype)))
}

/// Returns whether promotion never gives another dtype.
fn is_widest(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Returns the dtype of a number beside an operand: that of the operand, but `f64` for a float beside
/// integers.
pub fn beside(value: &Static, dtype: Option<DType>) -> Result<Option<DType>, Fault> {
    let may_be_integer = dtype.is_none_or(DType::is_integer);
    match (value, dtype) {
        (Static::Float(_), Some(dtype)) if dtype.is_integer() => Ok(Some(DType::F64)),
        // A number that is not known may be a float.
        (Static::Host(_) | Static::Dims(..), _) if may_be_integer => Ok(None),
        _ => holds(value, dtype),
    }
}

/// Returns the common dtype of all operands.
pub fn same_dtypes(args: &[&Aval]) -> Result<Option<DType>, Fault> {
    args.iter()
        .try_fold(None, |dtype, arg| same_dtype(dtype, arg.dtype))
}

/// Returns the common dtype of all operands, which must be a float.
pub fn same_floats(args: &[&Aval]) -> Result<Option<DType>, Fault> {
    number(same_dtypes(args)?, false)
}

/// Returns the dtype of sums or products of elements of `dtype`.
///
/// [`Op::cast_to`](crate::Op::cast_to) says that smaller ones are cast to `i64`. The cast is an equation of its own.
pub fn added(dtype: Option<DType>) -> Result<Option<DType>, Fault> {
    match dtype {
        Some(found @ (DType::I8 | DType::U8)) => Err(Fault::DType {
            found,
            expected: "a float, `i32` or `i64`",
        }),
        dtype => number(dtype, true),
    }
}

/// Returns `dtype`, which must be a float, or an integer if `ints` allows it.
pub fn number(dtype: Option<DType>, ints: bool) -> Result<Option<DType>, Fault> {
    match dtype {
        Some(DType::Bool) if ints => Err(Fault::DType {
            found: DType::Bool,
            expected: "a number",
        }),
        Some(d) if !d.is_float() && !ints => Err(Fault::DType {
            found: d,
            expected: "a float",
        }),
        _ => Ok(dtype),
    }
}

/// Returns `dtype`, which must be `bool`.
pub fn truth(dtype: Option<DType>) -> Result<Option<DType>, Fault> {
    match dtype {
        Some(found) if found != DType::Bool => Err(Fault::DType {
            found,
            expected: "`bool`",
        }),
        _ => Ok(Some(DType::Bool)),
    }
}

/// Checks that a dtype is an integer.
pub fn integer(dtype: Option<DType>, expected: &'static str) -> Result<(), Fault> {
    match dtype {
        Some(found @ (DType::I8 | DType::U8)) => Err(Fault::DType {
            found,
            expected: "an integer of 32 or 64 bits",
        }),
        Some(found) if !found.is_integer() => Err(Fault::DType { found, expected }),
        _ => Ok(()),
    }
}

/// Checks that the dtype of indices is an integer.
pub fn indices(dtype: Option<DType>) -> Result<(), Fault> {
    let expected = match dtype {
        Some(DType::Bool) => {
            "an integer for the indices; a mask chooses elements as in `mask.select(0.0, &x)`"
        }
        _ => "an integer for the indices",
    };
    integer(dtype, expected)
}

/// Returns an error unless the dtype is that of the words of a key.
pub fn words(key: &Aval) -> Result<(), Fault> {
    match key.dtype {
        Some(found) if found != DType::I64 => Err(Fault::DType {
            found,
            expected: "the `i64` words of a key",
        }),
        _ => Ok(()),
    }
}

/// Returns the shape of what is drawn from an array of keys: the axes of the array, then `one`, the
/// shape for each key.
///
/// A key is two words from 0 to 2^32 - 1, as `i64`, along the last axis.
pub fn drawn(key: &Aval, one: Shape) -> Result<Shape, Fault> {
    words(key)?;
    let Some(dims) = key.shape.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    match dims.split_last() {
        Some((words, _)) if words.differs(Dim::Known(2)) => Err(Fault::Length {
            what: "the words of a key".to_owned(),
            found: words.to_string(),
            expected: "2".to_owned(),
        }),
        Some((_, keys)) => Ok(Shape(one.dims().map(|one| [keys, one].concat().into()))),
        None => Err(Fault::Rank {
            found: 0,
            expected: "at least 1".to_owned(),
        }),
    }
}

/// Returns `dtype` if it can represent the constant `value`. Rounding of floats is allowed.
pub fn holds(value: &Static, dtype: Option<DType>) -> Result<Option<DType>, Fault> {
    let (found, fits_i64) = match value {
        Static::Bool(b) => (f64::from(u8::from(*b)), true),
        Static::Int(n) => (*n as f64, true),
        Static::Float(x) => (*x, x.fract() == 0.0 && (I64_START..-I64_START).contains(x)),
        _ => return Ok(dtype),
    };
    let fits = match dtype {
        None | Some(DType::F32 | DType::F64 | DType::BF16 | DType::F16) => true,
        Some(DType::I32) => found == f64::from(found as i32),
        Some(DType::I8) => found == f64::from(found as i8),
        Some(DType::U8) => found == f64::from(found as u8),
        Some(DType::I64) => fits_i64,
        Some(DType::Bool) => found == 0.0 || found == 1.0,
    };
    match dtype {
        Some(dtype) if !fits => Err(Fault::Lossy {
            value: found,
            dtype,
        }),
        _ => Ok(dtype),
    }
}

/// The smallest `i64`, -2^63. The first number that is too large for an `i64` is 2^63.
const I64_START: f64 = i64::MIN as f64;
