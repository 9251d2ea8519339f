//! Writes a training step of the perceptron for handwritten digits as StableHLO text, with the arguments of the
//! first step, for `examples/stablehlo/train.py`.
//!
//! `cargo run --release --bin export_stablehlo -- [FOLDER [DEVICES]]`
//!
//! The step maps parameters, Adam's state and a batch to parameters, state and loss. Each of several devices has a part
//! of the batch. The folder gets `step.mlir`, and `arguments.txt` with a line for each argument: `rows` if the devices
//! divide its first axis and `whole` otherwise, dtype, shape, and numbers.

use gradloom::prelude::*;
use gradloom::sharding::sharded;
use gradloom::trace::trace;
use gradloom_examples::data::{CLASSES, Digits, PIXELS};
use gradloom_examples::model::Mlp;
use gradloom_examples::step::{Argument, adam, constants, data_parallel, leaves, step};
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
    let n_devices: usize = std::env::args().nth(2).map_or(Ok(1), |n| n.parse())?;
    if n_devices == 0 || !BATCH.is_multiple_of(n_devices) {
        return Err(format!("{n_devices} devices cannot share a batch of {BATCH}").into());
    }
    let digits = Digits::bundled();
    let (train, _) = digits.split(Key::new(20));
    let (x, labels) = digits.batch(&train[..BATCH]);
    let model = Mlp::init(Key::new(0), [PIXELS, 256, 128, CLASSES]);
    let argument: Argument = (model.clone(), adam().init(&model), x, labels);
    let step = match n_devices {
        1 => trace(step, &argument),
        n => {
            let (mesh, [whole, rows]) = data_parallel(n)?;
            let specs = (whole.clone(), whole.clone(), rows.clone(), rows);
            trace(sharded(step, &mesh, specs, whole), &argument)
        }
    };
    let is_divided =
        |i: usize| n_devices > 1 && step.inputs().len() - 2 <= i && i < step.inputs().len();
    let text = gradloom_stablehlo::export(step.program(), "step")?;

    let mut arguments = String::new();
    let mut line = |(i, x): (usize, &Tensor)| {
        let numbers: Vec<String> = x
            .cast(DType::F64)
            .to_vec::<f64>()
            .iter()
            .map(f64::to_string)
            .collect();
        let shape: Vec<String> = x.shape().iter().map(usize::to_string).collect();
        let _ = writeln!(
            arguments,
            "{} {} [{}] {}",
            if is_divided(i) { "rows" } else { "whole" },
            x.dtype(),
            shape.join(","),
            numbers.join(" ")
        );
    };
    leaves(&argument)
        .iter()
        .chain(&constants(&step))
        .enumerate()
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
