//! Embeddings of sentences by a transformer of six layers, of the sizes of all-MiniLM-L6-v2: W17.

use super::inputs::{ids, model};
use super::measure::{Timer, Unit};
use crate::minilm::MiniLm;
use gradloom::prelude::*;

/// Number of words that the model knows.
const WORDS: usize = 30522;

/// Times embeddings of a sentence, and of a batch whose sentences have 17 to 32 words.
pub(super) fn sentences(timer: &mut Timer) -> Result<()> {
    let model = model(&MiniLm::new(Key::new(0)), 200);
    for (name, batch, longest, shortest) in [("W17_sentence", 1, 16, 16), ("W17_batch", 32, 32, 17)]
    {
        let places = 0..batch * longest;
        let len = |row: usize| longest - row % (longest - shortest + 1);
        let mask = places.map(|i| i % longest < len(i / longest));
        let ids = ids(batch * longest, WORDS, batch);
        let mask = Tensor::from_vec(mask.collect::<Vec<bool>>(), [batch, longest]);
        let found = model.embed(&ids, &mask).to_vec::<f32>();
        let check = found.iter().map(|x| f64::from(x.abs())).sum();
        timer.time(name, Unit::Millis, check, || {
            evaluate(&model.embed(&ids, &mask))
        })?;
    }
    Ok(())
}
