use crate::{Layer, init};
use gradloom::defaults;
use gradloom::prelude::*;

/// An affine map of the last axis: `x W^T + b`.
///
/// The weights may have a dtype of 16 bits beside an input of `f32`, which halves the memory that a step of decoding
/// reads, or be [quantised](Linear::quantized).
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
    /// `[outputs]`: what the rows of quantised weights are multiplied with.
    pub scale: Option<Tensor>,
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
            scale: None,
            bias: None,
        }
    }

    /// Returns the layer with weights of dtype `i8`, whose rows have scales.
    ///
    /// Row `i` is `scale[i]` times whole numbers from -127 to 127, the nearest to the weights: the scale is the greatest
    /// magnitude in the row divided by 127. So a weight changes by at most half of the scale. The quantised weights have
    /// no gradient, but the scales, the bias and the input have theirs.
    ///
    /// ```
    /// use gradloom::{DType, Key, Tensor};
    /// use gradloom_nn::{Layer, Linear};
    ///
    /// let layer = Linear::new(Key::new(0), 64, 5);
    /// let small = layer.quantized();
    /// assert_eq!(small.weight.dtype(), DType::I8);
    /// let x = Key::new(1).normal([3, 64], DType::F32);
    /// let error = (layer.forward(&x) - small.forward(&x)).abs().max(..);
    /// assert!(error.item::<f32>() < 0.02);
    /// ```
    ///
    /// # Panics
    ///
    /// If the weights are quantised already.
    #[must_use]
    pub fn quantized(&self) -> Linear {
        assert!(self.scale.is_none(), "the weights are quantised already");
        let weight = self.weight.cast(self.weight.dtype().computed());
        let greatest = weight.abs().max(1);
        // A row of zeros has any scale.
        let scale = greatest.eq(0.0).select(1.0, greatest / 127.0);
        let weight = (weight / scale.unsqueeze(1)).round().cast(DType::I8);
        Linear {
            weight,
            scale: Some(scale),
            bias: self.bias.clone(),
        }
    }
}

#[traced]
impl Layer for Linear {
    /// Maps `[.., inputs]` to `[.., outputs]`. Panics if the last axis has another length.
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(self.weight.t());
        let y = match &self.scale {
            Some(scale) => y * scale,
            None => y,
        };
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
