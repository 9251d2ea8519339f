//! Rust types of elements.

use crate::DType;

/// Element type of a tensor: `f32`, `f64`, `i32`, `i64` or `bool`.
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

elements! { f32 f64 i32 i64 bool }
