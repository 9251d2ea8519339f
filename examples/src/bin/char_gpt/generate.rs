//! Text by a cache of keys and values, and its speed.

use gradloom::cache;
use gradloom::prelude::*;
use gradloom_examples::gpt::{Gpt, next_character};
use gradloom_nn::{EncoderLayer, KeyValueCache};
use std::error::Error;
use std::time::Instant;

const PROMPT: &str = "A tensor ";

/// Writes text after the prompt until the places are full, several times, and prints the speed.
pub(crate) fn write_text(
    model: &Gpt,
    characters: &[char],
    sampling: Key,
    context: usize,
    weights: usize,
    floats: usize,
) -> Result<(), Box<dyn Error>> {
    let prompt: Vec<i64> = PROMPT
        .chars()
        .map(|c| characters.binary_search(&c).map(|i| i as i64))
        .collect::<Result<_, _>>()
        .map_err(|_| "the text lacks a character of the prompt")?;
    let empty = || {
        let cache = |layer: &EncoderLayer| layer.attention.cache(1, context);
        model.layers.iter().map(cache).collect::<Vec<_>>()
    };
    // Evaluated caches are data, as those of later steps are.
    evaluate(&empty())?;
    let plans_before = cache::stats().plans;
    let mut plans_of_first = None;
    let (mut n_steps, mut seconds) = (0, 0.0);
    for key in sampling.split_many(3) {
        let mut caches: Vec<KeyValueCache> = empty();
        evaluate(&caches)?;
        let mut text = PROMPT.to_owned();
        let mut id = prompt[0];
        for (place, key) in key.split_many(context).into_iter().enumerate() {
            let start = Instant::now();
            let ids = Tensor::from_vec(vec![id], [1, 1]);
            let next;
            (next, caches) = next_character(model, &ids, &caches, key);
            let drawn = next.item::<i64>();
            evaluate(&caches)?;
            if plans_of_first.is_none() {
                plans_of_first = Some(cache::stats().plans - plans_before);
            } else {
                seconds += start.elapsed().as_secs_f64();
                n_steps += 1;
            }
            id = match prompt.get(place + 1) {
                Some(id) => *id,
                None => {
                    text.push(characters[drawn as usize]);
                    drawn
                }
            };
        }
        println!("--- sample\n{text}");
    }
    let plans = cache::stats().plans - plans_before;
    let first = plans_of_first.unwrap_or(0);
    println!("---\nplans of the first step: {first}, of all steps: {plans}");
    let per_token = seconds / f64::from(n_steps);
    println!(
        "{:.0} tokens/s, {:.1} us per token",
        1.0 / per_token,
        per_token * 1e6
    );
    let bytes_per_second = bandwidth(floats);
    let read = (4 * weights) as f64 / bytes_per_second;
    println!(
        "bandwidth {:.1} GB/s: reading all weights takes {:.1} us; ratio {:.1}",
        bytes_per_second / 1e9,
        read * 1e6,
        per_token / read
    );
    if plans != first {
        Err("a later step of the same shapes made a plan")?;
    }
    Ok(())
}

/// Returns the bytes per second of a sum over `n` floats: the best of several.
fn bandwidth(n: usize) -> f64 {
    let x = Tensor::from_vec(vec![1f32; n], [n]);
    let time = || {
        let start = Instant::now();
        x.sum(..).item::<f32>();
        start.elapsed().as_secs_f64()
    };
    let best = (0..6).map(|_| time()).fold(f64::INFINITY, f64::min);
    (4 * n) as f64 / best
}
