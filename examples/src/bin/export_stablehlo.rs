//! Writes a training step of the perceptron for handwritten digits as StableHLO text, with the arguments of the
//! first step, for `examples/stablehlo/train.py`.
//!
//! `cargo run --release --bin export_stablehlo -- [FOLDER]`
//!
//! The step maps parameters, Adam's state and a batch to parameters, state and loss. The folder gets `step.mlir`, and
//! `arguments.txt` with a line for each argument: dtype, shape, and numbers.

use gradloom::prelude::*;
use gradloom::trace::trace;
use gradloom_examples::data::{CLASSES, Digits, PIXELS};
use gradloom_examples::model::Mlp;
use gradloom_examples::step::{Argument, adam, constants, leaves, step};
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1);
    let folder = folder.as_deref().unwrap_or("target/stablehlo");
    if folder.starts_with('-') {
        return Err(format!("unknown option `{folder}`; give the folder to write to").into());
    }
    let folder = PathBuf::from(folder);
    let digits = Digits::bundled();
    let (train, _) = digits.split(Key::new(20));
    let (x, labels) = digits.batch(&train[..BATCH]);
    let model = Mlp::init(Key::new(0), [PIXELS, 256, 128, CLASSES]);
    let argument: Argument = (model.clone(), adam().init(&model), x, labels);
    let step = trace(step, &argument);
    let text = gradloom_stablehlo::export(step.program(), "step")?;

    let mut arguments = String::new();
    let mut line = |x: &Tensor| {
        let numbers: Vec<String> = x
            .cast(DType::F64)
            .to_vec::<f64>()
            .iter()
            .map(f64::to_string)
            .collect();
        let shape: Vec<String> = x.shape().iter().map(usize::to_string).collect();
        let _ = writeln!(
            arguments,
            "{} [{}] {}",
            x.dtype(),
            shape.join(","),
            numbers.join(" ")
        );
    };
    leaves(&argument)
        .iter()
        .chain(&constants(&step))
        .for_each(&mut line);

    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("step.mlir"), &text)?;
    std::fs::write(folder.join("arguments.txt"), arguments)?;
    println!(
        "{}: {} ops, {} lines",
        folder.display(),
        step.program().eqns.len(),
        text.lines().count()
    );
    Ok(())
}
