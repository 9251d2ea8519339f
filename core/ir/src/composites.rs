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

            /// A random index along an axis, as `i64`, drawn with the probabilities `softmax(x)`.
            ///
            /// The axis is removed. It has no derivative. It is the index of the largest of `x - ln(-ln u)`, with
            /// `u` uniform: Gumbel, "Statistical theory of extreme values", 1954. An element of `-inf` is not drawn if
            /// another one is finite.
            ///
            /// ```
            /// # use gradloom::{Key, Tensor};
            /// let logits = Tensor::from([0.0f32, f32::NEG_INFINITY, 0.0]).broadcast_to([1000, 3]);
            /// let drawn = logits.categorical(-1, Key::new(0)).to_vec::<i64>();
            /// let counts = [0, 1, 2].map(|i| drawn.iter().filter(|drawn| **drawn == i).count());
            /// assert!(counts[0] > 400 && counts[1] == 0 && counts[2] > 400, "{counts:?}");
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range, the shape is empty along it, or the dtype is not a float.
            fn categorical(x: Tensor, axis: Static, key: Key) {
                // The logarithm of 0 would exclude the element, as that of `-inf` is.
                let u = key.uniform(x.shape(), x.dtype()).maximum(1e-37);
                (x - (-u.log()).log()).argmax(axis)
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
                let fraction: f64 = rt::fraction("quantile", x.aval(), q, axis);
                let place: f64 = fraction * (x.dim(axis as isize) - 1) as f64;
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

            /// All elements in row-major order, as a vector.
            ///
            /// A tensor of rank 0 gives one element.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
            /// assert_eq!(x.flatten().shape(), [4]);
            /// ```
            fn flatten(x: Tensor) {
                x.reshape([x.numel()])
            }

            /// The largest of the rows of each segment.
            ///
            /// `ids` has the segment of each row, as in [`Tensor::segment_sum`]. A segment without rows
            /// has the lowest number of the dtype: negative infinity for floats, as in
            /// `jax.ops.segment_max`. NaN counts as the largest. Rows that share the maximum share its
            /// derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// let largest = x.segment_max(&Tensor::from([0i64, 2, 0]), 3);
            /// assert_eq!(largest.to_vec::<f32>(), [3.0, f32::NEG_INFINITY, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::segment_sum`].
            fn segment_max(x: Tensor, ids: Tensor, segments: Count) {
                let lens = rt::segment_lens("segment_max", x.shape(), ids.shape(), segments);
                let lowest = rt::lowest(x.aval());
                let none = Tensor::full(&lens[1], &lowest, x.dtype());
                none.scatter_max(ids.reshape([ids.numel()]), x.reshape(&lens[0]), 0)
            }

            /// The smallest of the rows of each segment.
            ///
            /// A segment without rows has the highest number of the dtype: infinity for floats, as in
            /// `jax.ops.segment_min`. Otherwise as [`Tensor::segment_max`].
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// let smallest = x.segment_min(&Tensor::from([0i64, 2, 0]), 3);
            /// assert_eq!(smallest.to_vec::<f32>(), [1.0, f32::INFINITY, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::segment_sum`].
            fn segment_min(x: Tensor, ids: Tensor, segments: Count) {
                let lens = rt::segment_lens("segment_min", x.shape(), ids.shape(), segments);
                let highest = rt::highest(x.aval());
                let none = Tensor::full(&lens[1], &highest, x.dtype());
                none.scatter_min(ids.reshape([ids.numel()]), x.reshape(&lens[0]), 0)
            }

            /// The mean of the rows of each segment.
            ///
            /// A segment without rows has mean 0. Otherwise as [`Tensor::segment_sum`]. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// let means = x.segment_mean(&Tensor::from([0i64, 2, 0]), 3);
            /// assert_eq!(means.to_vec::<f32>(), [2.0, 0.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::segment_sum`], or if the dtype is not a float.
            fn segment_mean(x: Tensor, ids: Tensor, segments: Count) {
                let counts = x.ones_like().segment_sum(ids, segments);
                x.segment_sum(ids, segments) / counts.maximum(1.0)
            }

            /// The product of the rows of each segment.
            ///
            /// A segment without rows has product 1, as in `jax.ops.segment_prod`. Derivatives are
            /// right for zeros. Otherwise as [`Tensor::segment_sum`].
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([2.0f32, 5.0, 3.0]);
            /// let products = x.segment_prod(&Tensor::from([0i64, 2, 0]), 3);
            /// assert_eq!(products.to_vec::<f32>(), [6.0, 1.0, 5.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::segment_sum`].
            fn segment_prod(x: Tensor, ids: Tensor, segments: Count) {
                let lens = rt::segment_lens("segment_prod", x.shape(), ids.shape(), segments);
                let n: usize = ids.numel();
                let flat = ids.reshape([n]);
                let known = flat.lt(0).select(&flat + segments as i64, &flat);
                let order = known.argsort(0);
                let sorted = known.take(&order, 0);
                let mut products = x.reshape(&lens[0]).take(&order, 0);
                // Each turn multiplies the products of `step` rows by those of the `step` rows before.
                for step in rt::doubling_steps(n) {
                    let earlier = sorted.slice([0], [n - step], [1]);
                    let joined = sorted.slice([step], [n], [1]).eq(&earlier);
                    let joined = joined.reshape(rt::column(&lens[0], step));
                    let before = joined.select(products.slice([0], [n - step], [1]), 1);
                    let rest = products.slice([step], [n], [1]) * before;
                    products = Tensor::concat(&[&products.slice([0], [step], [1]), &rest], 0);
                }
                // The product of a segment is that of its last row, which follows a row of ones.
                let counts = flat.ones_like().segment_sum(&flat, segments);
                let last = counts.eq(0).select(0, counts.cumsum(0));
                let first = Tensor::full(&lens[2], 1, x.dtype());
                Tensor::concat(&[&first, &products], 0).take(&last, 0)
            }

            /// The tensor with the slices at the given indices of an axis multiplied by `updates`.
            ///
            /// Updates of equal indices are all multiplied. Derivatives are right for zeros, and for
            /// equal indices. Otherwise as [`Tensor::scatter_add`].
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// let y = x.scatter_mul(&Tensor::from([2i64, 2]), &Tensor::from([10.0f32, 2.0]), 0);
            /// assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 60.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::scatter_add`].
            fn scatter_mul(x: Tensor, indices: Tensor, updates: Tensor, axis: Int) {
                let place: usize = rt::update_axis(x.aval(), indices.aval(), updates.aval(), axis);
                let lens = rt::joined_axes(updates.shape(), place, indices.rank());
                let rows = updates.reshape(&lens).moveaxis(place, 0);
                let flat = indices.reshape([indices.numel()]);
                x * rows.segment_prod(&flat, x.dim(axis as isize)).moveaxis(0, place)
            }

            /// The number of elements with each value from 0 to `length - 1`, as `i64`.
            ///
            /// Negative elements count as 0, and elements from `length` on are not counted, as in
            /// `jax.numpy.bincount`. It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1i64, 3, 1, 9]);
            /// assert_eq!(x.bincount(4).to_vec::<i64>(), [0, 2, 0, 1]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the elements are not integers.
            fn bincount(x: Tensor, length: Count) {
                let places = x.reshape([x.numel()]).clamp(0, length as i64);
                let ones = places.ones_like().cast(DType::I64);
                ones.segment_sum(&places, length + 1).slice([0], [length], [1])
            }

            /// The sum of the weights of the elements with each value from 0 to `length - 1`.
            ///
            /// `weights` has as many elements. Otherwise as [`Tensor::bincount`], with a derivative in
            /// the weights.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let (x, w) = (Tensor::from([1i64, 2, 1]), Tensor::from([0.5f32, 1.0, 2.0]));
            /// assert_eq!(x.bincount_weighted(&w, 3).to_vec::<f32>(), [0.0, 2.5, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the elements are not integers, the numbers of elements differ, or the weights are
            /// `bool`.
            fn bincount_weighted(x: Tensor, weights: Tensor, length: Count) {
                let places = x.reshape([x.numel()]).clamp(0, length as i64);
                let weights = weights.reshape([weights.numel()]);
                weights.segment_sum(&places, length + 1).slice([0], [length], [1])
            }

            /// The convolution of two vectors: all sums of products `x[i] y[k - i]`, for each `k`.
            ///
            /// `[m]` and `[n]` give `[m + n - 1]`, as the mode `full` of `jax.numpy.convolve`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let (x, y) = (Tensor::from([1.0f32, 2.0, 3.0]), Tensor::from([1.0f32, 10.0]));
            /// assert_eq!(x.convolve(&y).to_vec::<f32>(), [1.0, 12.0, 23.0, 30.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If one of them is not a vector or has no elements, or the dtypes differ or are not
            /// floats.
            fn convolve(x: Tensor, y: Tensor) {
                let lens = rt::convolved("convolve", x.shape(), y.shape());
                let kernel = y.flip(0).reshape([1, 1, lens[1]]);
                let sums = x.reshape([1, 1, lens[0]]).conv(&kernel, 1, lens[1] - 1, 1, 1);
                sums.reshape([-1])
            }

            /// The middle of [`Tensor::convolve`], as long as the longer vector.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let (x, y) = (Tensor::from([1.0f32, 2.0, 3.0]), Tensor::from([1.0f32, 10.0, 0.0]));
            /// assert_eq!(x.convolve_same(&y).to_vec::<f32>(), [12.0, 23.0, 30.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::convolve`].
            fn convolve_same(x: Tensor, y: Tensor) {
                let lens = rt::convolved("convolve_same", x.shape(), y.shape());
                let start = (lens[0].min(lens[1]) - 1) / 2;
                x.convolve(y).slice([start], [start + lens[0].max(lens[1])], [1])
            }

            /// The part of [`Tensor::convolve`] whose sums take all elements of the shorter vector.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let (x, y) = (Tensor::from([1.0f32, 2.0, 3.0]), Tensor::from([1.0f32, 10.0]));
            /// assert_eq!(x.convolve_valid(&y).to_vec::<f32>(), [12.0, 23.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// As [`Tensor::convolve`].
            fn convolve_valid(x: Tensor, y: Tensor) {
                let lens = rt::convolved("convolve_valid", x.shape(), y.shape());
                let start = lens[0].min(lens[1]) - 1;
                x.convolve(y).slice([start], [lens[0].max(lens[1])], [1])
            }

            /// Linear interpolation at each element between `points` with `values`.
            ///
            /// Both are vectors of the same length, and the points are ascending. Elements before the
            /// first point take the first value, and those after the last point the last one. Each element
            /// is compared with each point.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let (points, values) = (Tensor::from([0.0f32, 2.0]), Tensor::from([1.0f32, 5.0]));
            /// let y = Tensor::from([-1.0f32, 0.5, 3.0]).interp(&points, &values);
            /// assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 5.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If points or values are not vectors of the same length, there are none, or the dtypes
            /// differ or are not floats.
            fn interp(x: Tensor, points: Tensor, values: Tensor) {
                let n: i64 = rt::n_points(points.shape(), values.shape());
                let right = points.le(x.unsqueeze(-1)).cast(DType::I64).sum(-1).clamp(1, n - 1);
                let left = &right - 1;
                let (p0, p1) = (points.take(&left, 0), points.take(&right, 0));
                let (v0, v1) = (values.take(&left, 0), values.take(&right, 0));
                let width = &p1 - &p0;
                let no_width = width.eq(0.0);
                let share = (x - &p0) / no_width.select(1.0, &width);
                let between = &v0 + share * (&v1 - &v0);
                let inside = no_width.select(&v1, &between);
                let upper = x.gt(points.row(-1)).select(values.row(-1), &inside);
                x.lt(points.row(0)).select(values.row(0), &upper)
            }

            /// The number of `bins` that are at most each element, as `i64`: the index of its bin.
            ///
            /// `bins` is an ascending vector. An element before the first bin has index 0, as in
            /// `jax.numpy.digitize`. It has no derivative. Each element is compared with each bin.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let bins = Tensor::from([0.0f32, 1.0, 2.0]);
            /// let x = Tensor::from([-1.0f32, 1.0, 1.5, 9.0]);
            /// assert_eq!(x.digitize(&bins).to_vec::<i64>(), [0, 2, 2, 3]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtypes cannot be promoted.
            fn digitize(x: Tensor, bins: Tensor) {
                bins.le(x.unsqueeze(-1)).cast(DType::I64).sum(-1)
            }

            /// The integral along an axis by the trapezoidal rule, of elements at the distance `dx`.
            /// The axis is dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([1.0f32, 2.0, 5.0]).trapezoid(2.0, 0).item::<f32>(), 10.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, or the dtype is not a float.
            fn trapezoid(y: Tensor, dx: Float, axis: Int) {
                let rows = y.moveaxis(axis, 0);
                (rows.i(1..) + rows.i(..-1)).sum(0) * (0.5 * dx)
            }

            /// The integral along an axis by the trapezoidal rule, of elements at the places `x`. The
            /// axis is dropped.
            ///
            /// `x` is a vector as long as the axis.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.0f32, 1.0, 4.0]);
            /// assert_eq!(Tensor::from([1.0f32, 1.0, 3.0]).trapezoid_at(&x, 0).item::<f32>(), 7.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, `x` has another shape, or the dtypes differ
            /// or are not floats.
            fn trapezoid_at(y: Tensor, x: Tensor, axis: Int) {
                let rows = y.moveaxis(axis, 0);
                let sums = (rows.i(1..) + rows.i(..-1)).moveaxis(0, -1);
                (sums * x.diff(0)).sum(-1) * 0.5
            }

            /// The polynomial with the coefficients `self` at each element of `x`, by Horner's scheme.
            ///
            /// The coefficients are a vector, that of the highest power first.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let squares = Tensor::from([1.0f32, 0.0, 2.0]);
            /// assert_eq!(squares.polyval(&Tensor::from([3.0f32, 4.0])).to_vec::<f32>(), [11.0, 18.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the coefficients have rank 0, or the dtypes cannot be promoted or are `bool`.
            fn polyval(coefficients: Tensor, x: Operand) {
                let mut y = x.zeros_like();
                for i in 0..coefficients.dim(0) {
                    y = y * x + coefficients.row(i);
                }
                y
            }

            /// The powers `n - 1`, .., 1, 0 of each element, in rows: the Vandermonde matrix.
            ///
            /// `[k]` gives `[k, n]`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([2.0f32, 3.0]);
            /// assert_eq!(x.vander(3).to_vec::<f32>(), [4.0, 2.0, 1.0, 9.0, 3.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is not 1, or the dtype is `bool`.
            fn vander(x: Tensor, n: Count) {
                let wide = x.unsqueeze(-1).broadcast_to([x.numel(), n]);
                let is_first = Tensor::arange(n as i64, DType::I64).eq(0);
                is_first.select(1, wide).cumprod(-1).flip(-1)
            }

            /// The correlations of the rows of a matrix: their covariances divided by both standard
            /// deviations.
            ///
            /// `[k, n]` gives `[k, k]`. The correlations of a constant row are NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f64, 3.0], [2.0, 0.0]]);
            /// assert_eq!(x.corrcoef().round().to_vec::<f64>(), [1.0, -1.0, -1.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the rank is not 2 or the dtype is not a float.
            fn corrcoef(x: Tensor) {
                let c = x.cov();
                let deviations = c.diagonal(0).sqrt();
                let shares = c / deviations.unsqueeze(-1) / deviations.unsqueeze(-2);
                shares.clamp(-1.0, 1.0)
            }

            /// The product over axes of the elements that are not NaN. The axes are dropped.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 3.0, 2.0]).nan_prod(..).item::<f32>(), 6.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_prod(x: Tensor, axes: Static) {
                x.is_nan().select(1.0, x).prod(axes)
            }

            /// The variance over axes of the elements that are not NaN. The axes are dropped.
            ///
            /// The divisor is their number minus `correction`, as in [`Tensor::var`]. The result is NaN
            /// if the divisor is not positive.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 5.0]).nan_var(.., 0).item::<f32>(), 4.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_var(x: Tensor, axes: Static, correction: Int) {
                let none = x.is_nan();
                let counted = none.select(x.zeros_like(), x.ones_like());
                let mean = none.select(0.0, x).sum_keepdims(axes) / counted.sum_keepdims(axes);
                let squares = none.select(0.0, x - mean).square().sum(axes);
                let divisor = counted.sum(axes) - correction as f64;
                divisor.gt(0.0).select(squares / &divisor, f64::NAN)
            }

            /// The standard deviation over axes of the elements that are not NaN: the square root of
            /// [`Tensor::nan_var`].
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 5.0]).nan_std(.., 0).item::<f32>(), 2.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_std(x: Tensor, axes: Static, correction: Int) {
                x.nan_var(axes, correction).sqrt()
            }

            /// Sums of the elements up to each one along axes, with 0 for NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, f32::NAN, 2.0]);
            /// assert_eq!(x.nan_cumsum(0).to_vec::<f32>(), [1.0, 1.0, 3.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_cumsum(x: Tensor, axes: Static) {
                x.is_nan().select(0.0, x).cumsum(axes)
            }

            /// Products of the elements up to each one along axes, with 1 for NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, f32::NAN, 2.0]);
            /// assert_eq!(x.nan_cumprod(0).to_vec::<f32>(), [3.0, 3.0, 6.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or the dtype is not a float.
            fn nan_cumprod(x: Tensor, axes: Static) {
                x.is_nan().select(1.0, x).cumprod(axes)
            }

            /// `log2(2^x + 2^y)` element by element, with broadcasting, without overflow.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([3.0f64]).logaddexp2(3.0).to_vec::<f64>(), [4.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn logaddexp2(x: Tensor, y: Operand) {
                let sum = (x * std::f64::consts::LN_2).logaddexp(y * std::f64::consts::LN_2);
                sum / std::f64::consts::LN_2
            }

            /// The logarithm of the gamma function of `d` dimensions: that of `pi^(d (d - 1) / 4)`, plus
            /// `lgamma(x - i / 2)` for each `i` below `d`. Takes floats above `(d - 1) / 2`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f64]);
            /// assert_eq!(x.multigammaln(1).to_vec::<f64>(), [0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn multigammaln(x: Tensor, d: Count) {
                let pairs: f64 = d as f64 * (d as f64 - 1.0);
                let mut y = x.zeros_like() + pairs * 0.25 * 1.1447298858494002;
                for i in 0..d {
                    y = &y + (x - i as f64 * 0.5).lgamma();
                }
                y
            }

            /// `gamma(x + 1)` for each element, which is `x!` for integers, and 0 for negative ones.
            /// Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([0.0f64, 3.0, -1.0]).factorial();
            /// assert_eq!(x.round().to_vec::<f64>(), [1.0, 6.0, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn factorial(x: Tensor) {
                let negative = x.lt(0.0);
                negative.select(0.0, negative.select(0.0, x + 1.0).lgamma().exp())
            }

            /// The number of bits of each integer that are 1, as `i64`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([5i32, 0, -1]).bitwise_count().to_vec::<i64>(), [2, 0, 32]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not an integer.
            fn bitwise_count(x: Tensor) {
                let mask: i64 = rt::bit_mask("bitwise_count", x.aval());
                let bits = x.cast(DType::I64).bit_and(mask);
                // The sums of 2, 4 and 8 bits; then the product adds all of these.
                let pairs = &bits - (&bits >> 1).bit_and(0x5555_5555_5555_5555i64);
                let low = pairs.bit_and(0x3333_3333_3333_3333i64);
                let fours = low + (&pairs >> 2).bit_and(0x3333_3333_3333_3333i64);
                let bytes = (&fours + (&fours >> 4)).bit_and(0x0f0f_0f0f_0f0f_0f0fi64);
                (bytes * 0x0101_0101_0101_0101i64) >> 56
            }

            /// The number of bits of each integer that are 0 before the first 1, as `i64`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([1i32, 0, -1]).clz().to_vec::<i64>(), [31, 32, 0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not an integer.
            fn clz(x: Tensor) {
                let mask: i64 = rt::bit_mask("clz", x.aval());
                let width = (mask as u64).count_ones();
                let mut bits = x.cast(DType::I64).bit_and(mask);
                // All bits after the first 1.
                for shift in [1, 2, 4, 8, 16, 32] {
                    bits = &bits | (&bits >> shift);
                }
                -bits.bitwise_count() + width as i64
            }

            /// `x >> y` with broadcasting, of integers as unsigned numbers: zeros are shifted in. It is 0
            /// if `y` is negative or all bits are shifted out.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([-1i32, 12]);
            /// assert_eq!(x.shift_right_logical(2).to_vec::<i32>(), [0x3fff_ffff, 3]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not integers.
            fn shift_right_logical(x: Tensor, y: Operand) {
                let mask: i64 = rt::bit_mask("shift_right_logical", x.aval());
                let width = (mask as u64).count_ones() as i64;
                let signs = x.full_like(-1).shift_left(-y + width);
                let shifted = x.shift_right(y) & !signs;
                (y.ge(0) & y.lt(width)).select(shifted, 0)
            }

            /// Each square matrix of the last two axes to the power of `n`: their product `n` times, or
            /// that of the inverse for negative `n`.
            ///
            /// The power 0 is the identity.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 1.0], [0.0, 1.0]]);
            /// assert_eq!(x.matrix_power(5).to_vec::<f32>(), [1.0, 5.0, 0.0, 1.0]);
            /// assert_eq!(x.matrix_power(-2).to_vec::<f32>(), [1.0, -2.0, 0.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If there are less than two axes, the matrices are not square, or the dtype is `bool`, or
            /// an integer for negative `n`.
            fn matrix_power(x: Tensor, n: Int) {
                let len: usize = rt::square_len("matrix_power", x.aval());
                if n == 0 {
                    Tensor::eye(len, x.dtype()).broadcast_to(x.shape())
                } else {
                    let base = if n < 0 { x.inv() } else { x.clone() };
                    let mut y = base.clone();
                    // The bits of the exponent after the first one, from the highest.
                    for is_one in rt::exponent_bits(n) {
                        y = y.matmul(&y);
                        if is_one {
                            y = y.matmul(&base);
                        }
                    }
                    y
                }
            }

            /// The exponential of each square matrix of the last two axes: the sum of `x^k / k!`. Takes
            /// floats.
            ///
            /// It is computed by scaling, a Pade approximation and up to 16 squarings, and NaN for
            /// matrices whose columns have absolute sums above 352000. See Higham: The scaling and
            /// squaring method for the matrix exponential revisited, 2005.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[0.0f64, 1.0], [0.0, 0.0]]);
            /// let y = x.expm();
            /// assert!((y - Tensor::from([[1.0f64, 1.0], [0.0, 1.0]])).norm(..).item::<f64>() < 1e-14);
            /// ```
            ///
            /// # Panics
            ///
            /// If there are less than two axes, the matrices are not square or have no elements, or the
            /// dtype is not a float.
            fn expm(x: Tensor) {
                let len: usize = rt::square_len("expm", x.aval());
                let norm = x.stop_gradient().abs().sum_keepdims(-2).max_keepdims(-1);
                let needed = (norm / 5.371920351148152).log2().ceil();
                let turns = needed.clamp(0.0, 16.0);
                let a = x * (-&turns).exp2();
                let a2 = a.matmul(&a);
                let a4 = a2.matmul(&a2);
                let a6 = a4.matmul(&a2);
                let one = Tensor::eye(len, x.dtype());
                let high = a6.matmul(&a6 + &a4 * 16380.0 + &a2 * 40840800.0);
                let low = &a6 * 33522128640.0 + &a4 * 10559470521600.0 + &a2 * 1187353796428800.0;
                let odd = a.matmul(high + low + &one * 32382376266240000.0);
                let high = a6.matmul(&a6 * 182.0 + &a4 * 960960.0 + &a2 * 1323241920.0);
                let low = &a6 * 670442572800.0 + &a4 * 129060195264000.0 + &a2 * 7771770303897600.0;
                let even = high + low + one * 64764752532480000.0;
                let mut y = (&even - &odd).solve(&even + &odd);
                for turn in 0..16 {
                    y = turns.gt(turn as f64).select(y.matmul(&y), &y);
                }
                needed.gt(16.0).select(f64::NAN, &y)
            }

            /// The number of singular values of each matrix that are greater than `rcond` times the
            /// largest, as `i64`.
            ///
            /// It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]);
            /// assert_eq!(x.matrix_rank(1e-12).item::<i64>(), 1);
            /// ```
            ///
            /// # Panics
            ///
            /// If there are less than two axes, the matrices have no elements, or the dtype is not a
            /// float.
            fn matrix_rank(x: Tensor, rcond: Float) {
                let (_u, s, _vt) = x.stop_gradient().svd();
                s.gt(s.max_keepdims(-1) * rcond).cast(DType::I64).sum(-1)
            }

            /// The solution `z` of `x z = y` with the least squared error, for each matrix; of several
            /// solutions, that with the least norm.
            ///
            /// `[.., m, n]` and `[.., m, k]` give `[.., n, k]`, and a vector `[m]` gives `[.., n]`. It is
            /// `pinv(rcond)` times `y`: singular values up to `rcond` times the largest one count as 0.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f64, 0.0], [1.0, 1.0], [1.0, 2.0]]);
            /// let line = x.lstsq(&Tensor::from([1.0f64, 3.0, 5.0]), 1e-12);
            /// assert_eq!(line.round().to_vec::<f64>(), [1.0, 2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If `x` has fewer than two axes, the numbers of rows differ, or the
            /// dtypes differ or are not floats.
            fn lstsq(x: Tensor, y: Tensor, rcond: Float) {
                x.pinv(rcond).matmul(y)
            }

            /// The least common multiple of the magnitudes of two integers, with broadcasting; 0 if one
            /// of them is 0. It wraps.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([4i64, 0]).lcm(6).to_vec::<i64>(), [12, 0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes differ or are not integers.
            fn lcm(x: Tensor, y: Operand) {
                let divisor = x.gcd(y);
                (x / divisor.eq(0).select(1, &divisor) * y).abs()
            }

            /// The logarithm of [`Tensor::ndtr`], accurate for very negative elements. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let y = Tensor::from([0.0f64, -100.0]).log_ndtr().to_vec::<f64>();
            /// assert!((y[0] - 0.5f64.ln()).abs() < 1e-15 && (y[1] + 5005.524208694205).abs() < 1e-11);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn log_ndtr(x: Tensor) {
                let is_low = x.lt(-1.0);
                // Each branch has a finite slope where it is not taken.
                let low = is_low.select(x, -1.0);
                let scaled = (&low * -std::f64::consts::FRAC_1_SQRT_2).erfcx() * 0.5;
                let high = is_low.select(0.0, x) * std::f64::consts::FRAC_1_SQRT_2;
                is_low.select(scaled.log() - low.square() * 0.5, (high.erfc() * -0.5).log1p())
            }

            /// The fraction of each element without its whole part, which is [`Tensor::trunc`].
            ///
            /// Both parts of `numpy.modf` have the sign of the element, also where they are 0. The
            /// fraction of an infinity is 0. The derivative is 1, and 0 at infinities. Takes floats.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([2.75f32, -2.75]);
            /// assert_eq!(x.fract().to_vec::<f32>(), [0.75, -0.75]);
            /// assert_eq!(x.trunc().to_vec::<f32>(), [2.0, -2.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn fract(x: Tensor) {
                let (negative, whole) = (x.signbit(), x.trunc());
                let size = negative.select(&whole - x, x - &whole);
                let size = x.is_infinite().select(0.0, &size);
                negative.select(-&size, &size)
            }

            /// True for each element that equals one of `values`, as `bool`.
            ///
            /// `values` has any shape. NaN equals nothing. It has no derivative. Each element is compared
            /// with each value.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1i64, 2, 3]);
            /// assert_eq!(x.isin(&Tensor::from([3i64, 1])).to_vec::<bool>(), [true, false, true]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtypes cannot be promoted.
            fn isin(x: Tensor, values: Tensor) {
                x.unsqueeze(-1).eq(values.reshape([values.numel()])).any(-1)
            }

            /// The median along an axis of the elements that are not NaN: the middle one, or the mean of
            /// both. NaN if there are none.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, f32::NAN, 2.0, 8.0]);
            /// assert_eq!(x.nan_median(0).item::<f32>(), 3.0);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, or the dtype is not a float.
            fn nan_median(x: Tensor, axis: Int) {
                x.nan_quantile(0.5, axis)
            }

            /// The element at the fraction `q` of the sorted elements along an axis that are not NaN. NaN
            /// if there are none.
            ///
            /// Between two elements, the result is interpolated.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f32, f32::NAN, 1.0, 2.0]);
            /// assert_eq!(x.nan_quantile(0.25, 0).item::<f32>(), 1.5);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or has length 0, `q` is not from 0 to 1, or the dtype is
            /// not a float.
            fn nan_quantile(x: Tensor, q: Float, axis: Int) {
                let fraction: f64 = rt::fraction("nan_quantile", x.aval(), q, axis);
                let count = (!x.is_nan()).cast(DType::F64).sum_keepdims(axis);
                let place = (count - 1.0).maximum(0.0) * fraction;
                let first = place.floor();
                let share = (&place - &first).cast(x.dtype());
                // NaN is the last of the sorted elements.
                let sorted = x.sort(axis);
                let lower = sorted.take_along_axis(first.cast(DType::I64), axis);
                let upper = sorted.take_along_axis(place.ceil().cast(DType::I64), axis);
                let between = &lower * (1.0 - &share) + &upper * &share;
                // A product of 0 and an infinite element is NaN.
                share.eq(0.0).select(&lower, &between).squeeze(axis)
            }

            /// The index of the first largest element over axes that is not NaN, as `i64`. The axes are
            /// dropped.
            ///
            /// It is -1 if all are NaN, as in `jax.numpy.nanargmax`. It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 2.0]).nan_argmax(..).item::<i64>(), 2);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or has length 0, or the dtype is not a float.
            fn nan_argmax(x: Tensor, axes: Static) {
                let none = x.is_nan();
                let largest = none.select(f64::NEG_INFINITY, x).max_keepdims(axes);
                // NaN does not equal the largest element, even if that is an infinity.
                none.all(axes).select(-1, x.eq(&largest).argmax(axes))
            }

            /// The index of the first smallest element over axes that is not NaN, as `i64`. The axes are
            /// dropped.
            ///
            /// It is -1 if all are NaN, as in `jax.numpy.nanargmin`. It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// assert_eq!(Tensor::from([f32::NAN, 1.0, 2.0]).nan_argmin(..).item::<i64>(), 1);
            /// ```
            ///
            /// # Panics
            ///
            /// If an axis is out of range or has length 0, or the dtype is not a float.
            fn nan_argmin(x: Tensor, axes: Static) {
                let none = x.is_nan();
                let smallest = none.select(f64::INFINITY, x).min_keepdims(axes);
                none.all(axes).select(-1, x.eq(&smallest).argmax(axes))
            }

            /// The slope along an axis of elements at the distance `spacing`, by differences.
            ///
            /// Inside it is `(x[i + 1] - x[i - 1]) / (2 spacing)`. At both ends it is the difference of the
            /// last two elements, divided by `spacing`, as in `jax.numpy.gradient`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 5.0]);
            /// assert_eq!(x.gradient(0.5, 0).to_vec::<f32>(), [2.0, 4.0, 6.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis is out of range or shorter than 2, or the dtype is `bool`.
            fn gradient(x: Tensor, spacing: Float, axis: Int) {
                let n: usize = rt::slope_len(x.aval(), axis);
                let rows = x.moveaxis(axis, 0);
                let first = rows.slice([1], [2], [1]) - rows.slice([0], [1], [1]);
                let last = rows.slice([n - 1], [n], [1]) - rows.slice([n - 2], [n - 1], [1]);
                let inside = rows.slice([2], [n], [1]) - rows.slice([0], [n - 2], [1]);
                let slopes = [first / spacing, inside / (2.0 * spacing), last / spacing];
                Tensor::concat(&slopes, 0).moveaxis(0, axis)
            }

            /// The tensor with `values` as an additional slice of an axis, before the index `at`.
            ///
            /// `values` broadcasts to the shape without the axis. An index of the length of the axis
            /// appends, and a negative one counts from the end.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
            /// let y = x.insert_slice(1, &Tensor::from([8.0f32, 9.0]), 1);
            /// assert_eq!(y.to_vec::<f32>(), [1.0, 8.0, 2.0, 3.0, 9.0, 4.0]);
            /// assert_eq!(x.insert_slice(2, 0.0, 0).shape(), [3, 2]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis or the index is out of range, `values` does not broadcast, or the dtypes cannot
            /// be promoted.
            fn insert_slice(x: Tensor, at: Int, values: Operand, axis: Int) {
                let place: usize = rt::insert_place(x.aval(), at, axis);
                let n: usize = x.dim(axis as isize);
                let rows = x.moveaxis(axis, 0);
                let (low, high) = (rows.slice([0], [place], [1]), rows.slice([place], [n], [1]));
                let added = values.broadcast_to(rt::slice_lens(x.aval(), axis)).unsqueeze(0);
                Tensor::concat(&[low, added, high], 0).moveaxis(0, axis)
            }

            /// The tensor without the slice at the index `at` of an axis.
            ///
            /// A negative index counts from the end.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
            /// assert_eq!(x.delete_slice(1, 0).to_vec::<f32>(), [1.0, 3.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the axis or the index is out of range.
            fn delete_slice(x: Tensor, at: Int, axis: Int) {
                let place: usize = rt::delete_place(x.aval(), at, axis);
                let n: usize = x.dim(axis as isize);
                let rows = x.moveaxis(axis, 0);
                let (low, high) = (rows.slice([0], [place], [1]), rows.slice([place + 1], [n], [1]));
                Tensor::concat(&[low, high], 0).moveaxis(0, axis)
            }

            /// Each matrix of the last two axes with `value` on its main diagonal.
            ///
            /// `value` is a number, or a tensor that broadcasts: a vector has a number for each column.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
            /// assert_eq!(x.fill_diagonal(0.0).to_vec::<f32>(), [0.0, 2.0, 3.0, 0.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If there are less than two axes, the shapes do not broadcast, or the dtypes cannot be
            /// promoted.
            fn fill_diagonal(x: Tensor, value: Operand) {
                let lens = rt::matrix_lens("fill_diagonal", x.aval());
                let rows = Tensor::arange(lens[0] as i64, DType::I64).unsqueeze(-1);
                let columns = Tensor::arange(lens[1] as i64, DType::I64);
                rows.eq(&columns).select(value, x)
            }

            /// 0 for elements from `-bound` to `bound`, and the element elsewhere. NaN stays NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([-2.0f32, 0.5, 1.5]);
            /// assert_eq!(x.hard_shrink(0.5).to_vec::<f32>(), [-2.0, 0.0, 1.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float, or `bound` is negative or NaN.
            fn hard_shrink(x: Tensor, bound: Float) {
                let limit: f64 = rt::shrink_bound("hard_shrink", x.aval(), bound);
                x.abs().le(limit).select(0.0, x)
            }

            /// Each element moved by `bound` towards 0: 0 from `-bound` to `bound`. NaN stays NaN.
            ///
            /// The derivative is 1 outside of this range, 0 inside, and 1/2 at its ends.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([-2.0f32, 0.5, 1.5]);
            /// assert_eq!(x.soft_shrink(0.5).to_vec::<f32>(), [-1.5, 0.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float, or `bound` is negative or NaN.
            fn soft_shrink(x: Tensor, bound: Float) {
                let limit: f64 = rt::shrink_bound("soft_shrink", x.aval(), bound);
                x - x.clamp(-limit, limit)
            }

            /// Each element above `limit`, and `value` elsewhere. NaN stays NaN.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([-2.0f32, 0.5, 1.5]);
            /// assert_eq!(x.threshold(0.5, -1.0).to_vec::<f32>(), [-1.0, -1.0, 1.5]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, the dtypes cannot be promoted, or a number does not fit the
            /// dtype.
            fn threshold(x: Tensor, limit: Float, value: Operand) {
                x.le(limit).select(value, x)
            }

            /// The sign of the gamma function of each element: 1 or -1, and NaN at negative integers and
            /// negative infinity. Takes floats.
            ///
            /// [`Tensor::lgamma`] is the logarithm of its magnitude. It has no derivative.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([2.5f32, -0.5, -1.5]);
            /// assert_eq!(x.gammasgn().to_vec::<f32>(), [1.0, -1.0, 1.0]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the dtype is not a float.
            fn gammasgn(x: Tensor) {
                let floor = x.floor();
                let is_odd = floor.mod_floor(2.0).eq(1.0);
                let negative = x.signbit() & (is_odd | x.eq(0.0));
                let undefined = x.is_nan() | (x.lt(0.0) & x.eq(&floor));
                undefined.select(f64::NAN, negative.select(x.full_like(-1.0), x.ones_like()))
            }

            /// The beta function `gamma(x) gamma(y) / gamma(x + y)`. Takes floats.
            ///
            /// At zero and negative integers it is infinite, except where the other operand is a positive
            /// integer `n` and `x + n < 1`: there it is `(-1)^n beta(1 - x - n, n)`, as in
            /// `scipy.special.beta`, and the derivative is not defined. The relative error is that of
            /// [`Tensor::betaln`], or of [`Tensor::lgamma`] for negative operands, times its magnitude.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let y = Tensor::from([1.0f64, -0.5]).beta(1.0);
            /// assert!((y - Tensor::from([1.0f64, -2.0])).abs().max(..).item::<f64>() < 1e-14);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn beta(x: Tensor, y: Operand) {
                let (x_is_pole, y_is_pole) =
                    (x.le(0.0) & x.eq(x.floor()), y.le(0.0) & y.eq(y.floor()));
                let is_pole = &x_is_pole | &y_is_pole;
                let n = x_is_pole.select(y, x);
                let other = 1.0 - x - y;
                let reflected = &is_pole & n.gt(0.0) & n.eq(n.floor()) & other.gt(0.0);
                let positive = x.gt(0.0) & y.gt(0.0);
                // Each branch has operands for which it is finite, so that its gradient is, too.
                let a = positive.select(x, reflected.select(&other, 1.0));
                let b = positive.select(y, reflected.select(&n, 1.0));
                let minus = &reflected & n.mod_floor(2.0).eq(1.0);
                let size = a.betaln(&b).exp();
                let near = minus.select(-&size, &size);
                let usual = &positive | &is_pole;
                let (p, q) = (usual.select(1.0, x), usual.select(1.0, y));
                let sum = &p + &q;
                // The gamma function of the sum is infinite there, and its sign does not matter.
                let sum_is_pole = sum.le(0.0) & sum.eq(sum.floor());
                let sign = p.gammasgn() * q.gammasgn() * sum_is_pole.select(1.0, &sum).gammasgn();
                let far = sign * (p.lgamma() + q.lgamma() - sum.lgamma()).exp();
                let infinite = &is_pole & !reflected;
                infinite.select(f64::INFINITY, usual.select(near, far))
            }

            /// The rising factorial `gamma(x + y) / gamma(x)`, also called the Pochhammer symbol, with
            /// broadcasting. Takes floats.
            ///
            /// At poles of the gamma function it is as in `scipy.special.poch`: infinite where only
            /// `x + y` is one, 0 where only `x` is one, and their limit where both are. There, the
            /// derivative is not defined. It is computed in `f64`. The relative error is 1e-15 times the magnitude
            /// of the logarithm, and near a pole that of the rounding of `x + y`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([3.0f64, -2.0, 1.0, -1.0]);
            /// let y = x.poch(&Tensor::from([2.0f64, 1.0, -1.0, 2.0]));
            /// let expected = Tensor::from([12.0f64, -2.0, f64::INFINITY, 0.0]);
            /// assert!(y.is_close(&expected, 1e-14, 0.0).all(..).item::<bool>());
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn poch(x: Tensor, y: Operand) {
                // The sum of a small number and an integer would lose the small one, and products of derivatives would
                // overflow, where the result is an `f32`.
                let narrow = x + y;
                let (start, step) = (x.cast(DType::F64), (narrow.zeros_like() + y).cast(DType::F64));
                let sum = &start + &step;
                let x_is_pole = start.le(0.0) & start.eq(start.floor());
                let sum_is_pole = sum.le(0.0) & sum.eq(sum.floor());
                let both = &x_is_pole & &sum_is_pole;
                let either = &x_is_pole | &sum_is_pole;
                // Reflection leads from two poles to positive integers. Each branch has operands for which
                // it is finite, so that its gradient is, too.
                let top = both.select(1.0 - &start, either.select(1.0, &sum));
                let bottom = both.select(1.0 - &sum, either.select(1.0, &start));
                let large = top.ge(8.0) & bottom.ge(8.0);
                let near = large.select(1.0, &top).lgamma() - large.select(1.0, &bottom).lgamma();
                // Differences of large logarithms would lose digits. Stirling's series cancels them.
                let (p, q) = (large.select(&top, 8.0), large.select(&bottom, 8.0));
                let change = large.select(&step, 0.0);
                let rest = |z: &Tensor| {
                    let u = 1.0 / z.square();
                    let late = 1.0 / 1188.0 - &u * (691.0 / 360360.0 - &u / 156.0);
                    let late = 1.0 / 1260.0 - &u * (1.0 / 1680.0 - &u * late);
                    (1.0 / 12.0 - &u * (1.0 / 360.0 - &u * late)) / z
                };
                let far = (&p - 0.5) * (&change / &q).log1p() + &change * (q.log() - 1.0)
                    + rest(&p) - rest(&q);
                let size = large.select(far, near).exp();
                let odd = &both & step.mod_floor(2.0).eq(1.0);
                let sign = either.select(1.0, &sum).gammasgn() * either.select(1.0, &start).gammasgn();
                let value = odd.select(-&sign, &sign) * &size;
                let one_is_pole = &either & !both;
                let limit = x_is_pole.select(size.zeros_like(), size.full_like(f64::INFINITY));
                one_is_pole.select(limit, value).cast(narrow.dtype())
            }

            /// The terms `x log(x / y)` of the relative entropy, with broadcasting. Takes floats.
            ///
            /// A term is 0 where `x` is 0 and `y` is not negative, and infinite where an operand is
            /// negative or only `y` is 0, as in `scipy.special.rel_entr`.
            ///
            /// ```
            /// # use gradloom::Tensor;
            /// let x = Tensor::from([1.0f64, 0.0, 1.0]);
            /// let terms = x.rel_entr(&Tensor::from([0.5f64, 0.5, 0.0]));
            /// assert_eq!(terms.to_vec::<f64>(), [2f64.ln(), 0.0, f64::INFINITY]);
            /// ```
            ///
            /// # Panics
            ///
            /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
            fn rel_entr(x: Tensor, y: Operand) {
                let positive = x.gt(0.0) & y.gt(0.0);
                // Each branch has operands for which it is finite, so that its gradient is, too.
                let (a, b) = (positive.select(x, 1.0), positive.select(y, 1.0));
                let difference = a.log() - b.log();
                let (near, far) = (difference.abs().lt(0.5), difference.abs().gt(50.0));
                let (c, d) = (far.select(1.0, &a), far.select(1.0, &b));
                let close = near.select((&c - &d) / &d, 0.0).log1p();
                let between = near.select(1.0, &c / &d).log();
                let log = far.select(&difference, near.select(close, between));
                let unknown = x.is_nan() | y.is_nan();
                let none = x.eq(0.0) & y.ge(0.0);
                let rest = unknown.select(f64::NAN, none.select(0.0, a.full_like(f64::INFINITY)));
                positive.select(&a * log, rest)
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
