//! Trains on the ranks of MPI, and compares the losses with those of one process.
//!
//! `mpirun -n 4 target/release/train_mpi [EPOCHS [FOLDER]]`, after `cargo build --release -p gradloom-examples --features
//! mpi --bin train_mpi`. The perceptron for handwritten digits is trained on batches that 2 or 4 ranks divide. A
//! transformer block has weights that they divide: by columns before the attention and the hidden layer, and by rows
//! after them. With a `FOLDER`, each epoch of the digits ends with a checkpoint.

use gradloom::optim::{Adam, AdamState};
use gradloom::prelude::*;
use gradloom::set_threads;
use gradloom::sharding::{Mesh, ShardingSpec, Specs, Speed, save_checkpoint};
use gradloom::tree::leaves_with_paths;
use gradloom_examples::data::{CLASSES, Digits, PIXELS};
use gradloom_examples::model::{Linear, Mlp};
use gradloom_examples::step::{Argument, adam, leaves, step};
use gradloom_mpi::World;
use std::error::Error;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

/// Number of images in a batch.
const BATCH: usize = 32;
/// Number of sequences in a batch of the block.
const SEQUENCES: usize = 4;
/// Number of positions in a sequence.
const POSITIONS: usize = 32;
/// Number of features at a position.
const FEATURES: usize = 256;
/// Number of attention heads.
const HEADS: usize = 4;
/// Width of the hidden layer.
const HIDDEN: usize = 1024;
/// Number of training steps of the block.
const STEPS: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let epochs: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let folder = args.next();
    let world = World::new()?;
    let n = world.size();
    if !BATCH.is_multiple_of(n) || !HEADS.is_multiple_of(n) {
        return Err(format!(
            "{n} ranks cannot share {BATCH} images and {HEADS} heads; start 1, 2 or 4"
        )
        .into());
    }
    set_threads(available_parallelism().map_or(1, usize::from).div_ceil(n));
    digits(&world, epochs, folder.as_deref())?;
    block(&world)
}

/// Prints on one rank.
fn say(world: &World, text: &str) {
    if world.rank() == 0 {
        println!("{text}");
    }
}

/// A training run: the loss of some steps or epochs, the parameters after it, and its time in seconds.
struct Run<M> {
    losses: Vec<(String, f32)>,
    model: M,
    time: f64,
}

/// Prints what the ranks computed beside what one process did. Only rank 0 has the latter.
fn compare<M: Tree>(world: &World, ours: &Run<M>, alone: Option<Run<M>>) {
    let Some(alone) = alone else { return };
    let n = world.size();
    for ((at, ours), (_, alone)) in ours.losses.iter().zip(&alone.losses) {
        let difference = (ours - alone).abs();
        println!(
            "{at}: loss {ours:.6} on {n} ranks, {alone:.6} in one process, difference {difference:.1e}"
        );
    }
    let pairs = leaves_with_paths(&ours.model).into_iter();
    let pairs = pairs.zip(leaves(&alone.model));
    let mut most: Vec<(f32, String)> = pairs
        .map(|((path, ours), alone)| ((ours - alone).abs().max(..).item(), path))
        .collect();
    most.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(first, path), (second, _), ..] = &most[..] else {
        return;
    };
    println!("largest difference of a parameter: {first:.1e} in `{path}`, {second:.1e} in others");
    println!(
        "time: {:.2} s on {n} ranks, {:.2} s in one process",
        ours.time, alone.time
    );
}

/// Data parallel: all ranks have the parameters, and each has a part of a batch.
fn digits(world: &World, epochs: usize, folder: Option<&str>) -> Result<(), Box<dyn Error>> {
    let digits = Digits::bundled();
    let (train, _) = digits.split(Key::new(20));
    let model = Mlp::init(Key::new(0), [PIXELS, 256, 128, CLASSES]);
    evaluate(&model)?;
    let state = adam().init(&model);
    // All ranks draw the same order.
    let orders = |epoch: usize| {
        let order = Key::new(epoch as u64).permutation(train.len());
        let order = order.to_vec::<i64>();
        let order = order.iter().map(|&i| train[i as usize]);
        let order: Vec<i64> = order.collect();
        order
            .chunks_exact(BATCH)
            .map(<[i64]>::to_vec)
            .collect::<Vec<_>>()
    };
    let alone = world.on_first_rank(|| -> gradloom::Result<_> {
        let (mut model, mut state) = (model.clone(), state.clone());
        let (mut losses, start) = (Vec::new(), Instant::now());
        for epoch in 0..epochs {
            let (mut total, batches) = (0.0, orders(epoch));
            for indices in &batches {
                let (x, labels) = digits.batch(indices);
                let l;
                (model, state, l) = step(&(model, state, x, labels));
                total += l.try_item::<f32>()?;
            }
            losses.push((format!("epoch {}", epoch + 1), total / batches.len() as f32));
        }
        let time = start.elapsed().as_secs_f64();
        Ok(Run {
            losses,
            model,
            time,
        })
    })?;

    let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
    let rows = Some(ShardingSpec::split(&mesh, &[&["data"]])?);
    let specs = (None, None, rows.clone(), rows.clone());
    let divided = world.sharded(step, &mesh, specs, None);
    let (mut model, mut state) = (model, state);
    let (mut losses, start) = (Vec::new(), Instant::now());
    for epoch in 0..epochs {
        let (mut total, batches) = (0.0, orders(epoch));
        for indices in &batches {
            // A rank reads its own images only.
            let part = BATCH / world.size();
            let (x, labels) = digits.batch(&indices[world.rank() * part..][..part]);
            let argument: Argument = (model, state, x, labels);
            let l;
            (model, state, l) = divided.on_parts(&argument)?;
            total += l.try_item::<f32>()?;
        }
        losses.push((format!("epoch {}", epoch + 1), total / batches.len() as f32));
        if let Some(folder) = folder {
            let saved = (model.clone(), state.clone());
            world.on_first_rank(|| save_checkpoint(folder, &saved, &mesh, None))?;
        }
    }
    let time = start.elapsed().as_secs_f64();
    say(world, "digits, data parallel:");
    compare(
        world,
        &Run {
            losses,
            model,
            time,
        },
        alone,
    );
    Ok(())
}

/// A transformer block.
#[derive(Clone, Tree)]
struct Block {
    query: Linear,
    key: Linear,
    value: Linear,
    mixed: Linear,
    up: Linear,
    down: Linear,
}

impl Block {
    fn init(key: Key) -> Block {
        let [query, key, value, mixed, rest] = key.split_n();
        let [up, down] = rest.split_n();
        let square = |key: Key| Linear::init(key, FEATURES, FEATURES);
        Block {
            query: square(query),
            key: square(key),
            value: square(value),
            mixed: square(mixed),
            up: Linear::init(up, FEATURES, HIDDEN),
            down: Linear::init(down, HIDDEN, FEATURES),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let heads = |layer: &Linear| {
            let [batch, positions, features] = [0, 1, 2].map(|axis| x.dim(axis));
            let all = layer.forward(x);
            all.reshape([batch, positions, HEADS, features / HEADS])
                .swap_axes(1, 2)
        };
        let (query, key) = (heads(&self.query), heads(&self.key));
        let scores = query.matmul(key.swap_axes(2, 3)) * (HEADS as f64 / FEATURES as f64).sqrt();
        let mixed = scores.softmax(-1).matmul(heads(&self.value));
        let mixed = mixed.swap_axes(1, 2).reshape(x.shape());
        let x = x + self.mixed.forward(&mixed);
        &x + self.down.forward(&self.up.forward(&x).gelu())
    }
}

type BlockArgument = (Block, AdamState<Block>, Tensor, Tensor);

/// A training step: mean squared error, and Adam.
fn block_step((block, state, x, y): &BlockArgument) -> (Block, AdamState<Block>, Tensor) {
    let loss = |block: &Block| (block.forward(x) - y).square().mean(..);
    let (l, grads) = value_and_grad(loss)(block);
    let adam = Adam {
        lr: 1e-3,
        ..Adam::default()
    };
    let (block, state) = adam.step(block, &grads, state);
    (block, state, l)
}

/// Tensor parallel: a rank has some heads and some of the hidden features, and all ranks have the same data.
fn block(world: &World) -> Result<(), Box<dyn Error>> {
    let [init, data] = Key::new(1).split_n();
    let block = Block::init(init);
    let x = data.normal([SEQUENCES, POSITIONS, FEATURES], DType::F32);
    // The block learns to take the mean of all positions.
    let y = &x + x.mean_keepdims(1);
    evaluate((&block, &x, &y))?;
    let state = Adam::default().init(&block);
    let name = |step: usize| format!("step {}", step + 1);
    let alone = world.on_first_rank(|| -> gradloom::Result<_> {
        let (mut model, mut state) = (block.clone(), state.clone());
        let (mut losses, start) = (Vec::new(), Instant::now());
        for step in 0..STEPS {
            let l;
            (model, state, l) = block_step(&(model, state, x.clone(), y.clone()));
            losses.push((name(step), l.try_item::<f32>()?));
        }
        let time = start.elapsed().as_secs_f64();
        let losses = losses.into_iter().step_by(STEPS / 5).collect();
        Ok(Run {
            losses,
            model,
            time,
        })
    })?;

    let mesh = Arc::new(Mesh::new("m", &[("model", world.size())])?);
    let split = |dims: &[&[&str]]| ShardingSpec::split(&mesh, dims).map(Some);
    let columns = [
        ("w", split(&[&[], &["model"]])?),
        ("b", split(&[&["model"]])?),
    ];
    let rows = [("w", split(&[&["model"]])?), ("b", None)];
    let of_block = [
        ("query", columns.clone()),
        ("key", columns.clone()),
        ("value", columns.clone()),
        ("mixed", rows.clone()),
        ("up", columns),
        ("down", rows),
    ];
    let of_block = Specs::from(of_block);
    let of_state = Specs::from([("mean", of_block.clone()), ("square", of_block.clone())]);
    let ins = (of_block.clone(), of_state.clone(), None, None);
    let outs = (of_block.clone(), of_state.clone(), None);
    let divided = world.sharded(block_step, &mesh, ins, outs);
    let whole: BlockArgument = (block.clone(), state.clone(), x.clone(), y.clone());
    let explained = divided.explain(&whole, &Speed::default())?;
    let n_params = |block: &Block| leaves(block).iter().map(Tensor::numel).sum::<usize>();
    let all = n_params(&block);
    let mut block = world.part(&block, &mesh, of_block.clone())?;
    let mut state = world.part(&state, &mesh, of_state)?;
    let (mut losses, start) = (Vec::new(), Instant::now());
    for step in 0..STEPS {
        let l;
        (block, state, l) = divided.on_parts(&(block, state, x.clone(), y.clone()))?;
        losses.push((name(step), l.try_item::<f32>()?));
    }
    let time = start.elapsed().as_secs_f64();
    let own = n_params(&block);
    let kinds = explained.by_kind().into_iter();
    let kinds = kinds.map(|(name, _, n, sent)| format!("{n} {name} of {sent} bytes"));
    let sent = kinds.collect::<Vec<_>>().join(", ");
    let text =
        format!("block, tensor parallel: a rank has {own} of {all} parameters; it sends {sent}");
    say(world, &text);
    let losses = losses.into_iter().step_by(STEPS / 5).collect();
    let model = world.whole(&block, &mesh, of_block)?;
    compare(
        world,
        &Run {
            losses,
            model,
            time,
        },
        alone,
    );
    Ok(())
}
