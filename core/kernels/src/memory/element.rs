//! Rust types of elements.

use crate::memory::aligned_vec::Zero;
use crate::memory::buffer::Buffer;
use crate::memory::data::{Data, DataMut, bools_of};
use crate::memory::pool::{BufferPool, PooledVec};
use crate::memory::words::Payload;
use gradloom_ir::DType;
use gradloom_ir::Static;
use half::{bf16, f16};
use std::sync::Mutex;

mod sealed {
    pub trait Sealed {}
}

/// Element type of a kernel, one for each dtype.
pub trait Element: sealed::Sealed + Payload + Zero + PartialEq + std::fmt::Debug {
    /// Dtype of the elements.
    const TYPE: DType;

    fn into_buffer(data: PooledVec<Self>) -> Buffer;
    fn of_buffer(buffer: &Buffer) -> Option<&[Self]>;
    /// Returns the elements of a kernel operand of this dtype.
    fn slice(data: Data<'_>) -> &[Self];
    /// Returns the elements of a kernel result of this dtype.
    fn slice_mut<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self];
    fn pool() -> &'static Mutex<BufferPool<Self>>;
    /// Converts the number that a static argument holds.
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
            const TYPE: DType = DType::$variant;
            fn into_buffer(data: PooledVec<Self>) -> Buffer {
                Buffer::$variant(data)
            }
            fn slice(data: Data<'_>) -> &[Self] {
                match data {
                    Data::$variant(data) => data,
                    other => unreachable!("{other:?} is not of {}", Self::TYPE),
                }
            }
            fn slice_mut<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self] {
                match data {
                    DataMut::$variant(data) => elements_mut!($ty, data),
                    other => unreachable!("{other:?} is not of {}", Self::TYPE),
                }
            }
            fn pool() -> &'static Mutex<BufferPool<Self>> {
                static POOL: Mutex<BufferPool<$ty>> = Mutex::new(BufferPool::new());
                &POOL
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
    bf16 = BF16, |x| bf16::from_f64(x), |n| bf16::from_f64(n as f64);
    f16 = F16, |x| f16::from_f64(x), |n| f16::from_f64(n as f64);
    i32 = I32, |x| x as i32, |n| n as i32;
    i64 = I64, |x| x as i64, |n| n;
    i8 = I8, |x| x as i8, |n| n as i8;
    u8 = U8, |x| x as u8, |n| n as u8;
    bool = Bool, |x| x != 0.0, |n| n != 0;
}
