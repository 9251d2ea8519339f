//! Trains the perceptron for handwritten digits for one epoch, and writes it as an ONNX model.
//!
//! `cargo run --release --bin export_onnx -- [FILE]`
//!
//! The input of the model is a batch of 32 images, and its output the probability of each class. The weights are
//! constants of the model.

use gradloom::prelude::*;
use gradloom::trace::trace;
use gradloom_examples::data::{CLASSES, Digits, PIXELS};
use gradloom_examples::model::{Mlp, accuracy, logits};
use gradloom_examples::step::{adam, constants, step};
use gradloom_onnx::Elements;
use std::error::Error;
use std::path::PathBuf;

const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1);
    let file = file.map_or_else(|| PathBuf::from("target/onnx/digits.onnx"), PathBuf::from);
    let digits = Digits::bundled();
    let (train, test) = digits.split(Key::new(20));
    let mut model = Mlp::init(Key::new(0), [PIXELS, 256, 128, CLASSES]);
    let mut state = adam().init(&model);
    for batch in train.chunks_exact(BATCH) {
        let (x, labels) = digits.batch(batch);
        (model, state, _) = step(&(model, state, x, labels));
    }

    let (x, labels) = digits.batch(&test[..BATCH]);
    let traced = trace(|x: &Tensor| logits(&model, x).softmax(-1), &x);
    let weights: Vec<Vec<f32>> = constants(&traced).iter().map(Tensor::to_vec).collect();
    let weights = weights.iter().enumerate();
    let weights: Vec<_> = weights.map(|(i, w)| (i + 1, Elements::F32(w))).collect();
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    gradloom_onnx::write(&file, traced.program(), "digits", &weights)?;
    println!(
        "{}: {} ops, {} weights, accuracy {:.2} on {BATCH} images",
        file.display(),
        traced.program().eqns.len(),
        traced.captured().len(),
        accuracy(&model, &x, &labels).item::<f32>()
    );
    Ok(())
}
