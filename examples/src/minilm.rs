//! all-MiniLM-L6-v2, a transformer whose embeddings of sentences are near if their meanings are.
//!
//! Wang et al.: MiniLM, 2020; Reimers, Gurevych: Sentence-BERT, 2019.

use gradloom::prelude::*;
use gradloom_files::{FileError, Loader, Report};
use gradloom_nn::{Activation, Embedding, EncoderLayer, Layer, LayerNorm, NormPlace};
use std::path::Path;

/// Width of the embeddings.
pub const WIDTH: usize = 384;

/// The most tokens of a sentence.
pub const LONGEST: usize = 256;

/// The model.
#[derive(Clone, Tree)]
pub struct MiniLm {
    /// `[30522, 384]`.
    pub words: Embedding,
    /// `[512, 384]`.
    pub places: Embedding,
    /// `[2, 384]`, of which sentences use the first.
    pub kinds: Embedding,
    /// The norm of the sum of the three.
    pub norm: LayerNorm,
    /// Six layers.
    pub layers: Vec<EncoderLayer>,
}

impl MiniLm {
    /// Returns a model with random weights, which nothing computes if they are loaded.
    pub fn new(key: Key) -> MiniLm {
        let [words, places, kinds, layers] = key.split_n();
        let layer = |key| {
            let place = NormPlace::After;
            let mut layer = EncoderLayer::new(key, WIDTH, 12, 1536, Activation::Gelu, place);
            (layer.attention_norm.eps, layer.feed_forward_norm.eps) = (1e-12, 1e-12);
            layer
        };
        MiniLm {
            words: Embedding::new(words, 30522, WIDTH),
            places: Embedding::new(places, 512, WIDTH),
            kinds: Embedding::new(kinds, 2, WIDTH),
            norm: LayerNorm::new(WIDTH, 1e-12),
            layers: layers.split_many(6).into_iter().map(layer).collect(),
        }
    }

    /// Loads the published weights, `model.safetensors`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or lacks a weight.
    pub fn load(path: impl AsRef<Path>) -> Result<(MiniLm, Report), FileError> {
        let loader = Loader::new().rename(published).lenient();
        let (model, report) = loader.load(&MiniLm::new(Key::new(0)), path)?;
        Ok((model, report))
    }
}

/// Returns the name of a weight in the published file.
fn published(name: &str) -> String {
    let parts = [
        ("layers.", "encoder.layer."),
        ("attention.output.", "attention.output.dense."),
        ("attention.query.", "attention.self.query."),
        ("attention.key.", "attention.self.key."),
        ("attention.value.", "attention.self.value."),
        ("attention_norm.", "attention.output.LayerNorm."),
        ("feed_forward.up.", "intermediate.dense."),
        ("feed_forward.down.", "output.dense."),
        ("feed_forward_norm.", "output.LayerNorm."),
        ("words.", "embeddings.word_embeddings."),
        ("places.", "embeddings.position_embeddings."),
        ("kinds.", "embeddings.token_type_embeddings."),
    ];
    let name = parts.iter().fold(name.to_owned(), |name, (own, other)| {
        name.replace(own, other)
    });
    match name.strip_prefix("norm.") {
        Some(rest) => format!("embeddings.LayerNorm.{rest}"),
        None => name,
    }
}

#[traced]
impl MiniLm {
    /// Returns embeddings `[batch, 384]` of length 1, of sentences of tokens `[batch, n]`.
    ///
    /// `mask` is `bool`, and false for tokens that fill up a sentence.
    pub fn embed(&self, #[nodiff] ids: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
        let n = ids.dim(1) as i64;
        let places = self.places.weight.slice([0], [n], [1]);
        let kind = self.kinds.weight.row(0);
        let mut h = self
            .norm
            .forward(&(self.words.look_up(ids) + places + kind));
        let seen = mask.unsqueeze([1, 2]);
        for layer in &self.layers {
            h = layer.encode(&h, Some(&seen));
        }
        let share = mask.cast(DType::F32).unsqueeze(-1);
        let mean = (h * &share).sum(1) / share.sum(1);
        &mean / mean.norm_keepdims(-1)
    }
}
