//! Run-time checks of shape annotations, `#[shape(B, 784)]` and `returns(B, 10)`, at each call, and the constraints of
//! those with mesh axes, `#[shape(B@data, 784)]`.
//!
//! The macro generates a table. Checking it reads shapes and allocates nothing. The first axis that
//! mentions a name binds it; every other axis that mentions the name has to agree.

use crate::error::AnnotationFault;
use crate::raise::{expect, raise};
use crate::sharding::{
    AxisRef, DimSharding, MeshInForce, ShardingSpec, mesh_in_force, with_sharding,
};
use crate::{DType, Error, Tensor};
use std::borrow::Borrow;

/// Annotations of one function.
#[derive(Debug)]
pub struct Annotations {
    /// Path of the function.
    pub function: &'static str,
    /// Named lengths: one axis binds each, and other axes have to agree.
    pub lengths: &'static [Length],
    /// Annotated arguments.
    pub arguments: &'static [Annotation],
    /// Annotated results.
    pub results: &'static [Annotation],
}

/// Named length, or a sum of names of which no axis binds one alone.
#[derive(Debug)]
pub struct Length {
    /// Source text of the length.
    pub text: &'static str,
    /// True if a result binds it, and not an argument.
    pub of_result: bool,
    /// Index of the argument or result that binds it.
    pub index: usize,
    /// Axis of that argument or result.
    pub axis: usize,
}

/// Annotation of one tensor.
#[derive(Debug)]
pub struct Annotation {
    /// Name of the tensor in messages.
    pub what: &'static str,
    /// Annotated dtype, if any.
    pub dtype: Option<DType>,
    /// Annotated shape, if any, with its source text.
    pub dims: Option<(&'static str, &'static [Expected])>,
    /// How each dim is split. Empty if the annotation has no mesh axes.
    pub splits: &'static [DimSplit],
}

/// Mesh axes that split a dim, by the annotation of the tensor.
#[derive(Debug)]
pub struct DimSplit {
    /// Names of the axes, the major one first.
    pub axes: &'static [&'static str],
    /// True if propagation may add axes.
    pub is_open: bool,
}

/// Annotation of one axis.
#[derive(Debug)]
pub enum Expected {
    /// Any length.
    Any,
    /// Exactly this length.
    Is(usize),
    /// Length with this index in the table.
    Bound(usize),
    /// Sum of products of lengths of the table, with its source text.
    Sum(&'static str, &'static [(i128, &'static [usize])]),
}

/// Checks the annotated arguments of a call to a function whose results are not annotated.
///
/// # Panics
///
/// If an argument does not match its annotation. Inside of `record::catch`, the error is
/// returned to it instead.
#[track_caller]
pub fn check_call<const N: usize>(table: &Annotations, arguments: &[&Tensor]) {
    check_arguments::<N>(table, arguments);
}

/// Checks the annotated arguments of a call and returns the lengths that they bind.
///
/// # Panics
///
/// If an argument does not match its annotation, as in [`check_call`].
#[track_caller]
pub fn check_arguments<const N: usize>(table: &Annotations, arguments: &[&Tensor]) -> [usize; N] {
    let mut lengths = [0; N];
    check(table, false, &mut lengths, arguments);
    lengths
}

/// Checks the annotated results of a call, with the lengths that [`check_arguments`] returned.
///
/// # Panics
///
/// If a result does not match its annotation, as in [`check_call`].
#[track_caller]
pub fn check_results<const N: usize>(
    table: &Annotations,
    lengths: &[usize; N],
    results: &[&Tensor],
) {
    check(table, true, &mut { *lengths }, results);
}

/// Returns annotated argument `i`, placed on the mesh that [`sharded`](crate::sharding::sharded) divides the caller
/// over. Without a mesh, returns it as it is.
///
/// # Panics
///
/// If the mesh does not have an axis of the annotation, or inside of [`shard_map`](crate::sharding::shard_map), as in
/// [`check_call`].
#[track_caller]
pub fn place_argument(table: &Annotations, i: usize, x: impl Borrow<Tensor>) -> Tensor {
    place(table, &table.arguments[i], x.borrow())
}

/// Returns annotated result `i`, placed as [`place_argument`] does.
///
/// # Panics
///
/// As [`place_argument`].
#[track_caller]
pub fn place_result(table: &Annotations, i: usize, y: &Tensor) -> Tensor {
    place(table, &table.results[i], y)
}

#[track_caller]
fn place(table: &Annotations, annotation: &Annotation, x: &Tensor) -> Tensor {
    match spec(annotation) {
        Ok(None) => x.clone(),
        Ok(Some(spec)) => with_sharding(x, &spec),
        Err(fault) => expect(Err(Error::Annotation {
            function: table.function,
            fault: Box::new(fault),
        })),
    }
}

/// Returns the spec of an annotated tensor on the mesh in force, if there is one.
fn spec(annotation: &Annotation) -> Result<Option<ShardingSpec>, AnnotationFault> {
    let what = annotation.what;
    let mesh = match mesh_in_force() {
        None => return Ok(None),
        Some(MeshInForce::Parts) => return Err(AnnotationFault::Part { what }),
        Some(MeshInForce::Whole(mesh)) => mesh,
    };
    let mut dims = Vec::with_capacity(annotation.splits.len());
    for (dim, split) in annotation.splits.iter().enumerate() {
        if let Some(axis) = split
            .axes
            .iter()
            .find(|axis| mesh.axis_index(axis).is_none())
        {
            let mesh = mesh.to_string();
            return Err(AnnotationFault::MeshAxis {
                what,
                dim,
                axis,
                mesh,
            });
        }
        dims.push(DimSharding {
            axes: split.axes.iter().map(|axis| AxisRef::new(axis)).collect(),
            is_open: split.is_open,
            priority: None,
        });
    }
    let spec = ShardingSpec::new(&mesh, dims, Vec::new(), Vec::new());
    Ok(Some(spec.expect(
        "the macro refuses an axis that occurs twice, and the mesh has the axes",
    )))
}

#[track_caller]
fn check(table: &Annotations, of_result: bool, lengths: &mut [usize], tensors: &[&Tensor]) {
    if let Err(fault) = try_check(table, of_result, lengths, tensors) {
        raise(Error::Annotation {
            function: table.function,
            fault: Box::new(fault),
        });
    }
}

fn try_check(
    table: &Annotations,
    of_result: bool,
    lengths: &mut [usize],
    tensors: &[&Tensor],
) -> Result<(), AnnotationFault> {
    let annotations = if of_result {
        table.results
    } else {
        table.arguments
    };
    for (annotation, tensor) in annotations.iter().zip(tensors) {
        kind(annotation, tensor)?;
    }
    // The ranks have been checked, so the indexed axes exist.
    for (length, bound) in lengths
        .iter_mut()
        .zip(table.lengths)
        .filter(|(_, b)| b.of_result == of_result)
    {
        *length = tensors[bound.index].shape()[bound.axis];
    }
    for (annotation, tensor) in annotations.iter().zip(tensors) {
        let dims = annotation.dims.iter().flat_map(|(_, dims)| *dims);
        for ((axis, expected), &found) in dims.enumerate().zip(tensor.shape()) {
            axis_is(table, lengths, annotation.what, axis, expected, found)?;
        }
    }
    Ok(())
}

/// Checks dtype and rank.
fn kind(annotation: &Annotation, tensor: &Tensor) -> Result<(), AnnotationFault> {
    let what = annotation.what;
    if let Some(expected) = annotation.dtype
        && expected != tensor.dtype()
    {
        return Err(AnnotationFault::DType {
            what,
            found: tensor.dtype(),
            expected,
        });
    }
    match annotation.dims {
        Some((written, dims)) if dims.len() != tensor.rank() => Err(AnnotationFault::Rank {
            what,
            found: tensor.rank(),
            expected: dims.len(),
            written,
        }),
        _ => Ok(()),
    }
}

fn axis_is(
    table: &Annotations,
    lengths: &[usize],
    what: &'static str,
    axis: usize,
    expected: &Expected,
    found: usize,
) -> Result<(), AnnotationFault> {
    let (expected, written) = match *expected {
        Expected::Any => return Ok(()),
        Expected::Is(n) => (n as i128, None),
        Expected::Bound(k) if lengths[k] == found => return Ok(()),
        Expected::Bound(k) => {
            let bound = &table.lengths[k];
            let tensors = if bound.of_result {
                table.results
            } else {
                table.arguments
            };
            return Err(AnnotationFault::Name {
                name: bound.text,
                first: (tensors[bound.index].what, bound.axis, lengths[k]),
                second: (what, axis, found),
            });
        }
        Expected::Sum(written, terms) => {
            let term = |(coefficient, names): &(i128, &[usize])| {
                let mut names = names.iter().map(|k| lengths[*k] as i128);
                names.try_fold(*coefficient, i128::checked_mul)
            };
            let sum = terms
                .iter()
                .try_fold(0i128, |sum, t| sum.checked_add(term(t)?));
            // A sum that overflows cannot be the length of an axis.
            (sum.unwrap_or(i128::MAX), Some(written))
        }
    };
    match expected == found as i128 {
        true => Ok(()),
        false => Err(AnnotationFault::Length {
            what,
            axis,
            found,
            expected,
            written,
        }),
    }
}
