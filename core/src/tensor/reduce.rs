//! Reductions over axes.
//!
//! `axes` is one axis, several (`[0, 2]`), or all (`..`). Negative axes count from the right.

use super::{Tensor, one};
use crate::IntoStatic;
use gradloom_ir::{Op, Static};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $(#[$keep_doc:meta])* $keepdims:ident = $op:ident $likes:tt;)*) => {
        /// Reductions.
        ///
        /// `axes` is one axis, several (`[0, 2]`), or all (`..`). Negative axes count from the
        /// right.
        ///
        /// The result does not have the reduced axes. Methods with the suffix `_keepdims` keep them
        /// with length 1.
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// If an axis is out of range or given twice, or if the op does not accept the
                /// dtype.
                #[track_caller]
                pub fn $name(&self, axes: impl IntoStatic) -> Tensor {
                    one(Op::$op, [axes.into_static(), Static::Bool(false)], &[self], likes!($likes self))
                }

                $(#[$keep_doc])*
                ///
                /// # Panics
                ///
                /// If an axis is out of range or given twice, or if the op does not accept the
                /// dtype.
                #[track_caller]
                pub fn $keepdims(&self, axes: impl IntoStatic) -> Tensor {
                    one(Op::$op, [axes.into_static(), Static::Bool(true)], &[self], likes!($likes self))
                }
            )*
        }
    };
}

macro_rules! likes {
    (like $x:ident) => {
        &[$x.aval()]
    };
    (none $x:ident) => {
        &[]
    };
}

reductions! {
    /// Sum over `axes` of numbers, in the same dtype. The sum of no elements is 0; integers wrap.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(0).to_vec::<f32>(), [4.0, 6.0]);
    /// assert_eq!(x.sum(..).item::<f32>(), 10.0);
    /// ```
    sum,
    /// [`Tensor::sum`] that keeps the reduced axes with length 1.
    sum_keepdims = Sum like;

    /// Mean over `axes` of floats, in the same dtype. The mean of no elements is NaN.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.mean(0).to_vec::<f32>(), [2.0, 4.5]);
    /// assert_eq!(x.mean_keepdims(-1).shape(), [2, 1]);
    /// ```
    mean,
    /// [`Tensor::mean`] that keeps the reduced axes with length 1.
    mean_keepdims = Mean like;

    /// Largest element over `axes` of numbers, in the same dtype. NaN if any element is NaN.
    ///
    /// Equal largest elements share the derivative equally. A reduced axis of length 0 is an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.max(0).to_vec::<f32>(), [3.0, 5.0]);
    /// ```
    max,
    /// [`Tensor::max`] that keeps the reduced axes with length 1.
    max_keepdims = Max none;

    /// Smallest element over `axes` of numbers, in the same dtype. NaN if any element is NaN.
    ///
    /// Equal smallest elements share the derivative equally. A reduced axis of length 0 is an
    /// error.
    min,
    /// [`Tensor::min`] that keeps the reduced axes with length 1.
    min_keepdims = Min none;

    /// Index of the first largest element along one axis, as `i64`.
    ///
    /// The first NaN counts as the largest.
    ///
    /// It has no derivative. An axis of length 0 is an error.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.argmax(-1).to_vec::<i64>(), [1, 1]);
    /// ```
    argmax,
    /// [`Tensor::argmax`] that keeps the axis with length 1.
    argmax_keepdims = Argmax none;

    /// Index of the first smallest element along one axis, as `i64`.
    ///
    /// The first NaN counts as the smallest.
    ///
    /// It has no derivative. An axis of length 0 is an error.
    argmin,
    /// [`Tensor::argmin`] that keeps the axis with length 1.
    argmin_keepdims = Argmin none;

    /// `log(sum(exp(x)))` over `axes` of floats, in the same dtype, without overflow.
    ///
    /// The result for no elements is negative infinity.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1e3f64, 1e3]);
    /// assert_eq!(x.logsumexp(..).item::<f64>(), 1e3 + 2f64.ln());
    /// ```
    logsumexp,
    /// [`Tensor::logsumexp`] that keeps the reduced axes with length 1.
    logsumexp_keepdims = Logsumexp none;
}
