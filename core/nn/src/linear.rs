use crate::{Layer, init};
use gradloom::defaults;
use gradloom::prelude::*;

/// An affine map of the last axis: `x W^T + b`.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::{Layer, Linear};
///
/// let layer = Linear::new(Key::new(0), 3, 5);
/// assert_eq!(layer.forward(&Tensor::ones([2, 7, 3], DType::F32)).shape(), [2, 7, 5]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Returns a layer with weights of [`init::fan_in_uniform`] and a bias of zeros.
    pub fn new(key: Key, inputs: usize, outputs: usize) -> Linear {
        let bias = Tensor::zeros([outputs], defaults::dtype());
        Linear {
            bias: Some(bias),
            ..Linear::without_bias(key, inputs, outputs)
        }
    }

    /// Returns a layer with weights of [`init::fan_in_uniform`] and no bias.
    pub fn without_bias(key: Key, inputs: usize, outputs: usize) -> Linear {
        Linear {
            weight: init::fan_in_uniform(key, [outputs, inputs]),
            bias: None,
        }
    }
}

#[traced]
impl Layer for Linear {
    /// Maps `[.., inputs]` to `[.., outputs]`. Panics if the last axis has another length.
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(self.weight.t());
        match &self.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }
}

/// A table of vectors, looked up by integers.
///
/// ```
/// use gradloom::{Key, Tensor};
/// use gradloom_nn::Embedding;
///
/// let table = Embedding::new(Key::new(0), 10, 4);
/// assert_eq!(table.look_up(&Tensor::from([[1i64, 2, 3]])).shape(), [1, 3, 4]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Embedding {
    /// `[entries, width]`.
    pub weight: Tensor,
}

impl Embedding {
    /// Returns a table of normal numbers.
    pub fn new(key: Key, entries: usize, width: usize) -> Embedding {
        Embedding {
            weight: init::normal(key, [entries, width], 1.0),
        }
    }
}

#[traced]
impl Embedding {
    /// Maps integers `[..]` to their vectors `[.., width]`.
    ///
    /// An integer out of range is an error when the value is computed.
    pub fn look_up(&self, #[nodiff] ids: &Tensor) -> Tensor {
        self.weight.take(ids, 0)
    }
}
