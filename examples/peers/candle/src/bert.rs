//! Sentence embeddings by candle's BERT, with the sizes of all-MiniLM-L6-v2: W17.

use crate::Call;
use crate::inputs::{fill, ids, near_one};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config, HiddenAct};
use std::collections::HashMap;

const WIDTH: usize = 384;
const HIDDEN: usize = 1536;
const LAYERS: usize = 6;
const WORDS: usize = 30522;

/// A sentence of 16 words.
pub fn sentence() -> Result<Call> {
    embed(1, 16, 16)
}

/// 32 sentences of 17 to 32 words.
pub fn batch() -> Result<Call> {
    embed(32, 32, 17)
}

fn embed(batch: usize, longest: usize, shortest: usize) -> Result<Call> {
    let config = Config {
        vocab_size: WORDS,
        hidden_size: WIDTH,
        num_hidden_layers: LAYERS,
        num_attention_heads: 12,
        intermediate_size: HIDDEN,
        hidden_act: HiddenAct::Gelu,
        max_position_embeddings: 512,
        ..Config::default()
    };
    let weights = VarBuilder::from_tensors(weights()?, DType::F32, &Device::Cpu);
    let model = BertModel::load(weights, &config)?;
    let ids = ids(batch * longest, WORDS, batch)?;
    let kinds = ids.zeros_like()?;
    let len = |row: usize| longest - row % (longest - shortest + 1);
    let seen = (0..batch * longest).map(|i| u32::from(i % longest < len(i / longest)));
    let mask = Tensor::from_vec(seen.collect::<Vec<u32>>(), (batch, longest), &Device::Cpu)?;
    let share = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
    Ok(Box::new(move || {
        let h = model.forward(&ids, &kinds, Some(&mask))?;
        let mean = h
            .broadcast_mul(&share)?
            .sum(1)?
            .broadcast_div(&share.sum(1)?)?;
        let norm = mean.sqr()?.sum_keepdim(1)?.sqrt()?;
        Ok(vec![mean.broadcast_div(&norm)?])
    }))
}

/// Returns the weights by candle's names. Their seeds follow each other from 200.
fn weights() -> Result<HashMap<String, Tensor>> {
    let mut seeds = 200..;
    let mut seed = move || seeds.next().expect("there are more seeds");
    let mut found = HashMap::new();
    for (name, rows) in [("word", WORDS), ("position", 512), ("token_type", 2)] {
        let table = fill(seed(), (rows, WIDTH), 0.05)?;
        found.insert(format!("embeddings.{name}_embeddings.weight"), table);
    }
    let mut insert = |name: String, outputs, inputs: Option<usize>| -> Result<()> {
        let weight = match inputs {
            Some(inputs) => fill(seed(), (outputs, inputs), 0.05)?,
            None => near_one(seed(), outputs)?,
        };
        found.insert(format!("{name}.weight"), weight);
        found.insert(format!("{name}.bias"), fill(seed(), outputs, 0.05)?);
        Ok(())
    };
    insert("embeddings.LayerNorm".into(), WIDTH, None)?;
    for layer in 0..LAYERS {
        for (part, outputs, inputs) in [
            ("attention.self.query", WIDTH, Some(WIDTH)),
            ("attention.self.key", WIDTH, Some(WIDTH)),
            ("attention.self.value", WIDTH, Some(WIDTH)),
            ("attention.output.dense", WIDTH, Some(WIDTH)),
            ("attention.output.LayerNorm", WIDTH, None),
            ("intermediate.dense", HIDDEN, Some(WIDTH)),
            ("output.dense", WIDTH, Some(HIDDEN)),
            ("output.LayerNorm", WIDTH, None),
        ] {
            insert(format!("encoder.layer.{layer}.{part}"), outputs, inputs)?;
        }
    }
    Ok(found)
}
