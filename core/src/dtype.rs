//! Rust types of elements.

use crate::DType;
use crate::buffer::Buffer;
use crate::kernel::{Data, DataMut, Zero, bools_of};
use crate::shelf::{Block, Shelf};
use gradloom_ir::Static;
use std::sync::Mutex;

mod sealed {
    pub trait Sealed {}
}

/// Element type of a tensor: `f32`, `f64`, `i32`, `i64` or `bool`.
///
/// ```
/// # use gradloom::{Element, Tensor};
/// fn largest<T: Element + PartialOrd>(x: &Tensor) -> Option<T> {
///     x.to_vec::<T>().into_iter().reduce(|a, b| if b > a { b } else { a })
/// }
/// assert_eq!(largest(&Tensor::from([1i32, 3, 2])), Some(3));
/// ```
pub trait Element:
    sealed::Sealed + Zero + Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static
{
    /// The dtype of this element type.
    const DTYPE: DType;

    #[doc(hidden)]
    fn into_buffer(data: Block<Self>) -> Buffer;
    #[doc(hidden)]
    fn of_buffer(buffer: &Buffer) -> Option<&[Self]>;
    /// Returns the elements of a kernel operand of this dtype.
    #[doc(hidden)]
    fn slice(data: Data<'_>) -> &[Self];
    /// Returns the elements of a kernel result of this dtype.
    #[doc(hidden)]
    fn slice_mut<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self];
    #[doc(hidden)]
    fn shelf() -> &'static Mutex<Shelf<Self>>;
    /// Converts the number that a static argument holds.
    #[doc(hidden)]
    fn from_static(value: &Static) -> Self;
}

/// Returns the elements of a kernel result. Bytes of a `bool` result are normalised first.
macro_rules! elements_mut {
    (bool, $bytes:expr) => {
        bools_of($bytes)
    };
    ($ty:ident, $elements:expr) => {
        $elements
    };
}

macro_rules! element {
    ($($ty:tt = $variant:ident, |$x:ident| $from_f64:expr, |$n:ident| $from_i64:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$variant;
            fn into_buffer(data: Block<Self>) -> Buffer {
                Buffer::$variant(data)
            }
            fn slice(data: Data<'_>) -> &[Self] {
                match data {
                    Data::$variant(data) => data,
                    other => unreachable!("{other:?} is not of {}", Self::DTYPE),
                }
            }
            fn slice_mut<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self] {
                match data {
                    DataMut::$variant(data) => elements_mut!($ty, data),
                    other => unreachable!("{other:?} is not of {}", Self::DTYPE),
                }
            }
            fn shelf() -> &'static Mutex<Shelf<Self>> {
                static SHELF: Mutex<Shelf<$ty>> = Mutex::new(Shelf::new());
                &SHELF
            }
            fn of_buffer(buffer: &Buffer) -> Option<&[Self]> {
                match buffer {
                    Buffer::$variant(data) => Some(data),
                    _ => None,
                }
            }
            fn from_static(value: &Static) -> Self {
                match *value {
                    Static::Float($x) => $from_f64,
                    Static::Int($n) => $from_i64,
                    Static::Bool(b) => {
                        let $n = i64::from(b);
                        $from_i64
                    }
                    ref other => unreachable!("{other} is not a number; the dtype rule refuses it"),
                }
            }
        }
    )*};
}

element! {
    f32 = F32, |x| x as f32, |n| n as f32;
    f64 = F64, |x| x, |n| n as f64;
    i32 = I32, |x| x as i32, |n| n as i32;
    i64 = I64, |x| x as i64, |n| n;
    bool = Bool, |x| x != 0.0, |n| n != 0;
}
