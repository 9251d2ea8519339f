//! What the annotations of a traced function say, checked at each call: `#[shape(B, 784)]` and `returns(B, 10)`.
//!
//! The macro writes a table; checking it reads shapes and allocates nothing. A name is bound by the first axis that has
//! it; every other axis that mentions it has to agree.

use crate::record::raise;
use crate::{DType, Error, Tensor};
use std::fmt;

/// What the annotations of a function say.
#[derive(Debug)]
pub struct Annotations {
    /// The function.
    pub function: &'static str,
    /// The lengths that one place binds and others have to agree with.
    pub lengths: &'static [Length],
    /// The annotated arguments.
    pub arguments: &'static [Annotation],
    /// The results.
    pub results: &'static [Annotation],
}

/// A length with a name, or a sum of names that nothing binds alone.
#[derive(Debug)]
pub struct Length {
    /// How it is written.
    pub text: &'static str,
    /// Whether a result binds it, and no argument.
    pub of_result: bool,
    /// Which argument or result binds it.
    pub index: usize,
    /// Which axis of that binds it.
    pub axis: usize,
}

/// What is said of one tensor.
#[derive(Debug)]
pub struct Annotation {
    /// What it is called in a message.
    pub what: &'static str,
    /// Its dtype, if that is written.
    pub dtype: Option<DType>,
    /// Its shape, if that is written, and how it is written.
    pub dims: Option<(&'static str, &'static [Expected])>,
}

/// What is said of one axis.
#[derive(Debug)]
pub enum Expected {
    /// Nothing.
    Any,
    /// The length.
    Is(usize),
    /// One of the lengths of the table.
    Bound(usize),
    /// A sum of products of lengths of the table, and how it is written.
    Sum(&'static str, &'static [(i128, &'static [usize])]),
}

/// An argument or a result is not what its annotation says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnnotationFault {
    /// It has another dtype.
    DType {
        /// The argument or result.
        what: &'static str,
        /// Its dtype.
        found: DType,
        /// The dtype that is written.
        expected: DType,
    },
    /// It has another number of axes.
    Rank {
        /// The argument or result.
        what: &'static str,
        /// Its rank.
        found: usize,
        /// The rank that is written.
        expected: usize,
        /// The dims that are written.
        written: &'static str,
    },
    /// An axis has another length than the number or the sum that is written.
    Length {
        /// The argument or result.
        what: &'static str,
        /// The axis.
        axis: usize,
        /// Its length.
        found: usize,
        /// The length that it has to have.
        expected: i128,
        /// The sum that is written, if it is no number.
        written: Option<&'static str>,
    },
    /// Two axes that have one name have different lengths.
    Name {
        /// The name.
        name: &'static str,
        /// The argument or result that has the name first, with the axis and its length.
        first: (&'static str, usize, usize),
        /// The other one.
        second: (&'static str, usize, usize),
    },
}

impl fmt::Display for AnnotationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnnotationFault::DType {
                what,
                found,
                expected,
            } => write!(f, "{what} is {found}, and has to be {expected}"),
            AnnotationFault::Rank {
                what,
                found,
                expected,
                written,
            } => write!(
                f,
                "{what} has rank {found}, and has to have rank {expected}, as in {written}"
            ),
            AnnotationFault::Length {
                what,
                axis,
                found,
                expected,
                written: None,
            } => write!(
                f,
                "axis {axis} of {what} is {found}, and has to be {expected}"
            ),
            AnnotationFault::Length {
                what,
                axis,
                found,
                expected,
                written: Some(written),
            } => write!(
                f,
                "axis {axis} of {what} is {found}, and has to be `{written}`, which is {expected}"
            ),
            AnnotationFault::Name {
                name,
                first,
                second,
            } => write!(
                f,
                "`{name}` is {} in axis {} of {}, and {} in axis {} of {}",
                first.2, first.1, first.0, second.2, second.1, second.0
            ),
        }
    }
}

/// Checks the annotated arguments of a call of which no result is annotated.
#[track_caller]
pub fn check_call<const N: usize>(table: &Annotations, arguments: &[&Tensor]) {
    check_arguments::<N>(table, arguments);
}

/// Checks the annotated arguments of a call, and returns the lengths that they bind.
#[track_caller]
pub fn check_arguments<const N: usize>(table: &Annotations, arguments: &[&Tensor]) -> [usize; N] {
    let mut lengths = [0; N];
    check(table, false, &mut lengths, arguments);
    lengths
}

/// Checks the results of the same call.
#[track_caller]
pub fn check_results<const N: usize>(
    table: &Annotations,
    lengths: &[usize; N],
    results: &[&Tensor],
) {
    check(table, true, &mut { *lengths }, results);
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
    // The ranks are right, so the axes are there.
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
            // A number that does not fit is no length.
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
