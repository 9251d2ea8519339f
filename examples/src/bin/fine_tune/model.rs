//! The classifier, and two classifiers whose encoder is not trained.

use crate::text::{Numbers, PARTS};
use gradloom::optim::{AdamW, Adapter, Lora};
use gradloom::prelude::*;
use gradloom_data::{Batches, Padded};
use gradloom_examples::minilm::MiniLm;
use gradloom_nn::{Layer, Linear};
use std::collections::BTreeMap;
use std::error::Error;

/// Factor of cosines in the scores.
const SHARPNESS: f64 = 20.0;

/// An encoder of comments, and an affine map from embeddings to scores of parts.
#[derive(Clone, Tree)]
pub(crate) struct Classifier {
    pub(crate) encoder: MiniLm,
    pub(crate) head: Linear,
}

#[traced]
impl Classifier {
    /// Returns scores `[batch, 5]`.
    fn scores(&self, #[nodiff] ids: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
        self.head.forward(&self.encoder.embed(ids, mask))
    }
}

#[traced]
pub(crate) fn loss(
    model: &Classifier,
    #[nodiff] ids: &Tensor,
    #[nodiff] mask: &Tensor,
    #[nodiff] parts: &Tensor,
) -> Tensor {
    model.scores(ids, mask).cross_entropy(parts)
}

/// What is trained with `--lora`: adapters of the encoder, and the head.
#[derive(Clone, Tree)]
pub(crate) struct Adapted {
    pub(crate) adapters: BTreeMap<String, Adapter>,
    pub(crate) head: Linear,
}

impl Adapted {
    /// Returns the classifier with the adapters in its encoder.
    pub(crate) fn classifier(&self, lora: &Lora, encoder: &MiniLm) -> Classifier {
        Classifier {
            encoder: lora.merge(encoder, &self.adapters),
            head: self.head.clone(),
        }
    }
}

/// Returns the mean loss, and the share of right parts.
pub(crate) fn measure(
    model: &Classifier,
    batches: &Batches<Padded<Numbers>>,
) -> Result<(f32, f32), Box<dyn Error>> {
    let (mut total, mut hits, mut n) = (0.0, 0.0, 0.0);
    for batch in batches.epoch(0) {
        let ((ids, parts), mask) = batch?;
        let scores = model.scores(&ids, &mask);
        let (batch_loss, batch_hits) = (scores.cross_entropy(&parts), hits_of(&scores, &parts));
        evaluate((&batch_loss, &batch_hits))?;
        let size = ids.dim(0) as f32;
        total += batch_loss.item::<f32>() * size;
        hits += batch_hits.item::<f32>();
        n += size;
    }
    Ok((total / n, hits / n))
}

/// Returns the number of rows whose greatest score is that of the part.
fn hits_of(scores: &Tensor, parts: &Tensor) -> Tensor {
    scores.argmax(-1).eq(parts).cast(DType::F32).sum(..)
}

/// Embeddings of comments by an encoder that is not trained.
pub(crate) struct Embedded {
    x: Tensor,
    parts: Tensor,
}

impl Embedded {
    pub(crate) fn new(
        encoder: &MiniLm,
        batches: &Batches<Padded<Numbers>>,
    ) -> Result<Embedded, Box<dyn Error>> {
        let (mut xs, mut all_parts) = (Vec::new(), Vec::new());
        for batch in batches.epoch(0) {
            let ((ids, parts), mask) = batch?;
            let x = encoder.embed(&ids, &mask);
            evaluate(&x)?;
            xs.push(x);
            all_parts.push(parts);
        }
        let embedded = Embedded {
            x: Tensor::concat(&xs, 0),
            parts: Tensor::concat(&all_parts, 0),
        };
        evaluate((&embedded.x, &embedded.parts))?;
        Ok(embedded)
    }

    /// Returns a head whose scores are the cosines with the mean embedding of each part.
    pub(crate) fn centroids(&self) -> Result<Linear, Box<dyn Error>> {
        let is_of = self.parts.one_hot(PARTS.len(), DType::F32);
        let sums = is_of.t().matmul(&self.x);
        let head = Linear {
            weight: &sums / sums.norm_keepdims(-1) * SHARPNESS,
            scale: None,
            bias: Some(Tensor::zeros([PARTS.len()], DType::F32)),
        };
        evaluate(&head)?;
        Ok(head)
    }

    /// Trains a head on all embeddings, in 300 steps.
    pub(crate) fn trained(&self, mut head: Linear) -> Result<Linear, Box<dyn Error>> {
        let adam = AdamW {
            lr: 1e-2,
            ..AdamW::default()
        };
        let mut state = adam.init(&head);
        for _ in 0..300 {
            let gradient = head_loss::grad(&head, &self.x, &self.parts).head;
            (head, state) = adam.step(&head, &gradient, &state);
            evaluate((&head, &state))?;
        }
        Ok(head)
    }

    /// Returns the share of the part that has the most comments.
    pub(crate) fn share_of_most_frequent(&self) -> f32 {
        let shares = self.parts.one_hot(PARTS.len(), DType::F32).mean(0);
        shares.max(..).item::<f32>()
    }

    /// Returns the share of right parts.
    pub(crate) fn accuracy(&self, head: &Linear) -> f32 {
        let hits = hits_of(&head.forward(&self.x), &self.parts);
        hits.item::<f32>() / self.x.dim(0) as f32
    }
}

#[traced]
fn head_loss(head: &Linear, #[nodiff] x: &Tensor, #[nodiff] parts: &Tensor) -> Tensor {
    head.forward(x).cross_entropy(parts)
}
