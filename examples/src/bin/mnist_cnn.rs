//! Trains a convolutional network on images in IDX files, such as those of MNIST.
//!
//! `cargo run --release --bin mnist_cnn -- FOLDER [--short]`
//!
//! The folder has a file with `images-idx3` in its name and one with `labels-idx1`, as they are or compressed by
//! gzip. A tenth of the images is for testing. The test accuracy has to reach 0.96. With `--short`, the program takes
//! up to 1,000 images, and the accuracy has to reach 0.9.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::events;
use gradloom::optim::AdamW;
use gradloom::prelude::*;
use gradloom_data::{Batches, Tensors, read_idx};
use gradloom_examples::chart;
use gradloom_examples::command::exit_code;
use gradloom_nn::{Conv, Layer, Linear, Windows};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const SIDE: usize = 28;
const CLASSES: usize = 10;
const BATCH: usize = 50;

/// The classifier: two convolutions, each before a pooling, and an affine map.
#[derive(Clone, Tree)]
struct Cnn {
    first: Conv,
    second: Conv,
    head: Linear,
}

impl Cnn {
    fn new(key: Key) -> Cnn {
        let [a, b, c] = key.split_n();
        let windows = Windows {
            padding: 1,
            ..Windows::default()
        };
        Cnn {
            first: Conv::new(a, 1, 16, [3, 3], windows),
            second: Conv::new(b, 16, 32, [3, 3], windows),
            head: Linear::new(c, 32 * (SIDE / 4) * (SIDE / 4), CLASSES),
        }
    }
}

#[traced]
impl Layer for Cnn {
    /// Maps images `[n, 1, 28, 28]` to scores `[n, 10]`.
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.first.forward(x).relu().max_pool([2, 2], [2, 2], 0);
        let h = self.second.forward(&h).relu().max_pool([2, 2], [2, 2], 0);
        let flat = h.reshape([h.dim(0), h.dim(1) * h.dim(2) * h.dim(3)]);
        self.head.forward(&flat)
    }
}

#[traced]
fn loss(model: &Cnn, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    model.forward(x).cross_entropy(labels)
}

/// Returns the first file of a folder, in the order of names, that has a text in its name.
fn find(folder: &Path, text: &str) -> Result<PathBuf, Box<dyn Error>> {
    let fault = |e| format!("cannot read the folder `{}`: {e}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        if entry.file_name().to_string_lossy().contains(text) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let found = paths.into_iter().next();
    Ok(found.ok_or_else(|| {
        format!(
            "`{}` has no file with `{text}` in its name; give a folder with the files of MNIST",
            folder.display()
        )
    })?)
}

/// Returns images `[n, 1, 28, 28]` from 0 to 1, and labels `[n]`.
fn read(folder: &Path) -> Result<(Tensor, Tensor), Box<dyn Error>> {
    let images = read_idx(find(folder, "images-idx3")?)?;
    let labels = read_idx(find(folder, "labels-idx1")?)?;
    let n = labels.dim(0);
    if images.shape() != [n, SIDE, SIDE] {
        Err(format!(
            "the images have the shape {:?}, expected {:?}",
            images.shape(),
            [n, SIDE, SIDE]
        ))?;
    }
    let images = images.cast(DType::F32) / 255.0;
    Ok((images.reshape([n, 1, SIDE, SIDE]), labels.cast(DType::I64)))
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (folder, most, epochs, limit) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        [folder] if folder != "--short" => (folder, usize::MAX, 5, 0.96),
        [folder, "--short"] | ["--short", folder] => (folder, 1000, 8, 0.9),
        _ => Err("give a folder with the files of MNIST, and `--short` or nothing")?,
    };
    let (images, labels) = read(Path::new(folder))?;
    let n = images.dim(0).min(most);
    let n_test = n / 10;
    let (test_x, test_labels) = (images.i(..n_test), labels.i(..n_test));
    evaluate((&test_x, &test_labels))?;
    let train = Tensors::new((images.i(n_test..n), labels.i(n_test..n)))?;
    let n_train = n - n_test;
    println!("{n_train} images for training, {n_test} for testing");

    let [init, order] = Key::new(0).split_n();
    let batches = Batches::new(train, BATCH).shuffle(order).prefetch(4);
    let mut model = Cnn::new(init);
    evaluate(&model)?;
    let adam = AdamW {
        lr: 2e-3,
        ..AdamW::default()
    };
    let mut state = adam.init(&model);
    let accuracy = |model: &Cnn| -> f32 {
        let hits = model.forward(&test_x).argmax(-1).eq(&test_labels);
        hits.cast(DType::F32).mean(..).item()
    };

    let mut table = Table::new();
    let header = [
        "epoch",
        "training loss",
        "test loss",
        "test accuracy",
        "seconds",
        "plans",
    ];
    table.load_style(ASCII_MARKDOWN).set_header(header);
    let mut curves = [("training", Vec::new()), ("test", Vec::new())];
    let mut share = 0.0;
    for epoch in 1..=epochs {
        let (start, plans) = (Instant::now(), events::counts().planned);
        let mut total = 0.0;
        for batch in batches.epoch(epoch) {
            let (x, labels) = batch?;
            let (value, gradients) = loss::value_and_grad(&model, &x, &labels);
            (model, state) = adam.step(&model, &gradients.model, &state);
            total += value.item::<f32>() * x.dim(0) as f32;
        }
        evaluate((&model, &state))?;
        let seconds = start.elapsed().as_secs_f64();
        let plans = events::counts().planned - plans;
        share = accuracy(&model);
        let test_loss = loss(&model, &test_x, &test_labels).item::<f32>();
        curves[0].1.push(total / n_train as f32);
        curves[1].1.push(test_loss);
        eprintln!("epoch {epoch} of {epochs}: accuracy {share:.4}");
        table.add_row([
            epoch.to_string(),
            format!("{:.4}", total / n_train as f32),
            format!("{test_loss:.4}"),
            format!("{share:.4}"),
            format!("{seconds:.2}"),
            plans.to_string(),
        ]);
    }
    println!("{table}");
    let path = Path::new("target/mnist_cnn-loss.svg");
    chart::curves(path, "Cross-entropy on the images", &curves)?;
    println!("loss curve: {}", path.display());
    println!("test accuracy: {share:.4}");
    if share < limit {
        Err(format!(
            "the accuracy is {share:.4}, expected at least {limit}"
        ))?;
    }
    Ok(())
}
