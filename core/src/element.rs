//! Rust types of elements.

use crate::DType;
use gradloom_kernels::memory::Buffer;
use half::{bf16, f16};
use std::ops::Range;

/// Element type of a tensor: `f32`, `f64`, [`bf16`](crate::bf16), [`f16`](crate::f16), `i32`, `i64`, `i8`,
/// `u8` or `bool`.
///
/// ```
/// # use gradloom::{Element, Tensor};
/// fn largest<T: Element + PartialOrd>(x: &Tensor) -> Option<T> {
///     x.to_vec::<T>().into_iter().reduce(|a, b| if b > a { b } else { a })
/// }
/// assert_eq!(largest(&Tensor::from([1i32, 3, 2])), Some(3));
/// ```
// A trait of this crate, because `From<T> for Tensor` may not overlap with `From<Vec<T>>`: rustc lets a
// trait of another crate be implemented for vectors later.
pub trait Element: gradloom_kernels::memory::Element {
    /// The dtype of this element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($ty:ty)*) => {$(
        impl Element for $ty {
            const DTYPE: DType = <$ty as gradloom_kernels::memory::Element>::TYPE;
        }
    )*};
}

elements! { f32 f64 bf16 f16 i32 i64 i8 u8 bool }

/// Returns the elements of a buffer.
pub(crate) fn elements<T: Element>(buffer: &Buffer) -> &[T] {
    T::of_buffer(buffer).expect("a buffer has elements of its dtype")
}

/// Returns the elements at some positions of a buffer as little-endian bytes.
pub(crate) fn le_bytes(buffer: &Buffer, rows: impl Iterator<Item = Range<usize>>) -> Vec<u8> {
    fn bytes<T: Element, const N: usize>(
        buffer: &Buffer,
        rows: impl Iterator<Item = Range<usize>>,
        of: impl Fn(T) -> [u8; N],
    ) -> Vec<u8> {
        let elements = elements(buffer);
        rows.flat_map(|row| &elements[row])
            .flat_map(|x: &T| of(*x))
            .collect()
    }
    match buffer.dtype() {
        DType::F32 => bytes(buffer, rows, f32::to_le_bytes),
        DType::F64 => bytes(buffer, rows, f64::to_le_bytes),
        DType::BF16 => bytes(buffer, rows, bf16::to_le_bytes),
        DType::F16 => bytes(buffer, rows, f16::to_le_bytes),
        DType::I32 => bytes(buffer, rows, i32::to_le_bytes),
        DType::I64 => bytes(buffer, rows, i64::to_le_bytes),
        DType::I8 => bytes(buffer, rows, i8::to_le_bytes),
        DType::U8 => bytes(buffer, rows, u8::to_le_bytes),
        DType::Bool => bytes(buffer, rows, |x: bool| [u8::from(x)]),
    }
}

/// Returns a buffer of the elements that little-endian bytes hold. Bytes after the last whole element are left out.
pub(crate) fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Buffer {
    fn read<T: Element, const N: usize>(bytes: &[u8], of: impl Fn([u8; N]) -> T) -> Buffer {
        let (elements, _) = bytes.as_chunks::<N>();
        let elements: Vec<T> = elements.iter().map(|x| of(*x)).collect();
        T::into_buffer(elements.into())
    }
    match dtype {
        DType::F32 => read(bytes, f32::from_le_bytes),
        DType::F64 => read(bytes, f64::from_le_bytes),
        DType::BF16 => read(bytes, bf16::from_le_bytes),
        DType::F16 => read(bytes, f16::from_le_bytes),
        DType::I32 => read(bytes, i32::from_le_bytes),
        DType::I64 => read(bytes, i64::from_le_bytes),
        DType::I8 => read(bytes, i8::from_le_bytes),
        DType::U8 => read(bytes, u8::from_le_bytes),
        DType::Bool => read(bytes, |[x]| x != 0),
    }
}
