//! Products, normalisations, attention and losses.

use super::{Branch, Tensor, one, plain};
use crate::{DType, IntoStatic};
use gradloom_ir::{Op, Static};

/// Products, normalisations, attention and losses.
impl Tensor {
    /// Matrix product of `[.., n, k]` and `[.., k, m]`, of shape `[.., n, m]`.
    ///
    /// As in NumPy's `matmul`, the axes before the last two broadcast. A tensor of rank 1 is a row
    /// on the left and a column on the right, and the result does not have that axis. The dtype is
    /// a number, the same for both.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matmul(Tensor::from([1.0f32, 10.0])).to_vec::<f32>(), [21.0, 43.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a rank is 0, the inner lengths or the dtypes differ, the other axes do not broadcast, or
    /// the dtype is `bool`.
    #[track_caller]
    pub fn matmul(&self, other: impl AsRef<Tensor>) -> Tensor {
        let other = other.as_ref();
        one(Op::Matmul, [], &[self, other], &[self.aval(), other.aval()])
    }

    /// `exp(x) / sum(exp(x))` along an axis, without overflow. Shape and dtype are those of `self`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32, 0.0], [1000.0, 0.0]]);
    /// assert_eq!(x.softmax(-1).to_vec::<f32>(), [0.5, 0.5, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or the dtype is not a float.
    #[track_caller]
    pub fn softmax(&self, axis: impl IntoStatic) -> Tensor {
        one(Op::Softmax, [axis.into_static()], &[self], &[])
    }

    /// `x - log(sum(exp(x)))` along an axis: the logarithm of [`Tensor::softmax`].
    ///
    /// More precise than the logarithm of the softmax. Shape and dtype are those of `self`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1000.0f32, 0.0]);
    /// assert_eq!(x.log_softmax(0).to_vec::<f32>(), [0.0, -1000.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or the dtype is not a float.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl IntoStatic) -> Tensor {
        one(Op::LogSoftmax, [axis.into_static()], &[self], &[])
    }

    /// `mean(logsumexp(x) - x[label])` over all rows: the mean cross entropy of logits and labels.
    ///
    /// The logits are floats of shape `[.., C]`, the labels integers of shape `[..]`. The result
    /// has rank 0 and the dtype of the logits; it is NaN if there are no rows.
    ///
    /// A label outside of `0..C` is an error when the value is computed.
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
    /// If the logits have rank 0, the shape of the labels is not that of the rows, the logits are
    /// not floats, or the labels are not integers.
    #[track_caller]
    pub fn cross_entropy(&self, labels: impl AsRef<Tensor>) -> Tensor {
        plain(Op::CrossEntropy, &[self, labels.as_ref()])
    }

    /// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis, with the biased variance.
    ///
    /// `weight` and `bias` have the length of the last axis and the same float dtype as `self`.
    /// Shape and dtype of the result are those of `self`. See Ba, Kiros, Hinton: Layer
    /// Normalization, 2016.
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
    /// If the rank is 0, `weight` or `bias` does not have the shape `[n]` of the last axis, or the
    /// dtypes differ or are not floats.
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

    /// `x / sqrt(mean(x^2) + eps) * weight` over the last axis.
    ///
    /// `weight` has the length of the last axis and the same float dtype as `self`. Shape and dtype
    /// of the result are those of `self`. See Zhang, Sennrich: Root Mean Square Layer
    /// Normalization, 2019.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, -3.0]);
    /// assert_eq!(x.rms_norm(&Tensor::from([1.0f32, 2.0]), 0.0).to_vec::<f32>(), [1.0, -2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the rank is 0, `weight` does not have the shape `[n]` of the last axis, or the dtypes
    /// differ or are not floats.
    #[track_caller]
    pub fn rms_norm(&self, weight: impl AsRef<Tensor>, eps: impl IntoStatic) -> Tensor {
        one(
            Op::RmsNorm,
            vec![eps.into_static()],
            &[self, weight.as_ref()],
            &[],
        )
    }

    /// `(x - mean) / sqrt(var + eps)` over `axes`, with the biased variance.
    ///
    /// Shape and dtype are those of `self`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, -5.0], [3.0, 5.0]]);
    /// assert_eq!(x.normalize(0, 0.0).to_vec::<f32>(), [-1.0, -1.0, 1.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the dtype is not a float.
    #[track_caller]
    pub fn normalize(&self, axes: impl IntoStatic, eps: impl IntoStatic) -> Tensor {
        one(
            Op::Normalize,
            [axes.into_static(), eps.into_static()],
            &[self],
            &[],
        )
    }

    /// `softmax(q k^T / sqrt(d)) v`: for each query, a weighted mean of the values.
    ///
    /// Values weigh more the better their keys match the query.
    ///
    /// `self` are the queries `[.., n, d]`; keys are `[.., m, d]` and values `[.., m, e]`. The
    /// result has the shape `[.., n, e]`. All have the same float dtype and the same axes before
    /// the last two; [`Tensor::broadcast_to`] repeats what several heads share. See Vaswani et al.:
    /// Attention Is All You Need, 2017.
    ///
    /// The weights `[.., n, m]` are never materialised, neither here nor in the first derivative; a
    /// second derivative materialises them. For another scale, multiply the queries by that scale
    /// times `sqrt(d)`. Without keys, the result is 0. [`Tensor::masked_attention`] excludes keys.
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
    /// If the shapes do not match, or the dtypes differ or are not floats.
    #[track_caller]
    pub fn attention(&self, keys: impl AsRef<Tensor>, values: impl AsRef<Tensor>) -> Tensor {
        let args = [self, keys.as_ref(), values.as_ref()];
        one(Op::Attention, vec![Static::Bool(false)], &args, &[])
    }

    /// [`Tensor::attention`] in which query `i` sees only the keys `0..=i`.
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
    /// As for [`Tensor::attention`].
    #[track_caller]
    pub fn causal_attention(&self, keys: impl AsRef<Tensor>, values: impl AsRef<Tensor>) -> Tensor {
        let args = [self, keys.as_ref(), values.as_ref()];
        one(Op::Attention, vec![Static::Bool(true)], &args, &[])
    }

    /// [`Tensor::attention`] in which a query sees only the keys where `mask` is true.
    ///
    /// For a query that sees no key, the result and all its derivatives are 0.
    ///
    /// The mask has dtype `bool` and broadcasts to `[.., n, m]`, for queries `[.., n, d]` and keys
    /// `[.., m, d]`. For queries of `[batch, heads, n, d]`, for example:
    ///
    /// - `[batch, 1, 1, m]` excludes the padding keys of each sequence.
    /// - `[n, m]`, such as a sliding window, is the same for all sequences and heads.
    /// - `[batch, heads, n, m]` gives each head its own mask.
    ///
    /// The mask is not copied along repeated axes. Blocks of queries and keys in which no key is
    /// seen are skipped.
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
    /// As for [`Tensor::attention`], and if the mask is not `bool` or does not broadcast to
    /// `[.., n, m]`.
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

    /// [`Tensor::masked_attention`] that also hides all keys after `i` from query `i`.
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
    /// As for [`Tensor::masked_attention`].
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

    /// Appends an axis of length `classes` that is 1 at the label and 0 elsewhere.
    ///
    /// The labels are integers of shape `[..]`; the result has the shape `[.., classes]` and the
    /// given dtype. It has no derivative.
    ///
    /// A label outside of `0..classes` is an error when the value is computed, as in
    /// [`Tensor::cross_entropy`].
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let labels = Tensor::from([2i64, 0]);
    /// assert_eq!(labels.one_hot(3, DType::F32).to_vec::<f32>(), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the labels are not integers, or if `classes` is negative.
    #[track_caller]
    pub fn one_hot(&self, classes: impl IntoStatic, dtype: DType) -> Tensor {
        one(
            Op::OneHot,
            [classes.into_static(), dtype.into_static()],
            &[self],
            &[],
        )
    }

    /// The element of `x` where `self` is true, that of `y` elsewhere.
    ///
    /// `self` has dtype `bool`. All three broadcast to the shape of the result, whose dtype is that
    /// of `x` and `y`. One of `x` and `y` may be a number.
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
    /// If `self` is not `bool`, the shapes do not broadcast, the dtypes of `x` and `y` differ, or
    /// the number does not fit the dtype.
    #[track_caller]
    pub fn select<Y>(&self, x: impl Branch<Y>, y: Y) -> Tensor {
        x.choose(self, y)
    }

    /// The elements converted to another dtype, in the same shape.
    ///
    /// A float becomes an integer by truncation and saturation, and NaN becomes 0. A number becomes
    /// a bool by comparison with 0. An `i64` that does not fit an `i32` wraps. A cast to an integer
    /// or a bool has no derivative.
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
