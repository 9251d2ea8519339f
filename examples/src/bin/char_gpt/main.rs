//! Trains a small GPT on the characters of the book of this repository, and writes text with it.
//!
//! `cargo run --release --bin char_gpt -- [--short]`
//!
//! The loss on text that the training does not see has to fall below that of the best table of pairs: the
//! probability of each character after each other one. With `--short`, it is the table of single characters. The
//! text is written with a cache of keys and values, by one plan for all lengths.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use generate::write_text;
use gradloom::optim::{AdamW, Optimiser, Schedule};
use gradloom::prelude::*;
use gradloom::{cache, tree};
use gradloom_data::Batches;
use gradloom_examples::chart;
use gradloom_examples::command::{exit_code, is_short};
use gradloom_examples::gpt::{Gpt, loss};
use gradloom_files::Checkpoints;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use text::{Windows, book, losses_of_tables};

mod generate;
mod text;

/// Sizes of a run.
struct Sizes {
    width: usize,
    context: usize,
    batch: usize,
    /// Number of blocks of steps. Each block is a row of the table.
    blocks: usize,
    steps_per_block: usize,
    peak_rate: f64,
    /// Number of floats that the measurement of the bandwidth reads.
    floats: usize,
}

const FULL: Sizes = Sizes {
    width: 128,
    context: 128,
    batch: 8,
    blocks: 10,
    steps_per_block: 80,
    peak_rate: 3e-3,
    floats: 1 << 26,
};

const SHORT: Sizes = Sizes {
    width: 32,
    context: 32,
    batch: 8,
    blocks: 4,
    steps_per_block: 30,
    peak_rate: 1e-2,
    floats: 1 << 22,
};

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let (sizes, name) = match is_short()? {
        false => (FULL, "char_gpt"),
        true => (SHORT, "char_gpt_short"),
    };
    let text = book()?;
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    let id_of = |c: char| characters.binary_search(&c).ok().map(|i| i as i64);
    let ids: Vec<i64> = text.chars().filter_map(id_of).collect();
    let (train, test) = ids.split_at(ids.len() / 10 * 9);
    let n = characters.len();
    let (by_single, by_pairs) = losses_of_tables(train, test, n);

    let [init, order, sampling] = Key::new(0).split_n();
    let mut model = Gpt::new(init, n, sizes.context, sizes.width);
    evaluate(&model)?;
    let n_weights: usize = tree::leaves_with_paths(&model)
        .iter()
        .map(|(_, leaf)| leaf.numel())
        .sum();
    println!(
        "{} characters of {n} kinds, {} layers of width {}, {n_weights} weights",
        ids.len(),
        model.layers.len(),
        sizes.width
    );
    model = train_on(train, test, model, order, &sizes, name)?;
    println!("loss of a table of single characters: {by_single:.3}");
    println!("loss of a table of pairs:             {by_pairs:.3}");
    let test_loss = held_out(&model, test, &sizes)?;
    println!("loss of the model:                    {test_loss:.3}");

    write_text(
        &model,
        &characters,
        sampling,
        sizes.context,
        n_weights,
        sizes.floats,
    )?;

    let limit = if name == "char_gpt" {
        by_pairs
    } else {
        by_single
    };
    if f64::from(test_loss) >= limit {
        Err(format!(
            "the loss is {test_loss:.3}, expected less than {limit:.3}"
        ))?;
    }
    Ok(())
}

/// Returns the mean loss of up to 32 batches of a text.
fn held_out(model: &Gpt, text: &[i64], sizes: &Sizes) -> Result<f32, Box<dyn Error>> {
    let windows = Windows {
        ids: text.to_vec(),
        context: sizes.context,
    };
    let batches = Batches::new(windows, sizes.batch).drop_last(true);
    let mut losses = Vec::new();
    let stride = (batches.n_batches() / 32).max(1);
    for batch in batches.epoch(0).step_by(stride) {
        let (ids, next) = batch?;
        losses.push(loss(model, &ids, &next).item::<f32>());
    }
    Ok(losses.iter().sum::<f32>() / losses.len() as f32)
}

/// Trains the model, draws the curves and returns the model of the last checkpoint.
fn train_on(
    train: &[i64],
    test: &[i64],
    mut model: Gpt,
    order: Key,
    sizes: &Sizes,
    name: &str,
) -> Result<Gpt, Box<dyn Error>> {
    let steps = sizes.blocks * sizes.steps_per_block;
    let warm_up = steps / 10;
    let schedule = Schedule::linear(0.0, sizes.peak_rate, warm_up).then(
        warm_up,
        Schedule::cosine(sizes.peak_rate, sizes.peak_rate / 10.0, steps - warm_up),
    );
    let optimiser = AdamW {
        weight_decay: 0.1,
        ..AdamW::default()
    }
    .scheduled(schedule.clone())
    .clipped_by_norm(1.0);
    let mut state = optimiser.init(&model);
    evaluate(&state)?;

    let windows = Windows {
        ids: train.to_vec(),
        context: sizes.context,
    };
    let batches = Batches::new(windows, sizes.batch)
        .shuffle(order)
        .drop_last(true)
        .prefetch(4);
    let mut endless = (0..).flat_map(|epoch| batches.epoch(epoch));
    let checkpoints = Checkpoints::new(Path::new("target").join(name)).keep(2);

    let mut table = Table::new();
    let header = [
        "steps",
        "rate",
        "training loss",
        "held-out loss",
        "ms/step",
        "plans",
    ];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let mut curves = [("training", Vec::new()), ("held out", Vec::new())];
    for block in 1..=sizes.blocks {
        let (start, plans) = (Instant::now(), cache::stats().plans);
        let mut total = 0.0;
        for batch in endless.by_ref().take(sizes.steps_per_block) {
            let (ids, next) = batch?;
            let (value, gradients) = loss::value_and_grad(&model, &ids, &next);
            (model, state) = optimiser.step(&model, &gradients.model, &state);
            total += value.item::<f32>();
        }
        evaluate((&model, &state))?;
        let time = start.elapsed().as_secs_f64() / sizes.steps_per_block as f64;
        let plans = cache::stats().plans - plans;
        let done = block * sizes.steps_per_block;
        checkpoints.save(done as u64, &(model.clone(), state.clone()))?;
        curves[0].1.push(total / sizes.steps_per_block as f32);
        curves[1].1.push(held_out(&model, test, sizes)?);
        eprintln!("{done} of {steps} steps: {:.3}", curves[1].1[block - 1]);
        table.add_row([
            done.to_string(),
            format!("{:.1e}", schedule.at(done).item::<f64>()),
            format!("{:.3}", curves[0].1[block - 1]),
            format!("{:.3}", curves[1].1[block - 1]),
            format!("{:.1}", time * 1e3),
            plans.to_string(),
        ]);
    }
    println!("{table}");
    let path = Path::new("target").join(format!("{name}.svg"));
    let title = format!("Loss (an epoch is {} steps)", sizes.steps_per_block);
    chart::curves(&path, &title, &curves)?;
    println!("curves: {}", path.display());

    let found = checkpoints.latest()?;
    let last = found.step.ok_or("no checkpoint is whole")?;
    let (loaded, _) = checkpoints.load(last, &(model.clone(), state.clone()))?;
    println!("the model is that of the checkpoint of step {last}");
    let before = curves[1].1[sizes.blocks - 1];
    let after = held_out(&loaded, test, sizes)?;
    if before.to_bits() != after.to_bits() {
        Err(format!(
            "the loaded model has the loss {after}, and the saved one {before}"
        ))?;
    }
    Ok(loaded)
}
