use gradloom::prelude::*;

/// A function of one tensor with parameters.
///
/// Write `#[traced] impl Layer for MyLayer`; a generic model with `L: Layer` is traced as well.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_nn::Layer;
///
/// #[derive(Clone, Tree)]
/// struct Scale { factor: Tensor }
///
/// #[traced]
/// impl Layer for Scale {
///     fn forward(&self, x: &Tensor) -> Tensor { x * &self.factor }
/// }
///
/// let layer = Scale { factor: Tensor::from(3.0f32) };
/// let gradients = layer.forward_grad(&Tensor::from(2.0f32));
/// assert_eq!(gradients.this.factor.item::<f32>(), 2.0);
/// ```
#[traced]
pub trait Layer {
    /// Returns the value of the layer for `x`.
    fn forward(&self, x: &Tensor) -> Tensor;
}
