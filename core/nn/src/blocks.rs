use crate::Layer;
use gradloom::prelude::*;

/// Layers of one type, one after the other.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::{Layer, Linear, Sequential};
///
/// let keys = Key::new(0).split_many(3);
/// let layers = keys.into_iter().map(|key| Linear::new(key, 4, 4)).collect();
/// let y = Sequential { layers }.forward(&Tensor::ones([2, 4], DType::F32));
/// assert_eq!(y.shape(), [2, 4]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Sequential<L> {
    /// The layers, the first first.
    pub layers: Vec<L>,
}

#[traced]
impl<L: Layer + Tree> Layer for Sequential<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for layer in &self.layers {
            h = layer.forward(&h);
        }
        h
    }
}

/// Two layers, one after the other.
#[derive(Clone, Debug, Tree)]
pub struct Chain<A, B> {
    /// The layer that sees the input.
    pub first: A,
    /// The layer that sees the result of the first.
    pub second: B,
}

#[traced]
impl<A: Layer + Tree, B: Layer + Tree> Layer for Chain<A, B> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.first.forward(x);
        self.second.forward(&h)
    }
}

/// `x + layer(x)`.
#[derive(Clone, Debug, Tree)]
pub struct Residual<L> {
    /// The layer whose result is added.
    pub layer: L,
}

#[traced]
impl<L: Layer + Tree> Layer for Residual<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        x + self.layer.forward(x)
    }
}
