//! Products, normalisations and losses.

use super::{Branch, Tensor, one, plain};
use crate::{DType, IntoStatic};
use gradloom_ir::{Op, Static};

/// Products, normalisations and losses.
impl Tensor {
    /// The matrix product, as NumPy's `matmul`: the last two axes are matrices, the axes before them broadcast, and a
    /// tensor of rank 1 is a row on the left and a column on the right.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matmul(Tensor::from([1.0f32, 10.0])).to_vec::<f32>(), [21.0, 43.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a rank is 0, or the inner dimensions or the dtypes differ.
    #[track_caller]
    pub fn matmul(&self, other: impl AsRef<Tensor>) -> Tensor {
        let other = other.as_ref();
        one(Op::Matmul, [], &[self, other], &[self.aval(), other.aval()])
    }

    /// `exp(x) / sum(exp(x))` along an axis, without overflow.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32, 0.0], [1000.0, 0.0]]);
    /// assert_eq!(x.softmax(-1).to_vec::<f32>(), [0.5, 0.5, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis or the dtype is no float.
    #[track_caller]
    pub fn softmax(&self, axis: impl IntoStatic) -> Tensor {
        one(Op::Softmax, [axis.into_static()], &[self], &[])
    }

    /// The logarithm of [`Tensor::softmax`], with all its digits.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1000.0f32, 0.0]);
    /// assert_eq!(x.log_softmax(0).to_vec::<f32>(), [0.0, -1000.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis or the dtype is no float.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl IntoStatic) -> Tensor {
        one(Op::LogSoftmax, [axis.into_static()], &[self], &[])
    }

    /// The mean cross entropy of rows of logits (shape `[.., C]`) against integer labels (shape `[..]`), of rank 0.
    ///
    /// A label outside `0..C` is an error when the value is computed.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let logits = Tensor::from([[0.0f64, 0.0], [0.0, 0.0]]);
    /// let loss = logits.cross_entropy(&Tensor::from([0i64, 1]));
    /// assert!((loss.item::<f64>() - 2f64.ln()).abs() < 1e-15);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shapes do not belong together or the labels are no integers.
    #[track_caller]
    pub fn cross_entropy(&self, labels: impl AsRef<Tensor>) -> Tensor {
        plain(Op::CrossEntropy, &[self, labels.as_ref()])
    }

    /// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis, with the biased variance
    /// (Ba, Kiros, Hinton: Layer Normalization, 2016).
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 3.0], [-5.0, 5.0]]);
    /// let (weight, bias) = (Tensor::from([1.0f32, 1.0]), Tensor::from([0.0f32, 10.0]));
    /// assert_eq!(x.layer_norm(&weight, &bias, 0.0).to_vec::<f32>(), [-1.0, 11.0, -1.0, 11.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `weight` or `bias` does not have the length of the last axis.
    #[track_caller]
    pub fn layer_norm(
        &self,
        weight: impl AsRef<Tensor>,
        bias: impl AsRef<Tensor>,
        eps: impl IntoStatic,
    ) -> Tensor {
        one(
            Op::LayerNorm,
            [eps.into_static()],
            &[self, weight.as_ref(), bias.as_ref()],
            &[],
        )
    }

    /// `x / sqrt(mean(x^2) + eps) * weight` over the last axis
    /// (Zhang, Sennrich: Root Mean Square Layer Normalization, 2019).
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, -3.0]);
    /// assert_eq!(x.rms_norm(&Tensor::from([1.0f32, 2.0]), 0.0).to_vec::<f32>(), [1.0, -2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `weight` does not have the length of the last axis.
    #[track_caller]
    pub fn rms_norm(&self, weight: impl AsRef<Tensor>, eps: impl IntoStatic) -> Tensor {
        one(
            Op::RmsNorm,
            vec![eps.into_static()],
            &[self, weight.as_ref()],
            &[],
        )
    }

    /// `(x - mean) / sqrt(var + eps)` over axes, with the biased variance.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, -5.0], [3.0, 5.0]]);
    /// assert_eq!(x.normalize(0, 0.0).to_vec::<f32>(), [-1.0, -1.0, 1.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis or the dtype is no float.
    #[track_caller]
    pub fn normalize(&self, axes: impl IntoStatic, eps: impl IntoStatic) -> Tensor {
        one(
            Op::Normalize,
            [axes.into_static(), eps.into_static()],
            &[self],
            &[],
        )
    }

    /// `softmax(q k^T / sqrt(d)) v` of queries `[.., n, d]`, which this is, keys `[.., m, d]` and values `[.., m, e]`
    /// (Vaswani et al.: Attention Is All You Need, 2017): for each query the mean of the values, weighed by how well their
    /// keys fit it. The axes before the last two are the same for all three; `broadcast_to` repeats what several heads share.
    ///
    /// The weights, `[.., n, m]`, are never in memory together, neither here nor in the first derivative; a second derivative
    /// holds them. For another scale, multiply the queries by it, times `sqrt(d)`. Where there are no keys, the result is 0.
    /// [`Tensor::masked_attention`] leaves keys out.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let queries = Tensor::from([[0.0f32, 0.0]]);
    /// let keys = Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0]]);
    /// assert_eq!(queries.attention(&keys, &values).to_vec::<f32>(), [3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shapes do not belong together, or the dtypes differ or are no floats.
    #[track_caller]
    pub fn attention(&self, keys: impl AsRef<Tensor>, values: impl AsRef<Tensor>) -> Tensor {
        let args = [self, keys.as_ref(), values.as_ref()];
        one(Op::Attention, vec![Static::Bool(false)], &args, &[])
    }

    /// [`Tensor::attention`] in which query `i` sees the keys from 0 to `i` only, as if there were no others.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32], [0.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0]]);
    /// assert_eq!(x.causal_attention(&x, &values).to_vec::<f32>(), [2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::attention`].
    #[track_caller]
    pub fn causal_attention(&self, keys: impl AsRef<Tensor>, values: impl AsRef<Tensor>) -> Tensor {
        let args = [self, keys.as_ref(), values.as_ref()];
        one(Op::Attention, vec![Static::Bool(true)], &args, &[])
    }

    /// [`Tensor::attention`] in which a query sees only the keys where the mask is true, as if there were no others. A query that
    /// sees none has the result 0, and all its derivatives are 0.
    ///
    /// The mask is of bools. Where queries are `[.., n, d]` and keys `[.., m, d]`, its shape is one that broadcasts to
    /// `[.., n, m]`: aligned from the right, each axis is as long there or 1, and axes on the left may be missing. So with queries of
    /// `[batch, heads, n, d]`, a mask of `[batch, 1, 1, m]` leaves out the keys that fill up a batch, one of `[n, m]`, such as
    /// a window that slides, is the same for all heads, and `[batch, heads, n, m]` says all. Nothing is copied for what it repeats.
    /// Of blocks of queries and keys in which nothing is seen nothing is computed.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32], [0.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0]]);
    /// let mask = Tensor::from([[true, true], [false, true]]);
    /// assert_eq!(x.masked_attention(&x, &values, &mask).to_vec::<f32>(), [3.0, 4.0]);
    ///
    /// // Both queries see the first key only.
    /// let padding = Tensor::from([true, false]);
    /// assert_eq!(x.masked_attention(&x, &values, padding).to_vec::<f32>(), [2.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::attention`], and if the mask is not of bools or does not broadcast to `[.., n, m]`.
    #[track_caller]
    pub fn masked_attention(
        &self,
        keys: impl AsRef<Tensor>,
        values: impl AsRef<Tensor>,
        mask: impl AsRef<Tensor>,
    ) -> Tensor {
        let args = [self, keys.as_ref(), values.as_ref(), mask.as_ref()];
        one(Op::Attention, vec![Static::Bool(false)], &args, &[])
    }

    /// [`Tensor::causal_attention`] with a mask as that of [`Tensor::masked_attention`]: query `i` sees those of the keys from 0 to
    /// `i` where the mask is true.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32], [0.0], [0.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0], [6.0]]);
    /// let mask = Tensor::from([false, true, true]);
    /// assert_eq!(x.masked_causal_attention(&x, &values, mask).to_vec::<f32>(), [0.0, 4.0, 5.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::masked_attention`].
    #[track_caller]
    pub fn masked_causal_attention(
        &self,
        keys: impl AsRef<Tensor>,
        values: impl AsRef<Tensor>,
        mask: impl AsRef<Tensor>,
    ) -> Tensor {
        let args = [self, keys.as_ref(), values.as_ref(), mask.as_ref()];
        one(Op::Attention, vec![Static::Bool(true)], &args, &[])
    }

    /// A new last axis of length `classes` that is 1 at the label and 0 elsewhere.
    ///
    /// A label outside `0..classes` is an error when the value is computed, as in [`Tensor::cross_entropy`].
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let labels = Tensor::from([2i64, 0]);
    /// assert_eq!(labels.one_hot(3, DType::F32).to_vec::<f32>(), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the labels are no integers.
    #[track_caller]
    pub fn one_hot(&self, classes: impl IntoStatic, dtype: DType) -> Tensor {
        one(
            Op::OneHot,
            [classes.into_static(), dtype.into_static()],
            &[self],
            &[],
        )
    }

    /// Elements of `x` where this tensor of bools is true, of `y` elsewhere. All three broadcast. One of `x` and `y` may be a
    /// number.
    ///
    /// ```
    /// use gradloom::Tensor;
    ///
    /// let x = Tensor::from([1.0f32, -2.0]);
    /// assert_eq!(x.gt(0.0).select(&x, 0.0).to_vec::<f32>(), [1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If this is no tensor of bools, the shapes do not broadcast, the dtypes differ, or the number is not one of the dtype.
    #[track_caller]
    pub fn select<Y>(&self, x: impl Branch<Y>, y: Y) -> Tensor {
        x.choose(self, y)
    }

    /// The elements in another dtype. A float becomes an integer by truncation, saturating, and NaN becomes 0; a number
    /// becomes a bool by comparison with 0. An `i64` that is no `i32` wraps. A cast to an integer or a bool has no derivative.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::from([1.9f32, -1.9, f32::NAN]);
    /// assert_eq!(x.cast(DType::I64).to_vec::<i64>(), [1, -1, 0]);
    /// ```
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        one(Op::Cast, [dtype.into_static()], &[self], &[self.aval()])
    }
}
