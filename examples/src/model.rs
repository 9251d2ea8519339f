//! A perceptron with two hidden layers.

use gradloom::prelude::*;

/// An affine map of the rows of a matrix.
#[derive(Clone, Tree)]
pub struct Linear {
    /// `[inputs, outputs]`.
    pub w: Tensor,
    /// `[outputs]`.
    pub b: Tensor,
}

#[traced]
impl Linear {
    /// Returns `x @ w + b` for `x` of shape `[batch, inputs]`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

impl Linear {
    /// Returns a layer with weights of variance `2 / inputs` (He, Zhang, Ren, Sun, "Delving deep
    /// into rectifiers", 2015) and no bias.
    pub fn init(key: Key, inputs: usize, outputs: usize) -> Linear {
        let scale = (2.0 / inputs as f64).sqrt();
        Linear {
            w: key.normal([inputs, outputs], DType::F32) * scale,
            b: Tensor::zeros([outputs], DType::F32),
        }
    }
}

/// The classifier.
#[derive(Clone, Tree)]
pub struct Mlp {
    /// Layer from the pixels to the first hidden layer.
    pub first: Linear,
    /// Layer between the hidden layers.
    pub second: Linear,
    /// Layer from the last hidden layer to the class scores.
    pub last: Linear,
}

impl Mlp {
    /// Returns random layers of these widths: inputs, both hidden layers, outputs.
    pub fn init(key: Key, widths: [usize; 4]) -> Mlp {
        let [first, second, last] = key.split_n();
        Mlp {
            first: Linear::init(first, widths[0], widths[1]),
            second: Linear::init(second, widths[1], widths[2]),
            last: Linear::init(last, widths[2], widths[3]),
        }
    }
}

/// Returns the class scores, of shape `[batch, classes]`.
#[traced]
pub fn logits(model: &Mlp, x: &Tensor) -> Tensor {
    let h1 = model.first.forward(x).relu();
    let h2 = model.second.forward(&h1).relu();
    model.last.forward(&h2)
}

/// Returns the mean cross-entropy of a batch.
#[traced]
pub fn loss(model: &Mlp, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    logits(model, x).cross_entropy(labels)
}

/// Returns the fraction of a batch whose highest score is at the label.
pub fn accuracy(model: &Mlp, x: &Tensor, labels: &Tensor) -> Tensor {
    logits(model, x)
        .argmax(-1)
        .eq(labels)
        .cast(DType::F32)
        .mean(..)
}
