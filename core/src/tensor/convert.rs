//! Elements out of tensors, and arrays of `ndarray` into and out of them. Reading evaluates.

use super::Tensor;
use crate::buffer::Buffer;
use crate::call;
use crate::evaluate::realise;
use crate::record::expect;
use crate::{Element, Error, Result};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};
use std::sync::Arc;

/// Reading. What has not been computed yet is computed now.
impl Tensor {
    /// The elements in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.transpose().to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the elements have another type; see also [`evaluate`](crate::evaluate()).
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        expect(self.try_to_vec())
    }

    /// The elements in row-major order.
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
    /// If the elements have another type; see also [`evaluate`](crate::evaluate()).
    pub fn try_to_vec<T: Element>(&self) -> Result<Vec<T>> {
        Ok(elements::<T>(self, &*self.read::<T>()?).to_vec())
    }

    /// The only element.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).sum(..).item::<i64>(), 6);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is more than one element or none, or it has another type; see also
    /// [`evaluate`](crate::evaluate()).
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        expect(self.try_item())
    }

    /// The only element.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert!(Tensor::from([1.0f32, 2.0]).try_item::<f32>().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If there is more than one element or none, or it has another type; see also
    /// [`evaluate`](crate::evaluate()).
    pub fn try_item<T: Element>(&self) -> Result<T> {
        if self.numel() != 1 {
            return Err(Error::NotAnItem {
                aval: self.aval().clone(),
            });
        }
        Ok(elements::<T>(self, &*self.read::<T>()?)[0])
    }

    /// The elements as an array of `ndarray`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.to_ndarray::<f32>()[[1, 0]], 3.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If the elements have another type; see also [`evaluate`](crate::evaluate()).
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> ArrayD<T> {
        ArrayD::from_shape_vec(IxDyn(self.shape()), self.to_vec())
            .expect("a tensor has as many elements as its shape says")
    }

    /// A tensor of the elements of an array of `ndarray`, in whatever order they lie in memory.
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

    /// The elements, computed if need be, and known to be of type `T`.
    fn read<T: Element>(&self) -> Result<Arc<Buffer>> {
        if self.dtype() != T::DTYPE {
            return Err(Error::ElementType {
                aval: self.aval().clone(),
                asked: T::DTYPE,
            });
        }
        self.buffer()
    }

    /// The elements, computed if need be.
    pub(crate) fn buffer(&self) -> Result<Arc<Buffer>> {
        // What a function does after it has looked at values depends on them.
        call::impure();
        loop {
            if let Some(buffer) = self.0.settle() {
                return Ok(buffer.clone());
            }
            realise(std::slice::from_ref(&*self.0))?;
        }
    }
}

fn elements<'a, T: Element>(x: &Tensor, buffer: &'a Buffer) -> &'a [T] {
    T::of_buffer(buffer).unwrap_or_else(|| unreachable!("the buffer of {} has its dtype", x.aval()))
}
