//! Constructors of tensors.

use super::{IntoShape, Tensor, check_shape, one};
use crate::raise::expect;
use crate::{DType, Element, IntoStatic};
use gradloom_ir::{Op, Static};

/// Converts a shape to a static argument.
///
/// The shape is checked here, because an axis that does not fit a static argument has to appear in
/// the message unchanged.
#[track_caller]
pub(crate) fn shape_static(shape: impl IntoShape) -> Static {
    let shape = shape.into_shape();
    expect(check_shape(&shape));
    shape.into_static()
}

/// Constructors.
impl Tensor {
    /// Returns a tensor of this shape and dtype with `value` in every element.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::full([2], 0.5, DType::F32).to_vec::<f32>(), [0.5, 0.5]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype cannot hold the number (`1.5` as an integer), or if the shape is too large or
    /// has too many axes.
    #[track_caller]
    pub fn full(shape: impl IntoShape, value: impl IntoStatic, dtype: DType) -> Tensor {
        one(
            Op::Full,
            [
                shape_static(shape),
                value.into_static(),
                dtype.into_static(),
            ],
            &[],
            &[],
        )
    }

    /// Returns a tensor of zeros of this shape and dtype.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2, 2], DType::I64).to_vec::<i64>(), [0; 4]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape is too large or has too many axes.
    #[track_caller]
    pub fn zeros(shape: impl IntoShape, dtype: DType) -> Tensor {
        Tensor::full(shape, 0i64, dtype)
    }

    /// Returns a tensor of ones of this shape and dtype.
    ///
    /// # Panics
    ///
    /// If the shape is too large or has too many axes.
    #[track_caller]
    pub fn ones(shape: impl IntoShape, dtype: DType) -> Tensor {
        Tensor::full(shape, 1i64, dtype)
    }

    /// Returns the numbers `0, 1, .., len - 1` as a tensor of shape `[len]`, or those of a range.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::arange(3, DType::I64).to_vec::<i64>(), [0, 1, 2]);
    /// assert_eq!(Tensor::arange(-1..2, DType::F32).to_vec::<f32>(), [-1.0, 0.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the length is negative or too large, if the dtype is `bool`, or if it cannot hold the
    /// start of the range.
    #[track_caller]
    pub fn arange(len: impl IntoStatic, dtype: DType) -> Tensor {
        let (start, len) = len.into_start_and_len();
        let numbers = one(Op::Iota, [len, dtype.into_static()], &[], &[]);
        match start {
            0 => numbers,
            start => numbers + Tensor::full([], start, dtype),
        }
    }

    /// Returns the square matrix of shape `[len, len]` with 1 on the diagonal and 0 elsewhere.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::eye(2, DType::F32).to_vec::<f32>(), [1.0, 0.0, 0.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the length is negative or too large.
    #[track_caller]
    pub fn eye(len: impl IntoStatic, dtype: DType) -> Tensor {
        one(Op::Eye, [len.into_static(), dtype.into_static()], &[], &[])
    }
}

/// Returns a tensor of rank 0.
impl<T: Element> From<T> for Tensor {
    fn from(value: T) -> Tensor {
        Tensor::scalar(value)
    }
}

/// Returns a tensor of rank 1.
impl<T: Element> From<Vec<T>> for Tensor {
    fn from(data: Vec<T>) -> Tensor {
        let n = data.len();
        Tensor::from_vec(data, n)
    }
}

/// Returns a tensor of rank 1.
impl<T: Element> From<&[T]> for Tensor {
    fn from(data: &[T]) -> Tensor {
        data.to_vec().into()
    }
}

/// Returns a tensor of rank 1.
impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    fn from(data: [T; N]) -> Tensor {
        Tensor::from_vec(data.to_vec(), N)
    }
}

/// Returns a tensor of rank 2, of shape `[M, N]`.
impl<T: Element, const N: usize, const M: usize> From<[[T; N]; M]> for Tensor {
    fn from(data: [[T; N]; M]) -> Tensor {
        Tensor::from_vec(data.concat(), [M, N])
    }
}

/// Returns a tensor of rank 3, of shape `[L, M, N]`.
impl<T: Element, const N: usize, const M: usize, const L: usize> From<[[[T; N]; M]; L]> for Tensor {
    fn from(data: [[[T; N]; M]; L]) -> Tensor {
        Tensor::from_vec(data.concat().concat(), [L, M, N])
    }
}
