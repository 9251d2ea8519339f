//! Trains a perceptron on handwritten digits, with mini-batches, Adam, and a fixed split into training
//! and test images.
//!
//! `cargo run --release --bin digits -- [--epochs N] [--seed N] [--data FILE] [--out FILE]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::events;
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_examples::chart;
use gradloom_examples::command::exit_code;
use gradloom_examples::data::{CLASSES, DataError, Digits, PIXELS};
use gradloom_examples::model::{Mlp, accuracy, loss};
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const BATCH: usize = 32;

/// Seed of the split into training and test images.
const SPLIT: u64 = 20;

struct Options {
    epochs: usize,
    seed: u64,
    data: Option<PathBuf>,
    out: PathBuf,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            epochs: 30,
            seed: 0,
            data: None,
            out: "target/digits-loss.svg".into(),
        };
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("`{name}` needs a value"));
            let number = |text: String| {
                let wrong = format!("`{text}` is not a number; give `{name}` a whole number");
                text.parse::<u32>().map_err(|_| wrong)
            };
            match name.as_str() {
                "--epochs" => options.epochs = number(value()?)? as usize,
                "--seed" => options.seed = number(value()?)?.into(),
                "--data" => options.data = Some(value()?.into()),
                "--out" => options.out = value()?.into(),
                _ => Err(format!(
                    "unknown option `{name}`; give `--epochs`, `--seed`, `--data` or `--out`"
                ))?,
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let digits = match &options.data {
        None => Digits::bundled(),
        Some(path) => Digits::read(File::open(path).map_err(DataError::from)?)?,
    };
    let start = Instant::now();
    // The split is the same for every seed, so runs are comparable.
    let (train, test) = digits.split(Key::new(SPLIT));
    let (init, mut shuffle) = Key::new(options.seed).split();
    let (test_x, test_labels) = digits.batch(&test);

    let mut model = Mlp::init(init, [PIXELS, 256, 128, CLASSES]);
    let adam = Adam {
        lr: 2e-3,
        ..Adam::default()
    };
    // Evaluated parameters are data, so the first step has the same plan as all later steps.
    evaluate(&model)?;
    let mut state = adam.init(&model);

    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "epoch",
        "training loss",
        "test loss",
        "test accuracy",
        "plans",
        "hits",
    ]);
    let (mut train_curve, mut test_curve) = (Vec::new(), Vec::new());
    let bar = ProgressBar::new((options.epochs * train.len().div_ceil(BATCH)) as u64).with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} steps {msg}")?,
    );
    for epoch in 1..=options.epochs {
        let (this, next) = shuffle.split();
        shuffle = next;
        let order = this.permutation(train.len()).to_vec::<i64>();
        let order: Vec<i64> = order.iter().map(|&i| train[i as usize]).collect();

        let (mut total, before) = (0.0, events::counts());
        for indices in order.chunks(BATCH) {
            let (x, labels) = digits.batch(indices);
            let (l, grads) = loss::value_and_grad(&model, &x, &labels);
            (model, state) = adam.step(&model, &grads.model, &state);
            total += l.item::<f32>() * indices.len() as f32;
            bar.inc(1);
        }
        let after = events::counts();

        let test_loss = loss(&model, &test_x, &test_labels);
        let share = accuracy(&model, &test_x, &test_labels);
        // Evaluated together, so that one plan shares the forward pass.
        evaluate((&test_loss, &share))?;
        train_curve.push(total / train.len() as f32);
        test_curve.push(test_loss.item::<f32>());
        table.add_row([
            epoch.to_string(),
            format!("{:.4}", train_curve[epoch - 1]),
            format!("{:.4}", test_curve[epoch - 1]),
            format!("{:.4}", share.item::<f32>()),
            (after.planned - before.planned).to_string(),
            (after.hit - before.hit).to_string(),
        ]);
    }
    bar.finish_and_clear();

    println!("{table}");
    chart::curves(
        &options.out,
        "Cross-entropy on the digits",
        &[("training", train_curve), ("test", test_curve)],
    )?;
    println!("loss curve: {}", options.out.display());
    println!("time: {:.1} s", start.elapsed().as_secs_f64());
    let share = accuracy(&model, &test_x, &test_labels);
    println!("test accuracy: {:.4}", share.item::<f32>());
    Ok(())
}
