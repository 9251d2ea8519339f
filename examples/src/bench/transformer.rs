//! A transformer block with causal attention and pre-layer normalisation: W3 and W10.

use super::inputs::{fill, near_one, weight};
use super::measure::{Timer, Unit, norm};
use crate::model::Linear;
use crate::step::{constants, leaves};
use crate::xla::{buffers, floats};
use gradloom::prelude::*;
use gradloom::trace::trace;
use gradloom_pjrt::{Buffer, Plugin};
use std::error::Error;

/// Number of sequences in a batch.
const BATCH: usize = 8;
/// Number of positions in a sequence.
const POSITIONS: usize = 128;
/// Number of features at a position.
const FEATURES: usize = 256;
/// Number of attention heads.
const HEADS: usize = 4;
/// Width of the hidden layer after the attention.
const HIDDEN: usize = 1024;

/// Gain and bias of a layer norm.
#[derive(Clone, Tree)]
struct Norm {
    gain: Tensor,
    bias: Tensor,
}

#[traced]
impl Norm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(&self.gain, &self.bias, 1e-5)
    }
}

#[derive(Clone, Tree)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
}

/// Reshapes `[batch, position, feature]` to `[batch, head, position, feature of the head]`.
#[traced]
fn heads(x: &Tensor) -> Tensor {
    x.reshape([x.dim(0), x.dim(1), HEADS, x.dim(2) / HEADS])
        .swap_axes(1, 2)
}

#[traced]
impl Attention {
    fn forward(&self, x: &Tensor) -> Tensor {
        let query = heads(&self.query.forward(x));
        let key = heads(&self.key.forward(x));
        let value = heads(&self.value.forward(x));

        let scale = 1.0 / (query.dim(3) as f64).sqrt();
        let scores = query.matmul(key.swap_axes(2, 3)) * scale;
        // Causal mask: a position does not see later ones.
        let position = Tensor::arange(x.dim(1), DType::I64);
        let sees = position.unsqueeze(1).ge(&position);
        let weights = sees.select(&scores, -1e9).softmax(-1);

        let mixed = weights.matmul(&value).swap_axes(1, 2).reshape(x.shape());
        self.out.forward(&mixed)
    }

    /// The same block with the single op for fused attention.
    fn fused(&self, x: &Tensor) -> Tensor {
        let query = heads(&self.query.forward(x));
        let key = heads(&self.key.forward(x));
        let value = heads(&self.value.forward(x));
        let mixed = query.causal_attention(&key, &value);
        self.out.forward(&mixed.swap_axes(1, 2).reshape(x.shape()))
    }
}

#[derive(Clone, Tree)]
struct Block {
    norm1: Norm,
    attention: Attention,
    norm2: Norm,
    up: Linear,
    down: Linear,
}

#[traced]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.after(&(x + self.attention.forward(&self.norm1.forward(x))))
    }

    fn fused(&self, x: &Tensor) -> Tensor {
        self.after(&(x + self.attention.fused(&self.norm1.forward(x))))
    }

    /// The part of the block after the attention.
    fn after(&self, x: &Tensor) -> Tensor {
        let hidden = self.up.forward(&self.norm2.forward(x)).gelu_tanh();
        x + self.down.forward(&hidden)
    }
}

#[traced]
fn loss(block: &Block, x: &Tensor) -> Tensor {
    block.forward(x).square().mean(..)
}

#[traced]
fn fused_loss(block: &Block, x: &Tensor) -> Tensor {
    block.fused(x).square().mean(..)
}

/// Times gradients: W3, and the same with fused attention.
pub(super) fn gradients(timer: &mut Timer) -> Result<()> {
    let (block, x) = (parameters(), input());
    let (_, grads) = loss::value_and_grad(&block, &x);
    evaluate(&grads)?;
    let check = norm(&grads);
    drop(grads);
    timer.time("W3", Unit::Millis, check, || gradient(&block, &x))?;

    let (_, grads) = fused_loss::value_and_grad(&block, &x);
    let check = norm(&(grads.block, grads.x));
    timer.time("W3_sdpa", Unit::Millis, check, || {
        let (value, grads) = fused_loss::value_and_grad(&block, &x);
        evaluate(&(value, grads.block, grads.x))
    })
}

/// Times the gradients of W3 as a program that XLA runs: W3_xla. `GRADLOOM_PJRT_PLUGIN` names the shared
/// library with XLA, and there is no row without it.
pub(super) fn gradients_by_xla(timer: &mut Timer) -> Result<()> {
    let Some(path) = std::env::var_os("GRADLOOM_PJRT_PLUGIN") else {
        return Ok(());
    };
    let argument = (parameters(), input());
    let traced = trace(
        |(block, x): &(Block, Tensor)| {
            let (value, grads) = loss::value_and_grad(block, x);
            (value, grads.block, grads.x)
        },
        &argument,
    );
    let run = || -> std::result::Result<_, Box<dyn Error>> {
        let client = Plugin::load(path.as_ref())?.client()?;
        let text = gradloom_stablehlo::export(traced.program(), "gradients")?;
        let compiled = client.compile(&text, 1)?;
        let args = [leaves(&argument), constants(&traced)].concat();
        Ok((compiled, buffers(&client, &args, 0)?))
    };
    let (compiled, args) = run().unwrap_or_else(|e| panic!("W3_xla: {e}"));
    let args: Vec<&Buffer> = args.iter().collect();
    let run = || {
        compiled
            .run(&args)
            .unwrap_or_else(|e| panic!("W3_xla: {e}"))
    };
    let read = |out: &Buffer| floats(out).unwrap_or_else(|e| panic!("W3_xla: {e}"));
    let outs = run();
    let squares = outs[1..]
        .iter()
        .flat_map(read)
        .map(|x| f64::from(x).powi(2));
    let check = squares.sum::<f64>().sqrt();
    timer.time("W3_xla", Unit::Millis, check, || {
        // The results are ready when one of them has been read.
        read(&run()[0]);
        Ok(())
    })
}

/// Times the first gradient of W3, as part of W6.
pub(super) fn first_gradient(timer: &mut Timer) -> Result<()> {
    let (block, x) = (parameters(), input());
    timer.time_first("W6_w3", || gradient(&block, &x))
}

/// Runs the five gradients by which the memory of W3 is measured.
pub(super) fn five_gradients(timer: &mut Timer) -> Result<()> {
    let (block, x) = (parameters(), input());
    for _ in 0..5 {
        gradient(&block, &x)?;
    }
    timer.peak_memory("RSS_W3");
    Ok(())
}

/// Times losses: W3f, and the same with fused attention.
pub(super) fn losses(timer: &mut Timer) -> Result<()> {
    let (block, x) = (parameters(), input());
    let check = loss(&block, &x).item::<f32>();
    timer.time("W3f", Unit::Millis, check.into(), || {
        evaluate(&loss(&block, &x))
    })?;
    let check = fused_loss(&block, &x).item::<f32>();
    timer.time("W3f_sdpa", Unit::Millis, check.into(), || {
        evaluate(&fused_loss(&block, &x))
    })
}

/// Times tangents: W10.
pub(super) fn tangents(timer: &mut Timer) -> Result<()> {
    let (block, x) = (parameters(), input());
    let (d_block, dx) = direction();
    let check = loss::jvp((&block, &x), (&d_block, &dx)).1.item::<f32>();
    timer.time("W10", Unit::Millis, check.into(), || {
        evaluate(&loss::jvp((&block, &x), (&d_block, &dx)))
    })
}

fn gradient(block: &Block, x: &Tensor) -> Result<()> {
    evaluate(&loss::value_and_grad(block, x))
}

fn input() -> Tensor {
    fill(299, [BATCH, POSITIONS, FEATURES], 1.0)
}

/// Returns parameters with a different seed for each leaf.
fn parameters() -> Block {
    let norm = |seed| Norm {
        gain: near_one(seed, FEATURES, 0.1),
        bias: fill(seed + 1, FEATURES, 0.1),
    };
    let linear = |seed, inputs, outputs| Linear {
        w: weight(seed, inputs, outputs),
        b: fill(seed + 1, outputs, 0.1),
    };
    Block {
        norm1: norm(300),
        attention: Attention {
            query: linear(302, FEATURES, FEATURES),
            key: linear(304, FEATURES, FEATURES),
            value: linear(306, FEATURES, FEATURES),
            out: linear(308, FEATURES, FEATURES),
        },
        norm2: norm(310),
        up: linear(312, FEATURES, HIDDEN),
        down: linear(314, HIDDEN, FEATURES),
    }
}

/// Returns the direction of the tangents in W10.
fn direction() -> (Block, Tensor) {
    let mut seeds = 500..;
    let block = parameters().map(&mut |leaf| {
        let seed = seeds.next().expect("the range is infinite");
        fill(seed, leaf.shape(), 1.0)
    });
    (block, fill(499, [BATCH, POSITIONS, FEATURES], 1.0))
}
