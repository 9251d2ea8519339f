//! Reductions over axes.
//!
//! `axes` is an axis, several (`[0, 2]`), or all (`..`); an axis below 0 counts from the right.

use super::{Tensor, one};
use crate::IntoStatic;
use gradloom_ir::{Op, Static};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $(#[$keep_doc:meta])* $keepdims:ident = $op:ident $likes:tt;)*) => {
        /// Reductions. `axes` is an axis, several (`[0, 2]`), or all (`..`); an axis below 0 counts from the right.
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// If there is no such axis, an axis is named twice, or the dtype is not one that the op takes.
                #[track_caller]
                pub fn $name(&self, axes: impl IntoStatic) -> Tensor {
                    one(Op::$op, [axes.into_static(), Static::Bool(false)], &[self], likes!($likes self))
                }

                $(#[$keep_doc])*
                ///
                /// # Panics
                ///
                /// As without `_keepdims`.
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
    /// The sum over axes; that of nothing is 0. Integers wrap.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(0).to_vec::<f32>(), [4.0, 6.0]);
    /// assert_eq!(x.sum(..).item::<f32>(), 10.0);
    /// ```
    sum,
    /// The sum over axes, which stay with length 1.
    sum_keepdims = Sum like;

    /// The mean over axes of floats; that of nothing is NaN.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.mean(0).to_vec::<f32>(), [2.0, 4.5]);
    /// assert_eq!(x.mean_keepdims(-1).shape(), [2, 1]);
    /// ```
    mean,
    /// The mean over axes, which stay with length 1.
    mean_keepdims = Mean like;

    /// The largest element over axes; NaN if there is one. Ties share the derivative equally.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.max(0).to_vec::<f32>(), [3.0, 5.0]);
    /// ```
    max,
    /// The largest element over axes, which stay with length 1.
    max_keepdims = Max none;

    /// The smallest element over axes; NaN if there is one. Ties share the derivative equally.
    min,
    /// The smallest element over axes, which stay with length 1.
    min_keepdims = Min none;

    /// The index of the first largest element along an axis, as `i64`. The first NaN counts as the largest.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.argmax(-1).to_vec::<i64>(), [1, 1]);
    /// ```
    argmax,
    /// The index of the first largest element along an axis, which stays with length 1.
    argmax_keepdims = Argmax none;

    /// The index of the first smallest element along an axis, as `i64`. The first NaN counts as the smallest.
    argmin,
    /// The index of the first smallest element along an axis, which stays with length 1.
    argmin_keepdims = Argmin none;

    /// `log(sum(exp(x)))` over axes, without overflow; that of nothing is minus infinity.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1e3f64, 1e3]);
    /// assert_eq!(x.logsumexp(..).item::<f64>(), 1e3 + 2f64.ln());
    /// ```
    logsumexp,
    /// `log(sum(exp(x)))` over axes, which stay with length 1.
    logsumexp_keepdims = Logsumexp none;
}
