//! A GPT of four layers: the next word with a cache of keys and values, and the gradient of training, W18.

use super::inputs::{fill, ids, model};
use super::measure::{Timer, Unit, sum};
use crate::gpt::{Gpt, loss};
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_nn::{EncoderLayer, KeyValueCache};

const WORDS: usize = 1000;
const WIDTH: usize = 384;
/// Number of places of the model, and those that are filled before the next word.
const PLACES: usize = 256;
const FILLED: i64 = 128;

/// Times the scores of the word after 128 others, whose keys and values are kept.
pub(super) fn next_word(timer: &mut Timer) -> Result<()> {
    next_word_of(timer, "W18_decode", gpt())
}

/// Times the same with the matrices of the layers in fewer bits.
pub(super) fn next_word_small(timer: &mut Timer) -> Result<()> {
    next_word_of(timer, "W18_decode_bf16", cast(gpt(), DType::BF16))?;
    next_word_of(timer, "W18_decode_f16", cast(gpt(), DType::F16))?;
    next_word_of(timer, "W18_decode_i8", quantized(gpt()))
}

/// Returns the model with the matrices of its layers in another dtype.
fn cast(mut gpt: Gpt, dtype: DType) -> Gpt {
    gpt.layers = gpt.layers.map(&mut |leaf| match leaf.rank() {
        2 => leaf.cast(dtype),
        _ => leaf.clone(),
    });
    gpt
}

/// Returns the model with quantised layers.
fn quantized(mut gpt: Gpt) -> Gpt {
    gpt.layers = gpt.layers.iter().map(EncoderLayer::quantized).collect();
    gpt
}

/// Times the same for a model of 1536 features, whose weights no cache holds.
pub(super) fn next_word_large(timer: &mut Timer) -> Result<()> {
    let large = || Gpt::new(Key::new(0), WORDS, PLACES, 4 * WIDTH);
    next_word_of(timer, "W18_large", large())?;
    next_word_of(timer, "W18_large_bf16", cast(large(), DType::BF16))?;
    next_word_of(timer, "W18_large_f16", cast(large(), DType::F16))?;
    next_word_of(timer, "W18_large_i8", quantized(large()))
}

fn next_word_of(timer: &mut Timer, name: &'static str, gpt: Gpt) -> Result<()> {
    evaluate(&gpt)?;
    let ids = ids(1, WORDS, 1);
    let filled = |seed, cache: KeyValueCache| KeyValueCache {
        keys: fill(seed, cache.keys.shape(), 1.0),
        values: fill(seed + 1, cache.values.shape(), 1.0),
        len: Tensor::from(FILLED),
    };
    let layers = (480..).step_by(2).zip(&gpt.layers);
    let caches = layers.map(|(seed, layer)| filled(seed, layer.attention.cache(1, PLACES)));
    let mut caches: Vec<KeyValueCache> = caches.collect();
    let mut step = || -> Result<Tensor> {
        let (scores, next) = gpt.step(&ids, &caches);
        caches = next;
        evaluate((&scores, &caches))?;
        // Each call is at the same place.
        for cache in &mut caches {
            cache.len = Tensor::from(FILLED);
        }
        Ok(scores)
    };
    let check = sum(&step()?, f64::abs);
    timer.time(name, Unit::Millis, check, || step().map(drop))
}

/// Times the loss of 8 texts of 128 words, with the gradient of all weights.
pub(super) fn gradients(timer: &mut Timer) -> Result<()> {
    let gpt = gpt();
    let of = |shift| (ids(8 * 128, WORDS, 8) + shift).mod_floor(WORDS as i64);
    let (words, next) = (of(0), of(1));
    evaluate((&words, &next))?;
    let call = || loss::value_and_grad(&gpt, &words, &next);
    let (_, found) = call();
    let leaves = tree::leaves_with_paths(&found.model);
    let check = leaves.iter().map(|(_, leaf)| sum(leaf, f64::abs)).sum();
    timer.time("W18_gradient", Unit::Millis, check, || {
        let (loss, gradient) = call();
        evaluate((&loss, &gradient.model))
    })
}

fn gpt() -> Gpt {
    model(&Gpt::new(Key::new(0), WORDS, PLACES, WIDTH), 400)
}
