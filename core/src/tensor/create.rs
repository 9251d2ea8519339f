//! New tensors.

use super::{IntoShape, Tensor, check_shape, one};
use crate::record::expect;
use crate::{DType, Element, IntoStatic};
use gradloom_ir::{Op, Static};

/// Checked here, because an axis too long for a static argument has to be shown as it was given.
#[track_caller]
pub(crate) fn shape_static(shape: impl IntoShape) -> Static {
    let shape = shape.into_shape();
    expect(check_shape(&shape));
    shape.into_static()
}

/// New tensors.
impl Tensor {
    /// One number in a shape.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::full([2], 0.5, DType::F32).to_vec::<f32>(), [0.5, 0.5]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number is not one of the dtype (`1.5` as an integer), or the shape cannot be addressed.
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

    /// Zeros.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2, 2], DType::I64).to_vec::<i64>(), [0; 4]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape cannot be addressed.
    #[track_caller]
    pub fn zeros(shape: impl IntoShape, dtype: DType) -> Tensor {
        Tensor::full(shape, 0i64, dtype)
    }

    /// Ones.
    ///
    /// # Panics
    ///
    /// If the shape cannot be addressed.
    #[track_caller]
    pub fn ones(shape: impl IntoShape, dtype: DType) -> Tensor {
        Tensor::full(shape, 1i64, dtype)
    }

    /// `0, 1, 2, ..` of a length.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::arange(3, DType::I64).to_vec::<i64>(), [0, 1, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the length cannot be addressed, or the dtype is `bool`.
    #[track_caller]
    pub fn arange(len: impl IntoStatic, dtype: DType) -> Tensor {
        one(Op::Iota, [len.into_static(), dtype.into_static()], &[], &[])
    }

    /// One number in the shape and dtype of this tensor, whose values are not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.full_like(7).to_vec::<f32>(), [7.0, 7.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number is not one of the dtype.
    #[track_caller]
    pub fn full_like(&self, value: impl IntoStatic) -> Tensor {
        one(Op::FullLike, [value.into_static()], &[], &[self.aval()])
    }

    /// Zeros in the shape and dtype of this tensor, whose values are not read.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0i64)
    }

    /// Ones in the shape and dtype of this tensor, whose values are not read.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1i64)
    }
}

/// A tensor of rank 0.
impl<T: Element> From<T> for Tensor {
    fn from(value: T) -> Tensor {
        Tensor::scalar(value)
    }
}

/// A tensor of rank 1.
impl<T: Element> From<Vec<T>> for Tensor {
    fn from(data: Vec<T>) -> Tensor {
        let n = data.len();
        Tensor::from_vec(data, n)
    }
}

/// A tensor of rank 1.
impl<T: Element> From<&[T]> for Tensor {
    fn from(data: &[T]) -> Tensor {
        data.to_vec().into()
    }
}

/// A tensor of rank 1.
impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    fn from(data: [T; N]) -> Tensor {
        Tensor::from_vec(data.to_vec(), N)
    }
}

/// A tensor of rank 2.
impl<T: Element, const N: usize, const M: usize> From<[[T; N]; M]> for Tensor {
    fn from(data: [[T; N]; M]) -> Tensor {
        Tensor::from_vec(data.concat(), [M, N])
    }
}

/// A tensor of rank 3.
impl<T: Element, const N: usize, const M: usize, const L: usize> From<[[[T; N]; M]; L]> for Tensor {
    fn from(data: [[[T; N]; M]; L]) -> Tensor {
        Tensor::from_vec(data.concat().concat(), [L, M, N])
    }
}
