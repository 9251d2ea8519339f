//! The trace points of the document, in a transformer with its two paths.

use crate::{names_of, records_of};
use gradloom::dump::{Config, diff, read, scope, with_config};
use gradloom::prelude::*;
use std::path::Path;

const LAYERS: usize = 2;

#[derive(Clone, Tree)]
struct Blk {
    gain: Tensor,
    w: Tensor,
}

#[traced]
impl Blk {
    fn forward(&self, x: &Tensor) -> Tensor {
        let attn_norm = x.rms_norm(&self.gain, 1e-5);
        let q_proj = attn_norm.matmul(&self.w);
        let attn_scores_softmax = q_proj.matmul(attn_norm.swap_axes(0, 1)).softmax(-1);
        x + attn_scores_softmax.matmul(&attn_norm)
    }
}

#[derive(Clone, Tree)]
struct Model {
    words: Tensor,
    layers: Vec<Blk>,
}

#[traced]
impl Model {
    /// All tokens at once.
    fn forward_full(&self, #[nodiff] tokens: &Tensor) -> Tensor {
        let embeddings = self.words.take(tokens, 0);
        let mut x = embeddings * 1.0;
        for layer in &self.layers {
            x = layer.forward(&x);
        }
        let logits = x.matmul(self.words.swap_axes(0, 1));
        logits * 1.0
    }

    /// The last token only.
    fn forward_incremental(&self, #[nodiff] tokens: &Tensor) -> Tensor {
        let last = tokens.i(-1..);
        let embeddings = self.words.take(&last, 0);
        let logits = embeddings.matmul(self.words.swap_axes(0, 1));
        logits * 1.0
    }
}

fn model() -> Model {
    let keys: [Key; LAYERS] = Key::new(1).split_n();
    let layers = keys.into_iter().map(|key| Blk {
        gain: Tensor::ones([4], DType::F32),
        w: key.normal([4, 4], DType::F32),
    });
    let layers = layers.collect();
    Model {
        words: Key::new(2).normal([6, 4], DType::F32),
        layers,
    }
}

fn run(model: &Model, n: usize, folder: &Path) {
    let tokens = Tensor::from([1i64, 3, 2]);
    with_config(
        Config::new(folder).points("*,!*/x,!*/last").with_values(),
        || {
            for step in 0..n {
                let _step = scope(&format!("t{step}"));
                match step {
                    0 => drop(model.forward_full(&tokens)),
                    _ => drop(model.forward_incremental(&tokens)),
                }
            }
        },
    );
}

/// S3.27, S3.28: embeddings, norm, projection, scores and logits, on both paths.
#[test]
fn a_transformer_has_the_points_of_the_document() {
    let folder = tempfile::tempdir().unwrap();
    run(&model(), 2, folder.path());
    assert_eq!(
        names_of(folder.path()),
        [
            "t0/model.forward_full/embeddings",
            "t0/model.forward_full/blk0/attn_norm",
            "t0/model.forward_full/blk0/q_proj",
            "t0/model.forward_full/blk0/attn_scores_softmax",
            "t0/model.forward_full/blk1/attn_norm",
            "t0/model.forward_full/blk1/q_proj",
            "t0/model.forward_full/blk1/attn_scores_softmax",
            "t0/model.forward_full/logits",
            "t1/model.forward_incremental/embeddings",
            "t1/model.forward_incremental/logits",
        ]
    );
    // The fields are those that the names say.
    for record in records_of(folder.path()) {
        assert_eq!(record.seq_index, record.parse_sequence_index());
        assert_eq!(record.layer_idx, record.parse_layer_index());
    }
}

/// S3.42, S3.43: two deterministic runs are equal, and a changed weight is found in its layer.
#[test]
fn a_changed_weight_is_found_in_its_layer() {
    for n in [1, 2, 4] {
        let folders = [0, 1, 2].map(|_| tempfile::tempdir().unwrap());
        let mut other = model();
        other.layers[1].w = &other.layers[1].w + 1e-3;
        for (folder, model) in folders.iter().zip([&model(), &model(), &other]) {
            run(model, n, folder.path());
        }
        let [a, b, c] =
            folders.map(|folder| read(folder.path()).map(|trace| (trace, folder)).unwrap());
        assert!(diff(&a.0, &b.0, 0.0).unwrap().is_equal());
        let found = diff(&a.0, &c.0, 0.0).unwrap();
        let first = found.first().unwrap();
        assert_eq!(
            (&*first.name, first.layer),
            ("t0/model.forward_full/blk1/q_proj", Some(1))
        );
        let values = first.values.as_ref().unwrap();
        assert!(values.cosine_similarity > 0.99 && values.max_difference > 0.0);
    }
}
