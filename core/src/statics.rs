//! Conversions to static arguments.

use crate::DType;
use gradloom_ir::{MAX_RANK, Static};
use std::ops::{Range, RangeFull, RangeInclusive};

/// Conversion to a static argument: axes, a shape, a number or a dtype.
///
/// Axes are one axis, several, or all (`..`). The integers in a tuple may have different types, as
/// in `x.reshape((x.dim(0), -1))`.
///
/// ```
/// # use gradloom::{DType, Tensor};
/// let x = Tensor::ones([2, 3, 4], DType::F32);
/// assert_eq!(x.sum(-1).shape(), [2, 3]);
/// assert_eq!(x.sum([0, 2]).shape(), [3]);
/// assert_eq!(x.sum(vec![0, 2]).shape(), [3]);
/// assert!(x.sum(..).shape().is_empty());
/// assert_eq!(x.sum(0..2).shape(), [4]);
/// assert_eq!(x.reshape((x.dim(0), -1)).shape(), [2, 12]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an axis nor a list of axes, a shape, a number or a dtype",
    label = "not a static argument",
    note = "write `1`, `[0, -1]`, `..` for all axes, or `DType::F32`; lists may be arrays, slices, vectors, ranges and tuples"
)]
pub trait IntoStatic {
    /// Returns the static argument.
    fn into_static(self) -> Static;

    /// Returns the first number and the length of a range of numbers, or 0 and the argument itself.
    #[doc(hidden)]
    fn into_start_and_len(self) -> (i64, Static)
    where
        Self: Sized,
    {
        (0, self.into_static())
    }
}

/// Conversion of a number that is an operand of a tensor in a companion.
///
/// It takes numbers that are not operands too: rustc reports these in the user's function alone.
#[doc(hidden)]
pub trait NumberArg {
    fn into_number(self) -> Static;
}

impl<T: IntoStatic> NumberArg for T {
    fn into_number(self) -> Static {
        self.into_static()
    }
}

macro_rules! refused_numbers {
    ($($ty:ident)*) => {$(
        impl NumberArg for $ty {
            fn into_number(self) -> Static {
                Static::Float(self as f64)
            }
        }
    )*};
}

refused_numbers! { i8 i16 i128 u8 u16 u128 }

/// Integer in a tuple of axes or lengths.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an axis nor a length",
    label = "not an axis or a length",
    note = "write integers, as in `(x.dim(0), -1)`"
)]
pub trait TupleInt {
    fn into_int(self) -> i64;
}

/// Returns the integers of a range of axes, or as many as show that they are too many.
fn axes_of_range(axes: impl Iterator<Item = i64>) -> Static {
    Static::Ints(axes.take(MAX_RANK + 1).collect())
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl TupleInt for $ty {
            fn into_int(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
        impl TupleInt for &$ty {
            fn into_int(self) -> i64 {
                (*self).into_int()
            }
        }
        impl IntoStatic for Range<$ty> {
            fn into_static(self) -> Static {
                axes_of_range(self.map(TupleInt::into_int))
            }
            fn into_start_and_len(self) -> (i64, Static) {
                let [start, end] = [self.start, self.end].map(TupleInt::into_int);
                (start, Static::Int(end.saturating_sub(start).max(0)))
            }
        }
        impl IntoStatic for RangeInclusive<$ty> {
            fn into_static(self) -> Static {
                axes_of_range(self.map(TupleInt::into_int))
            }
            fn into_start_and_len(self) -> (i64, Static) {
                let [start, end] = [*self.start(), *self.end()].map(TupleInt::into_int);
                let len = end.saturating_sub(start).saturating_add(1);
                (start, Static::Int(len.max(0)))
            }
        }
        impl IntoStatic for $ty {
            fn into_static(self) -> Static {
                // Values beyond `i64` are valid only as numbers, as in `Tensor::full`. As an axis
                // or a length they are out of range.
                match i64::try_from(self) {
                    Ok(n) => Static::Int(n),
                    Err(_) => Static::Float(self as f64),
                }
            }
        }
        impl IntoStatic for &$ty {
            fn into_static(self) -> Static {
                (*self).into_static()
            }
        }
        impl<const N: usize> IntoStatic for [$ty; N] {
            fn into_static(self) -> Static {
                (&self[..]).into_static()
            }
        }
        impl<const N: usize> IntoStatic for &[$ty; N] {
            fn into_static(self) -> Static {
                (&self[..]).into_static()
            }
        }
        impl IntoStatic for &[$ty] {
            fn into_static(self) -> Static {
                Static::Ints(self.iter().map(TupleInt::into_int).collect())
            }
        }
        impl IntoStatic for Vec<$ty> {
            fn into_static(self) -> Static {
                (&self[..]).into_static()
            }
        }
        impl IntoStatic for &Vec<$ty> {
            fn into_static(self) -> Static {
                (&self[..]).into_static()
            }
        }
    )*};
}

integers! { usize isize u32 i32 u64 i64 }

macro_rules! tuples {
    ($($($ty:ident)*;)*) => {$(
        impl<$($ty: TupleInt),*> IntoStatic for ($($ty,)*) {
            #[allow(non_snake_case)]
            fn into_static(self) -> Static {
                let ($($ty,)*) = self;
                Static::Ints(vec![$($ty.into_int()),*])
            }
        }
    )*};
}

tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; }

/// The shape of a single number.
impl IntoStatic for () {
    fn into_static(self) -> Static {
        Static::Ints(Vec::new())
    }
}

impl IntoStatic for RangeFull {
    fn into_static(self) -> Static {
        Static::All
    }
}

impl IntoStatic for f64 {
    fn into_static(self) -> Static {
        Static::Float(self)
    }
}

impl IntoStatic for f32 {
    fn into_static(self) -> Static {
        Static::Float(f64::from(self))
    }
}

impl IntoStatic for bool {
    fn into_static(self) -> Static {
        Static::Bool(self)
    }
}

impl IntoStatic for DType {
    fn into_static(self) -> Static {
        Static::DType(self)
    }
}

impl IntoStatic for Static {
    fn into_static(self) -> Static {
        self
    }
}

impl IntoStatic for &Static {
    fn into_static(self) -> Static {
        self.clone()
    }
}
