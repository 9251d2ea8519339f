//! The Rust types of elements.

use crate::DType;
use crate::buffer::Buffer;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensors have as elements: `f32`, `f64`, `i32`, `i64`, `bool`.
pub trait Element:
    sealed::Sealed + Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static
{
    /// Its dtype.
    const DTYPE: DType;

    #[doc(hidden)]
    fn into_buffer(data: Vec<Self>) -> Buffer;
    #[doc(hidden)]
    fn of_buffer(buffer: &Buffer) -> Option<&[Self]>;
}

macro_rules! element {
    ($($ty:ident = $variant:ident,)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$variant;
            fn into_buffer(data: Vec<Self>) -> Buffer {
                Buffer::$variant(data)
            }
            fn of_buffer(buffer: &Buffer) -> Option<&[Self]> {
                match buffer {
                    Buffer::$variant(data) => Some(data),
                    _ => None,
                }
            }
        }
    )*};
}

element! { f32 = F32, f64 = F64, i32 = I32, i64 = I64, bool = Bool, }
