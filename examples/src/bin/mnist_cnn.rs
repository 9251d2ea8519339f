//! Trains a convolutional network on images in IDX files, such as those of MNIST.
//!
//! `cargo run --release --bin mnist_cnn -- FOLDER [--short]`
//!
//! The folder has a file with `images-idx3` in its name and one with `labels-idx1`, as they are or compressed by
//! gzip. A tenth of the images is for testing. Training images are turned, scaled and moved, each time by others. The
//! test accuracy has to reach 0.985. With `--short`, the program takes up to 1,000 images, and the accuracy has to reach
//! 0.9.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::events;
use gradloom::optim::{AdamW, Schedule};
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
/// The most by which a training image is turned, in radians, scaled, and moved, in pixels.
const TURN: f32 = 0.2;
const SCALE: f32 = 0.1;
const MOVE: f32 = 1.5;

/// The classifier: two pairs of convolutions, each before a pooling, and two affine maps.
#[derive(Clone, Tree)]
struct Cnn {
    first: [Conv; 2],
    second: [Conv; 2],
    hidden: Linear,
    head: Linear,
}

impl Cnn {
    fn new(key: Key) -> Cnn {
        let [a, b, c, d, e, f] = key.split_n();
        let windows = Windows {
            padding: 1,
            ..Windows::default()
        };
        let conv = |key, from, to| Conv::new(key, from, to, [3, 3], windows);
        Cnn {
            first: [conv(a, 1, 16), conv(b, 16, 16)],
            second: [conv(c, 16, 32), conv(d, 32, 32)],
            hidden: Linear::new(e, 32 * (SIDE / 4) * (SIDE / 4), 128),
            head: Linear::new(f, 128, CLASSES),
        }
    }
}

#[traced]
impl Cnn {
    /// Maps images `[n, 1, 28, 28]` to features `[n, 128]`.
    fn features(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for convs in [&self.first, &self.second] {
            for conv in convs {
                h = conv.forward(&h).relu();
            }
            h = h.max_pool([2, 2], [2, 2], 0);
        }
        let flat = h.reshape([h.dim(0), h.dim(1) * h.dim(2) * h.dim(3)]);
        self.hidden.forward(&flat).relu()
    }
}

#[traced]
impl Layer for Cnn {
    /// Maps images `[n, 1, 28, 28]` to scores `[n, 10]`.
    fn forward(&self, x: &Tensor) -> Tensor {
        self.head.forward(&self.features(x))
    }
}

/// The loss on training images, with half of the features dropped.
#[traced]
fn training_loss(model: &Cnn, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor, key: Key) -> Tensor {
    let features = model.features(x).dropout(0.5, key);
    model.head.forward(&features).cross_entropy(labels)
}

/// Turns, scales and moves each image at random. An element between pixels is that of the bilinear interpolation.
fn warped(images: &Tensor, key: Key) -> Tensor {
    let n = images.dim(0);
    let [a, b, c] = key.split_n();
    let within =
        |key: Key, k: usize, most: f32| (key.uniform([n, k], DType::F32) * 2.0 - 1.0) * most;
    let (angle, scale, moved) = (
        within(a, 1, TURN),
        within(b, 1, SCALE) + 1.0,
        within(c, 2, MOVE),
    );
    // The places of the pixels around the centre, and those from which they come.
    let pixels = Tensor::arange((SIDE * SIDE) as i64, DType::I64);
    let centre = (SIDE as f32 - 1.0) / 2.0;
    let v = pixels.floor_divide(SIDE as i64).cast(DType::F32) - centre;
    let u = pixels.mod_floor(SIDE as i64).cast(DType::F32) - centre;
    let (cos, sin) = (angle.cos() * &scale, angle.sin() * &scale);
    let row = &cos * &v - &sin * &u + moved.i((.., 0..1)) + centre;
    let column = sin * v + cos * u + moved.i((.., 1..2)) + centre;
    let (above, left) = (row.floor(), column.floor());
    let flat = images.reshape([n, SIDE * SIDE]);
    let last = SIDE as f32 - 1.0;
    let corner = |down: f32, right: f32| {
        let i = (&above + down).clamp(0.0, last) * SIDE as f32 + (&left + right).clamp(0.0, last);
        let share = |x: &Tensor, first: &Tensor, far: f32| 1.0 - (x - first - far).abs();
        flat.take_along_axis(i.cast(DType::I64), 1)
            * share(&row, &above, down)
            * share(&column, &left, right)
    };
    let sum = corner(0.0, 0.0) + corner(0.0, 1.0) + corner(1.0, 0.0) + corner(1.0, 1.0);
    sum.reshape([n, 1, SIDE, SIDE])
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
        [folder] if folder != "--short" => (folder, usize::MAX, 20, 0.985),
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

    let [init, order, chance] = Key::new(0).split_n();
    let batches = Batches::new(train, BATCH).shuffle(order).prefetch(4);
    let mut model = Cnn::new(init);
    evaluate(&model)?;
    let adam = AdamW {
        weight_decay: 0.02,
        ..AdamW::default()
    };
    let n_steps = epochs as usize * n_train.div_ceil(BATCH);
    let adam = adam.scheduled(Schedule::one_cycle(3e-3, n_steps));
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
    let mut keys = chance.split_many(n_steps).into_iter();
    for epoch in 1..=epochs {
        let (start, plans) = (Instant::now(), events::counts().planned);
        let mut total = 0.0;
        for batch in batches.epoch(epoch) {
            let (x, labels) = batch?;
            let [places, drops] = keys.next().expect("a key for each batch").split_n();
            let x = warped(&x, places);
            let (value, gradients) = training_loss::value_and_grad(&model, &x, &labels, drops);
            (model, state) = adam.step(&model, &gradients.model, &state);
            total += value.item::<f32>() * x.dim(0) as f32;
        }
        evaluate((&model, &state))?;
        let seconds = start.elapsed().as_secs_f64();
        let plans = events::counts().planned - plans;
        share = accuracy(&model);
        let test_loss = model.forward(&test_x).cross_entropy(&test_labels);
        let test_loss = test_loss.item::<f32>();
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
