//! Conversions to static arguments.

use crate::DType;
use gradloom_ir::Static;
use std::ops::RangeFull;

/// Conversion to a static argument: axes, a shape, a number or a dtype.
///
/// Axes are one axis, several, or all (`..`).
///
/// ```
/// # use gradloom::{DType, Tensor};
/// let x = Tensor::ones([2, 3, 4], DType::F32);
/// assert_eq!(x.sum(-1).shape(), [2, 3]);
/// assert_eq!(x.sum([0, 2]).shape(), [3]);
/// assert_eq!(x.sum(vec![0, 2]).shape(), [3]);
/// assert_eq!(x.sum(..).shape(), []);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an axis nor a list of axes, a shape, a number or a dtype",
    label = "not a static argument",
    note = "write `1`, `[0, -1]`, `..` for all axes, or `DType::F32`; lists may be arrays, slices and vectors"
)]
pub trait IntoStatic {
    /// Returns the static argument.
    fn into_static(self) -> Static;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
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
                Static::Ints(self.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect())
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
