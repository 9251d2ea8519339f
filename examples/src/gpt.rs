//! A GPT of characters, with a cache of keys and values.

use gradloom::prelude::*;
use gradloom_nn::{
    Activation, Embedding, EncoderLayer, KeyValueCache, Layer, LayerNorm, Linear, NormPlace, init,
};

const LAYERS: usize = 4;
const HEADS: usize = 4;
const TEMPERATURE: f64 = 0.7;

/// The model.
#[derive(Clone, Tree)]
pub struct Gpt {
    characters: Embedding,
    places: Embedding,
    /// Blocks with the norm before each part.
    pub layers: Vec<EncoderLayer>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    /// Returns a random model.
    pub fn new(key: Key, characters: usize, places: usize, width: usize) -> Gpt {
        let [a, b, c, d] = key.split_n();
        let layer = |key| {
            EncoderLayer::new(
                key,
                width,
                HEADS,
                4 * width,
                Activation::Gelu,
                NormPlace::Before,
            )
        };
        Gpt {
            characters: embedding(a, characters, width),
            places: embedding(b, places, width),
            layers: c.split_many(LAYERS).into_iter().map(layer).collect(),
            norm: LayerNorm::new(width, 1e-5),
            head: Linear::new(d, width, characters),
        }
    }
}

/// Returns a table of normal numbers of deviation 0.02, as in GPT-2.
fn embedding(key: Key, entries: usize, width: usize) -> Embedding {
    Embedding {
        weight: init::normal(key, [entries, width], 0.02),
    }
}

#[traced]
impl Gpt {
    /// Returns the scores of the next character at each place of `ids`, `[batch, n]`.
    pub fn logits(&self, #[nodiff] ids: &Tensor) -> Tensor {
        let places = Tensor::arange(ids.dim(1) as i64, DType::I64);
        let mut h = self.characters.look_up(ids) + self.places.look_up(&places);
        for layer in &self.layers {
            h = layer.encode_before(&h);
        }
        self.head.forward(&self.norm.forward(&h))
    }

    /// As [`logits`](Gpt::logits) for the next places, with those before in the caches.
    pub fn step(
        &self,
        #[nodiff] ids: &Tensor,
        caches: &[KeyValueCache],
    ) -> (Tensor, Vec<KeyValueCache>) {
        let places = Tensor::arange(ids.dim(1) as i64, DType::I64) + &caches[0].len;
        let mut h = self.characters.look_up(ids) + self.places.look_up(&places);
        let mut next: Vec<KeyValueCache> = Vec::new();
        for (layer, cache) in self.layers.iter().zip(caches.iter()) {
            let (y, cache) = layer.step(&h, cache);
            h = y;
            next.push(cache);
        }
        (self.head.forward(&self.norm.forward(&h)), next)
    }
}

/// Returns the mean cross-entropy of the next characters.
#[traced]
pub fn loss(model: &Gpt, #[nodiff] ids: &Tensor, #[nodiff] next: &Tensor) -> Tensor {
    model.logits(ids).cross_entropy(next)
}

/// Returns a random next character of each row, and the caches with `ids`.
#[traced]
pub fn next_character(
    model: &Gpt,
    #[nodiff] ids: &Tensor,
    caches: &[KeyValueCache],
    key: Key,
) -> (Tensor, Vec<KeyValueCache>) {
    let (logits, caches) = model.step(ids, caches);
    ((logits / TEMPERATURE).categorical(-1, key), caches)
}
