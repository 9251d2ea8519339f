//! Reading of elements, and conversions from and to `ndarray`. Reading evaluates.

use super::{IntoShape, Tensor, check_shape};
use crate::element::{elements, from_le_bytes, le_bytes};
use crate::graph::recording;
use crate::graph::run::realise;
use crate::graph::value::ValueSource;
use crate::raise::expect;
use crate::{Aval, DType, Element, Error, Result};
use gradloom_ir::Op;
use gradloom_kernels::memory::Buffer;
use half::{bf16, f16};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};
use std::iter;
use std::sync::Arc;

/// Methods that read elements. Each computes the tensor first, if it is a promise.
///
/// They read all elements, those of the whole [batch prefix](Tensor::batch_dims).
impl Tensor {
    /// Returns the elements in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.transpose().to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `T` is not the dtype of the tensor, or if it cannot be computed (see
    /// [`evaluate`](crate::evaluate())). [`Tensor::try_to_vec`] returns errors instead.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        expect(self.try_to_vec())
    }

    /// Returns the elements in row-major order, or an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let error = x.try_to_vec::<f64>().unwrap_err();
    /// assert_eq!(error.to_string(), "cannot read f32[2] as f64; cast it first, as in `x.cast(DType::F64)`");
    /// ```
    ///
    /// # Errors
    ///
    /// If `T` is not the dtype of the tensor, or if it cannot be computed (see
    /// [`evaluate`](crate::evaluate())).
    pub fn try_to_vec<T: Element>(&self) -> Result<Vec<T>> {
        Ok(elements::<T>(&*self.read::<T>()?).to_vec())
    }

    /// Returns the element of a tensor with exactly one element, of any rank.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).sum(..).item::<i64>(), 6);
    /// ```
    ///
    /// # Panics
    ///
    /// If the tensor does not have exactly one element, if `T` is not its dtype, or if it cannot be
    /// computed (see [`evaluate`](crate::evaluate())). [`Tensor::try_item`] returns errors instead.
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        expect(self.try_item())
    }

    /// Returns the element of a tensor with exactly one element, or an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert!(Tensor::from([1.0f32, 2.0]).try_item::<f32>().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If the tensor does not have exactly one element, if `T` is not its dtype, or if it cannot be
    /// computed (see [`evaluate`](crate::evaluate())).
    pub fn try_item<T: Element>(&self) -> Result<T> {
        if self.physical_shape().iter().any(|len| *len != 1) {
            return Err(Error::NotAnItem {
                aval: self.aval().clone(),
            });
        }
        Ok(elements::<T>(&*self.read::<T>()?)[0])
    }

    /// Returns the elements in row-major order as little-endian bytes. A `bool` is a byte, 0 or 1.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert_eq!(Tensor::from([1i32, 258]).to_le_bytes(), [1, 0, 0, 0, 2, 1, 0, 0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the tensor cannot be computed (see [`evaluate`](crate::evaluate())). [`Tensor::try_to_le_bytes`] returns
    /// errors instead.
    #[track_caller]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        expect(self.try_to_le_bytes())
    }

    /// Returns the elements in row-major order as little-endian bytes, or an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert_eq!(Tensor::from([true, false]).try_to_le_bytes()?, [1, 0]);
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the tensor cannot be computed (see [`evaluate`](crate::evaluate())).
    pub fn try_to_le_bytes(&self) -> Result<Vec<u8>> {
        let buffer = self.buffer()?;
        Ok(le_bytes(&buffer, iter::once(0..buffer.len())))
    }

    /// Returns a tensor of the elements that little-endian bytes hold, in row-major order. A byte of a `bool` is
    /// false if it is 0.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = Tensor::try_from_le_bytes(DType::F32, &x.to_le_bytes(), [2, 2])?;
    /// assert_eq!(y.to_vec::<f32>(), x.to_vec::<f32>());
    ///
    /// let error = Tensor::try_from_le_bytes(DType::F64, &[0; 12], [2]).unwrap_err();
    /// assert_eq!(error.to_string(), "12 bytes are not f64[2], which has 16");
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the number of bytes is not that of the elements, or if the shape is too large or has too many axes.
    pub fn try_from_le_bytes(dtype: DType, bytes: &[u8], shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape();
        check_shape(&shape)?;
        let numel: usize = shape.iter().product();
        let aval = Aval::new(dtype, shape);
        if numel.checked_mul(dtype.size()) != Some(bytes.len()) {
            return Err(Error::Bytes {
                len: bytes.len(),
                aval,
            });
        }
        let buffer = Arc::new(from_le_bytes(dtype, bytes));
        Ok(Tensor::new(&aval, ValueSource::Elements(buffer)))
    }

    /// Copies the elements to an `ndarray` array of the same physical shape.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.to_ndarray::<f32>()[[1, 0]], 3.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If `T` is not the dtype of the tensor, or if it cannot be computed (see
    /// [`evaluate`](crate::evaluate())).
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> ArrayD<T> {
        ArrayD::from_shape_vec(IxDyn(self.physical_shape()), self.to_vec())
            .expect("the number of elements is the product of the shape")
    }

    /// Copies an `ndarray` array, of any memory layout, to a tensor of the same shape.
    ///
    /// # Panics
    ///
    /// If the array has more axes than a tensor may have.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let array = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let x = Tensor::from_ndarray(&array.t());
    /// assert_eq!(x.to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
    /// assert_eq!(x.to_ndarray::<f32>(), array.t().into_dyn());
    /// ```
    #[track_caller]
    pub fn from_ndarray<T: Element, S: Data<Elem = T>, D: Dimension>(
        array: &ArrayBase<S, D>,
    ) -> Tensor {
        Tensor::from_vec(array.iter().copied().collect(), array.shape())
    }

    /// Computes the tensor if necessary, and returns its buffer if the dtype is that of `T`.
    fn read<T: Element>(&self) -> Result<Arc<Buffer>> {
        if self.dtype() != T::DTYPE {
            return Err(Error::ElementType {
                aval: self.aval().clone(),
                asked: T::DTYPE,
            });
        }
        self.buffer()
    }

    /// Computes the tensor if necessary, and returns its buffer.
    pub(crate) fn buffer(&self) -> Result<Arc<Buffer>> {
        // The rest of a recorded function may depend on the values read, so its plan cannot be
        // reused.
        recording::impure();
        let value = &self.0;
        if self.dtype().is_float() && value.is_in_scope() && value.op != Op::StopGradient {
            recording::read(value);
        }
        loop {
            let value = self.physical_value();
            if let Some(buffer) = value.detach_if_ready() {
                return Ok(buffer.clone());
            }
            realise(std::slice::from_ref(value))?;
        }
    }
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl TryFrom<&Tensor> for $ty {
            type Error = Error;

            /// Returns the element of a tensor with exactly one element, see [`Tensor::try_item`].
            fn try_from(x: &Tensor) -> Result<$ty> {
                x.try_item()
            }
        }
    )*};
}
numbers! { f32 f64 bf16 f16 i32 i64 i8 u8 bool }
