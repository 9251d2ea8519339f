use gradloom::prelude::*;

/// A function of each element that a layer applies.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom_nn::Activation;
///
/// assert_eq!(Activation::Relu.apply(&Tensor::from([-1.0f32, 2.0])).to_vec::<f32>(), [0.0, 2.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// [`Tensor::relu`].
    Relu,
    /// [`Tensor::gelu`].
    Gelu,
    /// [`Tensor::gelu_tanh`].
    GeluTanh,
    /// [`Tensor::silu`].
    Silu,
    /// [`Tensor::tanh`].
    Tanh,
    /// [`Tensor::sigmoid`].
    Sigmoid,
}

#[traced]
impl Activation {
    /// Returns the function of each element of `x`. `x` is a float.
    pub fn apply(#[fixed] self, x: &Tensor) -> Tensor {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => x.sigmoid(),
        }
    }
}
