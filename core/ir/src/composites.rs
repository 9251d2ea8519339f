//! Methods of `Tensor` that are composed of ops.
//!
//! The body of a method is Rust. The crate `gradloom` compiles it, and the macro lowers it at each
//! call, as if the user had written it. In a body, tensors are references, operands are tensors, and
//! `rt` has functions for lengths and axes.

/// A method that is composed of ops.
#[derive(Clone, Copy, Debug)]
pub struct Composite {
    /// The name of the method.
    pub name: &'static str,
    /// The parameters in order, the receiver first.
    pub params: &'static [(&'static str, Role)],
    /// The body, in Rust.
    pub body: &'static str,
    /// The documentation.
    pub doc: &'static str,
}

/// The kind of a parameter of a [`Composite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A tensor.
    Tensor,
    /// A tensor, or a number that takes the dtype of the receiver.
    Operand,
    /// A number: `f64`.
    Float,
    /// An integer: `i64`.
    Int,
    /// A count: `usize`.
    Count,
    /// A static argument, such as axes.
    Static,
    /// A list of counts.
    Counts,
    /// Axes of two tensors, as pairs of lists of the same length.
    Pairs,
    /// A random key.
    Key,
    /// A function from a tensor to a tensor.
    Function,
    /// A tensor, or a number that the body passes on.
    Other,
}

impl Composite {
    /// All composite methods.
    pub const ALL: &[Composite] = COMPOSITES;

    /// The names of all composite methods.
    pub const NAMES: &[&str] = NAMES;

    /// Returns the method of this name.
    pub fn find(name: &str) -> Option<&'static Composite> {
        Composite::ALL.iter().find(|method| method.name == name)
    }
}

/// Calls `$callback!` with all composite methods.
#[macro_export]
macro_rules! for_each_composite {
    ($callback:ident) => {
        $callback! {
            /// The elements, limited to the range from `low` to `high`: `x.maximum(low).minimum(high)`.
            ///
            /// NaN stays NaN. The derivative is 1 inside of the range, 0 outside, and 1/2 at its ends.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([-1.0f32, 0.5, 3.0]);
            /// assert_eq!(x.clamp(0.0, 1.0).to_vec::<f32>(), [0.0, 0.5, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, the dtypes differ, or a number does not fit the dtype.
            fn clamp(x: Tensor, low: Operand, high: Operand) {
                x.maximum(low).minimum(high)
            }

            /// Linear interpolation: `x + t (y - x)`, with broadcasting.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.0f32, 2.0]);
            /// assert_eq!(x.lerp(4.0, 0.25).to_vec::<f32>(), [1.0, 2.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, the dtypes differ, or a number does not fit the dtype.
            fn lerp(x: Tensor, y: Operand, t: Operand) {
                x + t * (y - x)
            }

            /// `f(x)` where `self` is true, and `other` elsewhere, with derivatives that are right.
            ///
            /// `f` sees the number `safe` instead of `x` where `self` is false. In
            /// `mask.select(&f(&x), other)` it sees `x`, and an infinite derivative there makes the
            /// gradient NaN, even though the element is not used.
            ///
            /// `self` has dtype `bool`. The shapes of `self`, `x` and `other` broadcast.
            ///
            /// ```
            /// # use gradloom::{Tensor, grad};
            /// let x = Tensor::from([0.0f32, 2.0]);
            /// let trap = |x: &Tensor| x.gt(0.0).select(x.log(), 0.0).sum(..);
            /// assert!(grad(trap)(&x).to_vec::<f32>()[0].is_nan());
            /// let right = |x: &Tensor| x.gt(0.0).safe_select(x, 1.0, |x| x.log(), 0.0).sum(..);
            /// assert_eq!(grad(right)(&x).to_vec::<f32>(), [0.0, 0.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If `self` is not `bool`, the shapes do not broadcast, or a number does not fit the dtype.
            fn safe_select(mask: Tensor, x: Tensor, safe: Float, f: Function, other: Other) {
                mask.select(f(&mask.select(x, safe)), other)
            }

            /// The Euclidean norm over axes: `sqrt(sum(x^2))`. The axes are dropped.
            ///
            /// Where the norm is 0, its derivatives are defined as 0, so a gradient is never NaN there.
            ///
            /// ```
            /// # use gradloom::{Tensor, grad};
            /// let x = Tensor::from([[3.0f32, -4.0], [0.0, 0.0]]);
            /// assert_eq!(x.norm(-1).to_vec::<f32>(), [5.0, 0.0]);
            /// let g = grad(|x: &Tensor| x.norm(-1).sum(..))(&x);
            /// assert_eq!(g.to_vec::<f32>(), [0.6, -0.8, 0.0, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn norm(x: Tensor, axes: Static) {
                let total = x.square().sum(axes);
                let none = total.eq(0.0);
                none.select(0.0, none.select(1.0, &total).sqrt())
            }

            /// As [`Tensor::norm`], with the axes kept with length 1.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[3.0f32, -4.0]]);
            /// assert_eq!((&x / x.norm_keepdims(-1)).to_vec::<f32>(), [0.6, -0.8]);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn norm_keepdims(x: Tensor, axes: Static) {
                let total = x.square().sum_keepdims(axes);
                let none = total.eq(0.0);
                none.select(0.0, none.select(1.0, &total).sqrt())
            }

            /// The sum of absolute values over axes. The axes are dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, -4.0]);
            /// assert_eq!(x.norm_l1(..).item::<f32>(), 7.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is `bool`.
            fn norm_l1(x: Tensor, axes: Static) {
                x.abs().sum(axes)
            }

            /// The largest absolute value over axes. The axes are dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, -4.0]);
            /// assert_eq!(x.norm_max(..).item::<f32>(), 4.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or has length 0, or the dtype is `bool`.
            fn norm_max(x: Tensor, axes: Static) {
                x.abs().max(axes)
            }

            /// The mean over all elements of the squared difference to `target`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 3.0]);
            /// assert_eq!(x.mse(&Tensor::from([1.0f32, 1.0])).item::<f32>(), 2.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn mse(x: Tensor, target: Operand) {
                (x - target).square().mean(..)
            }

            /// The mean over all elements of the absolute difference to `target`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 4.0]);
            /// assert_eq!(x.mae(&Tensor::from([1.0f32, 2.0])).item::<f32>(), 1.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn mae(x: Tensor, target: Operand) {
                (x - target).abs().mean(..)
            }

            /// The Huber loss of each element, with the error `e = x - target`: `e^2 / 2` for
            /// `|e| <= delta`, and `delta (|e| - delta / 2)` elsewhere.
            ///
            /// A loss is the mean of the result.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 3.0]);
            /// let loss = x.huber_loss(&Tensor::from([0.0f32, 0.0]), 1.0);
            /// assert_eq!(loss.to_vec::<f32>(), [0.5, 2.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn huber_loss(x: Tensor, target: Operand, delta: Float) {
                // Without absolute values, so that all derivatives at 0 are right.
                let error = x - target;
                let near = error.clamp(-delta, delta);
                &near * (&error - &near * 0.5)
            }

            /// The Huber loss with `delta = beta`, divided by `beta`: `e^2 / (2 beta)` for
            /// `|e| <= beta`, and `|e| - beta / 2` elsewhere.
            ///
            /// `beta` is positive. A loss is the mean of the result.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 3.0]);
            /// let loss = x.smooth_l1_loss(&Tensor::from([0.0f32, 0.0]), 2.0);
            /// assert_eq!(loss.to_vec::<f32>(), [0.25, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn smooth_l1_loss(x: Tensor, target: Operand, beta: Float) {
                x.huber_loss(target, beta) / beta
            }

            /// The binary cross entropy of each probability `x`: `-t log(x) - (1 - t) log(1 - x)`.
            ///
            /// The targets `t` are numbers from 0 to 1. [`Tensor::bce_with_logits`] takes logits, and
            /// is more accurate. A loss is the mean of the result.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.5f32, 1.0]);
            /// let loss = x.bce(&Tensor::from([1.0f32, 1.0]));
            /// assert_eq!(loss.to_vec::<f32>(), [2f32.ln(), 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn bce(x: Tensor, target: Operand) {
                -(target.xlogy(x) + (1.0 - target).xlog1py(-x))
            }

            /// The binary cross entropy of each logit `x`: that of the probability `sigmoid(x)`,
            /// without overflow.
            ///
            /// The targets are numbers from 0 to 1. A loss is the mean of the result.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.0f32, 200.0]);
            /// let loss = x.bce_with_logits(&Tensor::from([1.0f32, 0.0]));
            /// assert_eq!(loss.to_vec::<f32>(), [2f32.ln(), 200.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn bce_with_logits(x: Tensor, target: Operand) {
                -(target * x.log_sigmoid() + (1.0 - target) * (-x).log_sigmoid())
            }

            /// The terms `t (log(t) - x)` of the Kullback-Leibler divergence, for logarithms of
            /// probabilities `x` and probabilities `t`. A term is 0 where `t` is 0.
            ///
            /// The divergence is the sum over the classes: `x.log_softmax(-1).kl_div(&t).sum(-1)`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.25f32, 0.75]).log();
            /// let t = Tensor::from([1.0f32, 0.0]);
            /// assert!((x.kl_div(&t).sum(..).item::<f32>() - 4f32.ln()).abs() < 1e-6);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn kl_div(x: Tensor, target: Operand) {
                target.xlogy(target) - target * x
            }

            /// The negative logarithm of the probability of each label: `-x[label]`.
            ///
            /// Logarithms of probabilities `[.., classes]` and integer labels `[..]` give `[..]`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[0.5f32, 0.5], [0.25, 0.75]]).log();
            /// let loss = x.nll_loss(&Tensor::from([0, 1]));
            /// assert_eq!(loss.to_vec::<f32>(), [-(0.5f32.ln()), -(0.75f32.ln())]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not fit, the dtype is not a float, or the labels are not integers. A
            /// label out of range is an error when the result is computed.
            fn nll_loss(x: Tensor, labels: Tensor) {
                -x.take_along_axis(labels.unsqueeze(-1), -1).squeeze(-1)
            }

            /// The cross entropy of each row with its label: `logsumexp(x) - x[label]`.
            ///
            /// Logits `[.., classes]` and integer labels `[..]` give `[..]`. The mean over all rows is
            /// [`Tensor::cross_entropy`].
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[0.0f32, 0.0], [3.0, 3.0]]);
            /// let loss = x.cross_entropy_rows(&Tensor::from([0, 1]));
            /// assert_eq!(loss.to_vec::<f32>(), [2f32.ln(), 2f32.ln()]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not fit, the dtype is not a float, or the labels are not integers. A
            /// label out of range is an error when the result is computed.
            fn cross_entropy_rows(x: Tensor, labels: Tensor) {
                x.log_softmax(-1).nll_loss(labels)
            }

            /// The cross entropy of each row with probabilities: `-sum(target log_softmax(x))` over
            /// the last axis.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[0.0f32, 0.0]]);
            /// let loss = x.soft_cross_entropy(&Tensor::from([[0.25f32, 0.75]]));
            /// assert_eq!(loss.to_vec::<f32>(), [2f32.ln()]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn soft_cross_entropy(x: Tensor, target: Tensor) {
                -(target * x.log_softmax(-1)).sum(-1)
            }

            /// The cross entropy of each row with smoothed labels: the probability of the label is
            /// `1 - smoothing`, and `smoothing` is spread evenly over all classes.
            ///
            /// Logits `[.., classes]` and integer labels `[..]` give `[..]`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[0.0f32, 0.0]]);
            /// let loss = x.cross_entropy_smoothed(&Tensor::from([1]), 0.1);
            /// assert!((loss.sum(..).item::<f32>() - 2f32.ln()).abs() < 1e-6);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not fit, the dtype is not a float, or the labels are not integers. A
            /// label out of range is an error when the result is computed.
            fn cross_entropy_smoothed(x: Tensor, labels: Tensor, smoothing: Float) {
                let logs = x.log_softmax(-1);
                logs.nll_loss(labels) * (1.0 - smoothing) - logs.mean(-1) * smoothing
            }

            /// The weighted mean of the cross entropy over all rows whose label is not `ignore`.
            ///
            /// Logits `[.., classes]`, integer labels `[..]`, and a weight for each class, `[classes]`;
            /// the result has rank 0. The losses of the rows, smoothed as in
            /// [`Tensor::cross_entropy_smoothed`], are summed with the weights of their classes, and
            /// divided by the sum of the weights of the labels. It is NaN if all rows are ignored.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[0.0f32, 0.0], [9.0, 1.0]]);
            /// let weights = Tensor::from([1.0f32, 3.0]);
            /// let labels = Tensor::from([1, -100]);
            /// let loss = x.cross_entropy_with(&labels, &weights, 0.0, -100);
            /// assert_eq!(loss.item::<f32>(), 2f32.ln());
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not fit, the dtypes of logits and weights differ or are not floats, or
            /// the labels are not integers. Another label out of range is an error when the result is
            /// computed.
            fn cross_entropy_with(
                x: Tensor, labels: Tensor, weights: Tensor, smoothing: Float, ignore: Int
            ) {
                let logs = x.log_softmax(-1);
                let counted = labels.ne(ignore);
                let known = counted.select(labels, 0);
                let weight = counted.select(weights.take(&known, 0), 0.0);
                let spread = counted.select((&logs * weights).mean(-1), 0.0);
                let rows = logs.nll_loss(&known) * &weight * (1.0 - smoothing) - spread * smoothing;
                rows.sum(..) / weight.sum(..)
            }

            /// Probabilities mixed with the uniform distribution over the last axis:
            /// `(1 - smoothing) x + smoothing / classes`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.0f32, 1.0]);
            /// assert_eq!(x.smooth_labels(0.5).to_vec::<f32>(), [0.25, 0.75]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is 0 or the dtype is not a float.
            fn smooth_labels(x: Tensor, smoothing: Float) {
                x * (1.0 - smoothing) + smoothing / x.dim(-1) as f64
            }

            /// The cosine of the angle between vectors along an axis, which is dropped.
            ///
            /// The product of the norms is at least `eps`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[3.0f32, 4.0], [0.0, 0.0]]);
            /// let y = Tensor::from([4.0f32, 3.0]);
            /// assert_eq!(x.cosine_similarity(&y, -1, 1e-8).to_vec::<f32>(), [0.96, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, the axis is out of range, or the dtypes differ or are
            /// not floats.
            fn cosine_similarity(x: Tensor, y: Tensor, axis: Static, eps: Float) {
                (x * y).sum(axis) / (x.norm(axis) * y.norm(axis)).maximum(eps)
            }

            /// Batch normalisation of `[n, c, ..]` by the statistics of the batch.
            ///
            /// Each channel has mean 0 and variance 1 over all other axes, by the biased variance plus
            /// `eps`; then it is multiplied by its weight, and its bias is added. `weight` and `bias`
            /// have shape `[c]`. For the running statistics, take the mean and the variance over these
            /// axes, for example `x.mean([0, 2, 3])`; [`Tensor::batch_norm_eval`] takes them.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 0.0], [3.0, 4.0]]);
            /// let (w, b) = (Tensor::from([1.0f32, 2.0]), Tensor::from([0.0f32, 5.0]));
            /// assert_eq!(x.batch_norm(&w, &b, 0.0).to_vec::<f32>(), [-1.0, 3.0, 1.0, 7.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is less than 2, `weight` or `bias` does not have shape `[c]`, or the dtypes
            /// differ or are not floats.
            fn batch_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: Float) {
                let rows = x.reshape([x.dim(0), x.dim(1), x.shape()[2..].iter().product()]);
                let channels = [x.dim(1), 1];
                let scaled = rows.normalize([0, 2], eps) * weight.reshape(channels);
                (scaled + bias.reshape(channels)).reshape(x.shape())
            }

            /// Batch normalisation of `[n, c, ..]` by given statistics:
            /// `(x - mean) / sqrt(var + eps) weight + bias`.
            ///
            /// `weight`, `bias`, `mean` and `var` have shape `[c]`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32], [3.0]]);
            /// let [w, b, mean, var] = [[2.0f32], [1.0], [1.0], [4.0]].map(Tensor::from);
            /// assert_eq!(x.batch_norm_eval(&w, &b, &mean, &var, 0.0).to_vec::<f32>(), [1.0, 3.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is less than 2, a vector does not have shape `[c]`, or the dtypes differ or
            /// are not floats.
            fn batch_norm_eval(
                x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: Float
            ) {
                let rows = x.reshape([x.dim(0), x.dim(1), x.shape()[2..].iter().product()]);
                let channels = [x.dim(1), 1];
                let scale = weight.reshape(channels) * (var.reshape(channels) + eps).rsqrt();
                let scaled = (rows - mean.reshape(channels)) * scale;
                (scaled + bias.reshape(channels)).reshape(x.shape())
            }

            /// Group normalisation of `[n, c, ..]`: the channels of each example are normalised in
            /// `groups` groups of equal size.
            ///
            /// Each group has mean 0 and variance 1, by the biased variance plus `eps`; then each
            /// channel is multiplied by its weight, and its bias is added. `weight` and `bias` have
            /// shape `[c]`. With as many groups as channels, this is instance normalisation.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 3.0, 0.0, 8.0]]);
            /// let (w, b) = (Tensor::from([1.0f32; 4]), Tensor::from([0.0f32; 4]));
            /// assert_eq!(x.group_norm(2, &w, &b, 0.0).to_vec::<f32>(), [-1.0, 1.0, -1.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is less than 2, the channels cannot be divided into `groups` groups,
            /// `weight` or `bias` does not have shape `[c]`, or the dtypes differ or are not floats.
            fn group_norm(x: Tensor, groups: Count, weight: Tensor, bias: Tensor, eps: Float) {
                let channels = [x.dim(1), 1];
                let len = x.shape()[2..].iter().product();
                // If the division leaves a remainder, the numbers of elements differ.
                let size = x.dim(1).checked_div(groups).unwrap_or(0);
                let rows = x.reshape([x.dim(0), groups, size, len]).normalize([2, 3], eps);
                let scaled = rows.reshape([x.dim(0), x.dim(1), len]) * weight.reshape(channels);
                (scaled + bias.reshape(channels)).reshape(x.shape())
            }

            /// Instance normalisation of `[n, c, ..]`: each channel of each example is normalised over
            /// the axes after the second.
            ///
            /// Each channel of an example has mean 0 and variance 1, by the biased variance plus `eps`;
            /// then it is multiplied by its weight, and its bias is added. `weight` and `bias` have
            /// shape `[c]`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[[1.0f32, 3.0], [0.0, 8.0]]]);
            /// let (w, b) = (Tensor::from([1.0f32, 2.0]), Tensor::from([0.0f32, 1.0]));
            /// assert_eq!(x.instance_norm(&w, &b, 0.0).to_vec::<f32>(), [-1.0, 1.0, -1.0, 3.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is less than 2, `weight` or `bias` does not have shape `[c]`, or the dtypes
            /// differ or are not floats.
            fn instance_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: Float) {
                x.group_norm(x.dim(1), weight, bias, eps)
            }

            /// Rotary embedding: each pair of elements `2 i` and `2 i + 1` of the last axis is rotated
            /// by an angle.
            ///
            /// `x` is `[.., d]`, and the angles broadcast to `[.., d / 2]`, for example the position
            /// times a frequency, `[positions, d / 2]`. See Su et al.: RoFormer, 2021.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
            /// let angles = Tensor::from([[0.0f64], [std::f64::consts::PI]]);
            /// let y = x.rotary(&angles).round();
            /// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, -3.0, -4.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the last axis has an odd length, the angles do not broadcast, or the dtypes differ or
            /// are not floats.
            fn rotary(x: Tensor, angles: Tensor) {
                let half = x.dim(-1) / 2;
                let pairs = x.reshape([&x.shape()[..x.rank() - 1], &[half, 2][..]].concat());
                let [u, v] = pairs.unbind(-1);
                let (cos, sin) = (angles.cos(), angles.sin());
                let turned = [&u * &cos - &v * &sin, &u * &sin + &v * &cos];
                Tensor::stack(&turned, -1).reshape(x.shape())
            }

            /// Rotary embedding: each pair of elements `i` and `i + d / 2` of the last axis is rotated
            /// by an angle.
            ///
            /// This is [`Tensor::rotary`] with the pairs that GPT-NeoX and Llama rotate.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f64, 2.0, 3.0, 4.0]);
            /// let angles = Tensor::from([0.0f64, std::f64::consts::PI]);
            /// let y = x.rotary_half(&angles).round();
            /// assert_eq!(y.to_vec::<f64>(), [1.0, -2.0, 3.0, -4.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the last axis has an odd length, the angles do not broadcast, or the dtypes differ or
            /// are not floats.
            fn rotary_half(x: Tensor, angles: Tensor) {
                let [u, v] = x.split(-1);
                let (cos, sin) = (angles.cos(), angles.sin());
                Tensor::concat(&[&u * &cos - &v * &sin, &u * &sin + &v * &cos], -1)
            }

            /// Dropout: each element is 0 with the probability `rate`, and divided by `1 - rate`
            /// otherwise.
            ///
            /// ```
            /// # use gradloom::{DType, Key, Tensor};
            /// let x = Tensor::ones([1000], DType::F32);
            /// let y = x.dropout(0.25, Key::new(0));
            /// assert!((y.mean(..).item::<f32>() - 1.0).abs() < 0.1);
            /// assert_eq!(y.max(..).item::<f32>(), 1.0 / 0.75);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rate is not from 0 to 1, or the dtype is not a float.
            fn dropout(x: Tensor, rate: Float, key: Key) {
                // At the rate 1, all elements are dropped, and the quotient is of no use.
                let kept = if rate == 1.0 { 1.0 } else { 1.0 - rate };
                key.bernoulli(1.0 - rate, x.shape()).select(x / kept, 0.0)
            }

            /// The gated linear unit: the first half of an axis times the sigmoid of the second half.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([2.0f32, 3.0, 0.0, 0.0]);
            /// assert_eq!(x.glu(-1).to_vec::<f32>(), [1.0, 1.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has an odd length, or the dtype is not a float.
            fn glu(x: Tensor, axis: Static) {
                let [value, gate] = x.split(axis);
                value * gate.sigmoid()
            }

            /// `softmax` along an axis over the elements where `mask` is true; 0 elsewhere.
            ///
            /// `mask` has dtype `bool` and broadcasts to the shape of `self`. A row without such
            /// elements is NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 1.0, 9.0]);
            /// let mask = Tensor::from([true, true, false]);
            /// assert_eq!(x.softmax_where(&mask, -1).to_vec::<f32>(), [0.5, 0.5, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If `mask` is not `bool` or does not broadcast, the axis is out of range, or the dtype is
            /// not a float.
            fn softmax_where(x: Tensor, mask: Tensor, axis: Static) {
                mask.select(x, f64::NEG_INFINITY).softmax(axis)
            }

            /// `log(x / (1 - x))` for each element: the inverse of the sigmoid. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([0.5f32, 1.0]).logit().to_vec::<f32>(), [0.0, f32::INFINITY]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn logit(x: Tensor) {
                x.log() - (-x).log1p()
            }

            /// `(x + sqrt(x^2 + b)) / 2` for each element: a smooth form of `relu`. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([0.0f32]).squareplus(4.0).to_vec::<f32>(), [1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not floats.
            fn squareplus(x: Tensor, b: Operand) {
                (x + (x.square() + b).sqrt()) * 0.5
            }

            /// The sum of the main diagonal of each matrix of the last two axes.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
            /// assert_eq!(x.trace().item::<f32>(), 5.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If there are less than two axes, or the dtype is `bool`.
            fn trace(x: Tensor) {
                x.diagonal(0).sum(-1)
            }

            /// The products of each element with each element of another tensor, as a matrix.
            ///
            /// Both are taken in row-major order.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0]);
            /// assert_eq!(x.outer(&Tensor::from([3.0f32, 4.0])).to_vec::<f32>(), [3.0, 4.0, 6.0, 8.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtypes cannot be promoted or are `bool`.
            fn outer(x: Tensor, y: Tensor) {
                x.reshape([x.numel(), 1]) * y.reshape([1, y.numel()])
            }

            /// The cross products of the vectors along an axis of length 3. The other axes broadcast.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let (x, y) = (Tensor::from([1.0f32, 0.0, 0.0]), Tensor::from([0.0f32, 1.0, 0.0]));
            /// assert_eq!(x.cross(&y, -1).to_vec::<f32>(), [0.0, 0.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has another length, the other axes do not broadcast, or the
            /// dtypes cannot be promoted or are `bool`.
            fn cross(x: Tensor, y: Tensor, axis: Static) {
                let along: i64 = rt::vector_axis(x.aval(), y.aval(), axis);
                let [x0, x1, x2] = x.unbind(along);
                let [y0, y1, y2] = y.unbind(along);
                let first = &x1 * &y2 - &x2 * &y1;
                let second = &x2 * &y0 - &x0 * &y2;
                Tensor::stack(&[first, second, &x0 * &y1 - &x1 * &y0], along)
            }

            /// Each element repeated `count` times along an axis.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0]);
            /// assert_eq!(x.repeat(2, 0).to_vec::<f32>(), [1.0, 1.0, 2.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range, or the result is too large.
            fn repeat(x: Tensor, count: Count, axis: Int) {
                let len = x.dim(axis as isize);
                let at = if axis < 0 { x.rank() as i64 + axis } else { axis } as usize;
                let wide = [&x.shape()[..at], &[len, count][..], &x.shape()[at + 1..]].concat();
                let whole = len.saturating_mul(count);
                let whole = [&x.shape()[..at], &[whole][..], &x.shape()[at + 1..]].concat();
                x.unsqueeze(at as i64 + 1).broadcast_to(wide).reshape(whole)
            }

            /// The whole tensor repeated along each axis: `counts` has a number for each of the last
            /// axes.
            ///
            /// More numbers than axes add axes in front.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0]);
            /// assert_eq!(x.tile([2]).to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0]);
            /// assert_eq!(x.tile([3, 1]).shape(), [3, 2]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the result is too large.
            fn tile(x: Tensor, counts: Counts) {
                let lens = rt::tile_lens(x.shape(), &counts);
                x.reshape(&lens[0]).broadcast_to(&lens[1]).reshape(&lens[2])
            }

            /// The median along an axis: the middle element, or the mean of both. NaN if there is one.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, 1.0, 2.0, 8.0]);
            /// assert_eq!(x.median(0).item::<f32>(), 2.5);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, or the dtype is not a float.
            fn median(x: Tensor, axis: Int) {
                x.quantile(0.5, axis)
            }

            /// The element at the fraction `q` of the sorted elements along an axis. NaN if there is
            /// one.
            ///
            /// Between two elements, the result is interpolated.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
            /// assert_eq!(x.quantile(0.25, 0).item::<f32>(), 1.5);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, `q` is not from 0 to 1, or the dtype is
            /// not a float.
            fn quantile(x: Tensor, q: Float, axis: Int) {
                let place: f64 = rt::quantile_place(x.aval(), q, axis);
                let (first, second): (i64, i64) = (place.floor() as i64, place.ceil() as i64);
                let (share, is_exact): (f64, bool) = (place.fract(), first == second);
                let sorted = x.sort(axis);
                let lower = sorted.select_index(axis, first);
                let upper = sorted.select_index(axis, second);
                let between = &lower * (1.0 - share) + upper * share;
                // A product of 0 and an infinite element is NaN.
                let value = Tensor::scalar(is_exact).select(&lower, &between);
                // NaN is the last of the sorted elements.
                let last = sorted.select_index(axis, -1);
                last.is_nan().select(&last, &value)
            }

            /// For each of `values`, the first index at which it keeps an ascending vector sorted, as
            /// `i64`.
            ///
            /// It is the number of elements that are less. It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 4.0]);
            /// let places = x.searchsorted(&Tensor::from([2.0f32, 9.0]));
            /// assert_eq!(places.to_vec::<i64>(), [1, 3]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtypes differ.
            fn searchsorted(x: Tensor, values: Tensor) {
                let values = values.unsqueeze(-1);
                // NaN is the last of the sorted elements, and differs from itself.
                let less = x.lt(&values) | (x.eq(x) & values.ne(&values));
                less.cast(DType::I64).sum(-1)
            }

            /// Elements added at both ends of each axis: those inside, mirrored at the first and last
            /// element.
            ///
            /// `low` and `high` are the numbers of elements for each axis.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// let y = x.pad_reflect([2], [1]);
            /// assert_eq!(y.to_vec::<f32>(), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the numbers are not one for each axis, or a padded axis has length 0.
            fn pad_reflect(x: Tensor, low: Counts, high: Counts) {
                let shape = x.shape().to_vec();
                let mut y = x.clone();
                for axis in rt::padded_axes("pad_reflect", &shape, &low, &high) {
                    let indices = rt::padding("pad_reflect", &shape, &low, &high, axis);
                    y = y.take(Tensor::from(indices), axis);
                }
                y
            }

            /// Elements added at both ends of each axis: the first and the last one, repeated.
            ///
            /// `low` and `high` are the numbers of elements for each axis.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0]);
            /// assert_eq!(x.pad_edge([2], [1]).to_vec::<f32>(), [1.0, 1.0, 1.0, 2.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the numbers are not one for each axis, or a padded axis has length 0.
            fn pad_edge(x: Tensor, low: Counts, high: Counts) {
                let shape = x.shape().to_vec();
                let mut y = x.clone();
                for axis in rt::padded_axes("pad_edge", &shape, &low, &high) {
                    let indices = rt::padding("pad_edge", &shape, &low, &high, axis);
                    y = y.take(Tensor::from(indices), axis);
                }
                y
            }

            /// Elements added at both ends of each axis: those of the other end, as if the axis were a
            /// ring.
            ///
            /// `low` and `high` are the numbers of elements for each axis.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// assert_eq!(x.pad_wrap([1], [1]).to_vec::<f32>(), [3.0, 1.0, 2.0, 3.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the numbers are not one for each axis, or a padded axis has length 0.
            fn pad_wrap(x: Tensor, low: Counts, high: Counts) {
                let shape = x.shape().to_vec();
                let mut y = x.clone();
                for axis in rt::padded_axes("pad_wrap", &shape, &low, &high) {
                    let indices = rt::padding("pad_wrap", &shape, &low, &high, axis);
                    y = y.take(Tensor::from(indices), axis);
                }
                y
            }

            /// Multiplies two tensors, sums over pairs of axes, and keeps pairs of axes as a batch.
            ///
            /// `summed` and `batch` list axes of this tensor, and as many of the other one. The result
            /// has the axes of the batch, then the other axes of this tensor, then those of the other
            /// one.
            ///
            /// ```
            /// # use gradloom::{DType, Tensor};
            /// let x = Tensor::ones([2, 3, 4], DType::F32);
            /// let y = Tensor::ones([4, 5, 2], DType::F32);
            /// let z = x.dot_general(&y, (&[2], &[0]), (&[0], &[2]));
            /// assert_eq!(z.shape(), [2, 3, 5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or listed twice, the axes of a pair have different lengths,
            /// or the dtypes differ or are `bool`.
            fn dot_general(x: Tensor, y: Tensor, summed: Pairs, batch: Pairs) {
                let plan = rt::dot_plan(x.shape(), y.shape(), &summed, &batch);
                let left = x.permute(&plan.orders[0]).reshape(&plan.lens[0]);
                let right = y.permute(&plan.orders[1]).reshape(&plan.lens[1]);
                left.matmul(right).reshape(&plan.lens[2])
            }

            /// The absolute value of each element with the sign of `y`. The sign of -0 counts.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, -2.0]);
            /// assert_eq!(x.copysign(-0.0).to_vec::<f32>(), [-1.0, -2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn copysign(x: Tensor, y: Operand) {
                let size = x.abs();
                y.signbit().select(-&size, &size)
            }

            /// 0 for negative elements, 1 for positive ones, and `y` for zeros. NaN stays NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([-2.0f32, 0.0, 3.0]);
            /// assert_eq!(x.heaviside(0.5).to_vec::<f32>(), [0.0, 0.5, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn heaviside(x: Tensor, y: Operand) {
                x.eq(0.0).select(y, x.sign().relu())
            }

            /// The greatest integer that is at most `x / y`, for each element.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([7i64, -7]);
            /// assert_eq!(x.floor_divide(2).to_vec::<i64>(), [3, -4]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are `bool`. A
            /// division of an integer by 0 is an error when the result is computed.
            fn floor_divide(x: Tensor, y: Operand) {
                // The quotient is constant between its steps, also where it is infinite.
                let (x, y) = (&x.stop_gradient(), &y.stop_gradient());
                // A remainder of a division by 0 is NaN.
                let whole = (x - x.mod_floor(y)) / y;
                y.eq(0).select(x / y, whole).round()
            }

            /// The larger of two elements; of a number and NaN, the number.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([f32::NAN, 1.0]);
            /// assert_eq!(x.fmax(0.0).to_vec::<f32>(), [0.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn fmax(x: Tensor, y: Operand) {
                x.is_nan().select(y, y.is_nan().select(x, x.maximum(y)))
            }

            /// The smaller of two elements; of a number and NaN, the number.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([f32::NAN, 1.0]);
            /// assert_eq!(x.fmin(0.0).to_vec::<f32>(), [0.0, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn fmin(x: Tensor, y: Operand) {
                x.is_nan().select(y, y.is_nan().select(x, x.minimum(y)))
            }

            /// Whether each element differs from that of `y` by at most `absolute + relative |y|`, as
            /// `bool`.
            ///
            /// NaN is close to nothing, and an infinity to itself. It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0]);
            /// assert_eq!(x.is_close(1.01, 0.0, 0.1).to_vec::<bool>(), [true, false]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn is_close(x: Tensor, y: Operand, relative: Float, absolute: Float) {
                let near = (x - y).abs().le(y.abs() * relative + absolute);
                x.eq(y) | (near & x.is_finite() & y.is_finite())
            }

            /// `x pi / 180` for each element: an angle in degrees, in radians.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([180.0f32]).to_radians().to_vec::<f32>(), [std::f32::consts::PI]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn to_radians(x: Tensor) {
                x * 0.017453292519943295
            }

            /// `x 180 / pi` for each element: an angle in radians, in degrees.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([std::f32::consts::PI]).to_degrees().to_vec::<f32>(), [180.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn to_degrees(x: Tensor) {
                x * 57.29577951308232
            }

            /// Each element, with 0 for NaN and the largest finite numbers for infinities.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([f32::NAN, f32::NEG_INFINITY, 1.0]);
            /// assert_eq!(x.nan_to_num().to_vec::<f32>(), [0.0, f32::MIN, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn nan_to_num(x: Tensor) {
                let largest: f64 = rt::largest(x.aval());
                x.is_nan().select(0.0, x).clamp(-largest, largest)
            }

            /// The sum over axes of the elements that are not NaN. The axes are dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 2.0]).nan_sum(..).item::<f32>(), 3.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_sum(x: Tensor, axes: Static) {
                x.is_nan().select(0.0, x).sum(axes)
            }

            /// The mean over axes of the elements that are not NaN. The axes are dropped.
            ///
            /// It is NaN if there are none.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 2.0]).nan_mean(..).item::<f32>(), 1.5);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_mean(x: Tensor, axes: Static) {
                let none = x.is_nan();
                let counts = none.select(x.zeros_like(), x.ones_like()).sum(axes);
                none.select(0.0, x).sum(axes) / counts
            }

            /// The largest element over axes that is not NaN. The axes are dropped.
            ///
            /// It is NaN if there are none.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 2.0]).nan_max(..).item::<f32>(), 2.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or has length 0, or the dtype is not a float.
            fn nan_max(x: Tensor, axes: Static) {
                let none = x.is_nan();
                none.all(axes).select(f64::NAN, none.select(f64::NEG_INFINITY, x).max(axes))
            }

            /// The smallest element over axes that is not NaN. The axes are dropped.
            ///
            /// It is NaN if there are none.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 2.0]).nan_min(..).item::<f32>(), 1.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or has length 0, or the dtype is not a float.
            fn nan_min(x: Tensor, axes: Static) {
                let none = x.is_nan();
                none.all(axes).select(f64::NAN, none.select(f64::INFINITY, x).min(axes))
            }

            /// The number of elements over axes that are not 0, as `i64`. The axes are dropped.
            ///
            /// It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([0.0f32, 1.0, -2.0]).count_nonzero(..).item::<i64>(), 2);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range.
            fn count_nonzero(x: Tensor, axes: Static) {
                x.ne(0).cast(DType::I64).sum(axes)
            }

            /// The largest element over axes minus the smallest. The axes are dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([3.0f32, 1.0, 8.0]).ptp(..).item::<f32>(), 7.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or has length 0, or the dtype is `bool`.
            fn ptp(x: Tensor, axes: Static) {
                x.max(axes) - x.min(axes)
            }

            /// Each element after the first along an axis, minus the one before.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([1.0f32, 4.0, 6.0]).diff(0).to_vec::<f32>(), [3.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, or the dtype is `bool`.
            fn diff(x: Tensor, axis: Int) {
                let rows = x.moveaxis(axis, 0);
                (rows.i(1..) - rows.i(..-1)).moveaxis(0, axis)
            }

            /// `sin(pi x) / (pi x)` for each element, and 1 at 0. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([0.0f64, 0.5]).sinc().to_vec::<f64>(), [1.0, std::f64::consts::FRAC_2_PI]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn sinc(x: Tensor) {
                // Near 0, the derivatives of the quotient lose all digits. Those of the series, by Horner's
                // rule in (pi x)^2, do not.
                let is_small = x.abs().lt(0.3);
                let t = is_small.select(1.0, x) * std::f64::consts::PI;
                let u = x.square() * 9.869604401089358;
                let series = 1.0 - &u / 156.0 * (1.0 - &u / 210.0 * (1.0 - &u / 272.0 * (1.0 - &u / 342.0)));
                let series = 1.0 - &u / 42.0 * (1.0 - &u / 72.0 * (1.0 - &u / 110.0 * series));
                let series = 1.0 - &u / 6.0 * (1.0 - &u / 20.0 * series);
                is_small.select(series, t.sin() / &t)
            }

            /// The Kronecker product: each element of `x` times the whole of `y`.
            ///
            /// Of two tensors of the same rank, it has the products of their lengths. Axes of length 1
            /// are added in front of the one with fewer.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 10.0]);
            /// let y = Tensor::from([1.0f32, 2.0]);
            /// assert_eq!(x.kron(&y).to_vec::<f32>(), [1.0, 2.0, 10.0, 20.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtypes cannot be promoted or are `bool`, or the result is too large.
            fn kron(x: Tensor, y: Tensor) {
                let lens = rt::kron_lens(x.shape(), y.shape());
                (x.reshape(&lens[0]) * y.reshape(&lens[1])).reshape(&lens[2])
            }

            /// The sum of the products of corresponding elements, of all axes.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 2.0]]);
            /// assert_eq!(x.vdot(&Tensor::from([3.0f32, 4.0])).item::<f32>(), 11.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If the numbers of elements or the dtypes differ, or the dtype is `bool`.
            fn vdot(x: Tensor, y: Tensor) {
                x.reshape([-1]).matmul(y.reshape([-1]))
            }

            /// The covariances of the rows of a matrix, over its `n` columns: their products divided by
            /// `n - 1`.
            ///
            /// `[k, n]` gives `[k, k]`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f64, 3.0], [2.0, 0.0]]);
            /// assert_eq!(x.cov().to_vec::<f64>(), [2.0, -2.0, -2.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is not 2 or the dtype is not a float.
            fn cov(x: Tensor) {
                let centred = x - x.mean_keepdims(-1);
                centred.matmul(centred.t()) / (x.dim(-1) as f64 - 1.0)
            }

            /// `log(mean(exp(x)))` over axes, without overflow. The axes are dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([800.0f32, 800.0]).logmeanexp(..).item::<f32>(), 800.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn logmeanexp(x: Tensor, axes: Static) {
                let total = x.logsumexp(axes);
                let count: f64 = x.numel() as f64 / total.numel() as f64;
                total - count.ln()
            }

            /// `log(1 - exp(-x))` for each positive element, accurate for small and large ones. Takes
            /// floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([2f64.ln(), 0.0]).log1mexp().to_vec::<f64>(), [-(2f64.ln()), f64::NEG_INFINITY]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn log1mexp(x: Tensor) {
                let is_near = x.le(std::f64::consts::LN_2);
                // Each branch has a finite slope where it is not taken.
                let near = -(-is_near.select(x, 0.5)).expm1();
                let far = -(-is_near.select(1.0, x)).exp();
                is_near.select(near.log(), far.log1p())
            }

            /// 0 for `x` up to -1, `x` from 1 on, and `(x + 1)^2 / 4` between. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([-2.0f32, 0.0, 3.0]).sparse_plus().to_vec::<f32>(), [0.0, 0.25, 3.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn sparse_plus(x: Tensor) {
                let between = (x + 1.0).square() * 0.25;
                x.le(-1.0).select(0.0, x.ge(1.0).select(x, &between))
            }

            /// `(x + 1) / 2` limited to the range from 0 to 1, for each element. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([-2.0f32, 0.0, 3.0]).sparse_sigmoid().to_vec::<f32>(), [0.0, 0.5, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn sparse_sigmoid(x: Tensor) {
                ((x + 1.0) * 0.5).clamp(0.0, 1.0)
            }

            /// The standard normal distribution: the probability of a number up to `x`. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([0.0f64]).ndtr().to_vec::<f64>(), [0.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn ndtr(x: Tensor) {
                (x * -std::f64::consts::FRAC_1_SQRT_2).erfc() * 0.5
            }

            /// `-x log(x)` for each element; 0 at 0, and negative infinity for negative elements. Takes
            /// floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([1.0f32, 0.0]).entr().to_vec::<f32>(), [0.0, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn entr(x: Tensor) {
                x.lt(0.0).select(f64::NEG_INFINITY, -x.xlogy(x))
            }

            /// The logarithm of the beta function of positive elements. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([1.0f64]).betaln(1.0).to_vec::<f64>(), [0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn betaln(x: Tensor, y: Operand) {
                // Differences of large logarithms would lose all digits. Stirling's series cancels them:
                // DiDonato and Morris, ACM Transactions on Mathematical Software 18 (1992), algorithm 708.
                let x_is_less = x.lt(y);
                let (a, b) = (x_is_less.select(x, y), x_is_less.select(y, x));
                let positive = a.gt(0.0);
                let (large_b, large_a) = (b.ge(8.0) & positive, a.ge(8.0));
                // Each branch has operands for which it is finite, so that its gradient is, too.
                let (low, low_b) = (large_a.select(1.0, &a), large_b.select(1.0, &b));
                let high = large_a.select(&a, 8.0);
                let (p, q) = (large_b.select(&a, 8.0), large_b.select(&b, 8.0));
                // lgamma(z) without the leading terms of Stirling's series, for z of at least 8.
                let rest = |z: &Tensor| {
                    let u = 1.0 / z.square();
                    let late = 1.0 / 1188.0 - &u * (691.0 / 360360.0 - &u / 156.0);
                    let late = 1.0 / 1260.0 - &u * (1.0 / 1680.0 - &u * late);
                    (1.0 / 12.0 - &u * (1.0 / 360.0 - &u * late)) / z
                };
                let rest_of_q = rest(&q) - rest(&(&p + &q));
                let small = low.lgamma() + low_b.lgamma() - (&low + &low_b).lgamma();
                let log = (&p / &q).log1p();
                let mixed = low.lgamma() + &rest_of_q - (&p + &q - 0.5) * &log - &p * (q.log() - 1.0);
                let both = 0.9189385332046727 - 0.5 * q.log() + rest_of_q + rest(&high)
                    + (&high - 0.5) * (&high / (&high + &q)).log()
                    - &q * (&high / &q).log1p();
                large_b.select(large_a.select(both, mixed), small)
            }
        }
    };
}

macro_rules! define_composites {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident($($param:ident: $role:ident),* $(,)?) $body:block
    )*) => {
        const COMPOSITES: &[Composite] = &[$(Composite {
            name: stringify!($name),
            params: &[$((stringify!($param), Role::$role)),*],
            body: stringify!($body),
            doc: concat!($($doc, "\n",)*),
        }),*];
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}
for_each_composite!(define_composites);
