use crate::{Activation, KeyValueCache, Layer, LayerNorm, Linear, MultiHeadAttention};
use gradloom::prelude::*;

/// Two affine maps with a function of each element between them.
#[derive(Clone, Debug, Tree)]
pub struct FeedForward {
    /// To the hidden width.
    pub up: Linear,
    /// Back to the width of the input.
    pub down: Linear,
    /// The function of each hidden element.
    #[tree(skip)]
    pub activation: Activation,
}

impl FeedForward {
    /// Returns random maps from `width` to `hidden` and back.
    pub fn new(key: Key, width: usize, hidden: usize, activation: Activation) -> FeedForward {
        let [up, down] = key.split_n();
        FeedForward {
            up: Linear::new(up, width, hidden),
            down: Linear::new(down, hidden, width),
            activation,
        }
    }

    /// Returns the maps with [quantised](Linear::quantized) weights.
    #[must_use]
    pub fn quantized(&self) -> FeedForward {
        FeedForward {
            up: self.up.quantized(),
            down: self.down.quantized(),
            ..self.clone()
        }
    }
}

#[traced]
impl Layer for FeedForward {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.activation.apply(&self.up.forward(x));
        self.down.forward(&h)
    }
}

/// Where a transformer normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormPlace {
    /// The input of each part, as in GPT-2.
    Before,
    /// The sum of the input and the result of each part, as in BERT.
    After,
}

/// Self-attention and a feed-forward part, each added to its input.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::{Activation, EncoderLayer, NormPlace};
///
/// let layer = EncoderLayer::new(Key::new(0), 16, 4, 64, Activation::Gelu, NormPlace::Before);
/// let x = Tensor::ones([2, 5, 16], DType::F32);
/// assert_eq!(layer.encode(&x, None).shape(), [2, 5, 16]);
/// assert_eq!(layer.encode_before(&x).shape(), [2, 5, 16]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct EncoderLayer {
    /// The first part.
    pub attention: MultiHeadAttention,
    /// The norm of the first part.
    pub attention_norm: LayerNorm,
    /// The second part.
    pub feed_forward: FeedForward,
    /// The norm of the second part.
    pub feed_forward_norm: LayerNorm,
    /// Where the norms are.
    #[tree(skip)]
    pub place: NormPlace,
}

impl EncoderLayer {
    /// Returns a random layer. The norms add 1e-5 to the variance.
    ///
    /// # Panics
    ///
    /// If `heads` does not divide `width`.
    pub fn new(
        key: Key,
        width: usize,
        heads: usize,
        hidden: usize,
        activation: Activation,
        place: NormPlace,
    ) -> EncoderLayer {
        let [a, b] = key.split_n();
        EncoderLayer {
            attention: MultiHeadAttention::new(a, width, heads),
            attention_norm: LayerNorm::new(width, 1e-5),
            feed_forward: FeedForward::new(b, width, hidden, activation),
            feed_forward_norm: LayerNorm::new(width, 1e-5),
            place,
        }
    }

    /// Returns the layer with [quantised](Linear::quantized) weights.
    #[must_use]
    pub fn quantized(&self) -> EncoderLayer {
        EncoderLayer {
            attention: self.attention.quantized(),
            feed_forward: self.feed_forward.quantized(),
            ..self.clone()
        }
    }
}

#[traced]
impl EncoderLayer {
    /// Maps `[batch, n, width]` to the same shape. A place sees those that the mask allows, which is as in
    /// [`Tensor::masked_attention`].
    pub fn encode(&self, x: &Tensor, #[nodiff] mask: Option<&Tensor>) -> Tensor {
        match self.place {
            NormPlace::Before => {
                let h = x + self.attention.attend(&self.attention_norm.forward(x), mask);
                &h + self
                    .feed_forward
                    .forward(&self.feed_forward_norm.forward(&h))
            }
            NormPlace::After => {
                let h = self
                    .attention_norm
                    .forward(&(x + self.attention.attend(x, mask)));
                self.feed_forward_norm
                    .forward(&(&h + self.feed_forward.forward(&h)))
            }
        }
    }

    /// As [`encode`](EncoderLayer::encode), where a place sees itself and those before: a layer of a GPT.
    pub fn encode_before(&self, x: &Tensor) -> Tensor {
        match self.place {
            NormPlace::Before => {
                let h = x + self
                    .attention
                    .attend_before(&self.attention_norm.forward(x));
                &h + self
                    .feed_forward
                    .forward(&self.feed_forward_norm.forward(&h))
            }
            NormPlace::After => {
                let h = self
                    .attention_norm
                    .forward(&(x + self.attention.attend_before(x)));
                self.feed_forward_norm
                    .forward(&(&h + self.feed_forward.forward(&h)))
            }
        }
    }

    /// As [`encode_before`](EncoderLayer::encode_before) for the next places, with those before in the cache.
    pub fn step(&self, x: &Tensor, cache: &KeyValueCache) -> (Tensor, KeyValueCache) {
        match self.place {
            NormPlace::Before => {
                let (y, cache) = self.attention.step(&self.attention_norm.forward(x), cache);
                let h = x + y;
                let y = &h
                    + self
                        .feed_forward
                        .forward(&self.feed_forward_norm.forward(&h));
                (y, cache)
            }
            NormPlace::After => {
                let (y, cache) = self.attention.step(x, cache);
                let h = self.attention_norm.forward(&(x + y));
                let y = self
                    .feed_forward_norm
                    .forward(&(&h + self.feed_forward.forward(&h)));
                (y, cache)
            }
        }
    }
}

/// Causal self-attention, attention to a memory, and a feed-forward part, each added to its input.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::{Activation, DecoderLayer};
///
/// let layer = DecoderLayer::new(Key::new(0), 16, 4, 64, Activation::Relu);
/// let (x, memory) = (Tensor::ones([2, 5, 16], DType::F32), Tensor::ones([2, 7, 16], DType::F32));
/// assert_eq!(layer.decode(&x, &memory, None).shape(), [2, 5, 16]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct DecoderLayer {
    /// The first part.
    pub attention: MultiHeadAttention,
    /// The norm before the first part.
    pub attention_norm: LayerNorm,
    /// The second part.
    pub memory_attention: MultiHeadAttention,
    /// The norm before the second part.
    pub memory_norm: LayerNorm,
    /// The third part.
    pub feed_forward: FeedForward,
    /// The norm before the third part.
    pub feed_forward_norm: LayerNorm,
}

impl DecoderLayer {
    /// Returns a random layer. The norms add 1e-5 to the variance.
    ///
    /// # Panics
    ///
    /// If `heads` does not divide `width`.
    pub fn new(
        key: Key,
        width: usize,
        heads: usize,
        hidden: usize,
        activation: Activation,
    ) -> DecoderLayer {
        let [a, b, c] = key.split_n();
        DecoderLayer {
            attention: MultiHeadAttention::new(a, width, heads),
            attention_norm: LayerNorm::new(width, 1e-5),
            memory_attention: MultiHeadAttention::new(b, width, heads),
            memory_norm: LayerNorm::new(width, 1e-5),
            feed_forward: FeedForward::new(c, width, hidden, activation),
            feed_forward_norm: LayerNorm::new(width, 1e-5),
        }
    }

    /// Returns the layer with [quantised](Linear::quantized) weights.
    #[must_use]
    pub fn quantized(&self) -> DecoderLayer {
        DecoderLayer {
            attention: self.attention.quantized(),
            memory_attention: self.memory_attention.quantized(),
            feed_forward: self.feed_forward.quantized(),
            ..self.clone()
        }
    }
}

#[traced]
impl DecoderLayer {
    /// Maps `[batch, n, width]` to the same shape. A place sees itself and those before, and the places of
    /// `memory`, `[batch, m, width]`, that the mask allows.
    pub fn decode(&self, x: &Tensor, memory: &Tensor, #[nodiff] mask: Option<&Tensor>) -> Tensor {
        let h = x + self
            .attention
            .attend_before(&self.attention_norm.forward(x));
        let seen = self.memory_norm.forward(&h);
        let h = &h + self.memory_attention.attend_to(&seen, memory, mask);
        &h + self
            .feed_forward
            .forward(&self.feed_forward_norm.forward(&h))
    }
}
