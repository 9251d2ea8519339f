//! Trains the perceptron for handwritten digits with XLA: the step is exported as StableHLO text, compiled once by a PJRT
//! plugin, and its parameters and optimiser state stay on the device.
//!
//! `cargo run --release --bin train_xla -- PLUGIN [EPOCHS]`, where `PLUGIN` is a shared library such as `xla_cpu_pjrt.so` of
//! the Python package `xla-cpu-pjrt`. Compare with `cargo run --release --bin digits -- --epochs EPOCHS`.

use gradloom::prelude::*;
use gradloom::trace::trace;
use gradloom_examples::data::{CLASSES, Digits, PIXELS};
use gradloom_examples::model::{Mlp, accuracy, loss};
use gradloom_examples::step::{Argument, adam, constants, leaves, step};
use gradloom_pjrt::{Buffer, Client, Element, Plugin};
use std::error::Error;
use std::time::Instant;

const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let plugin = args.next().ok_or("give the path of a PJRT plugin")?;
    let epochs: usize = args.next().map_or(Ok(30), |n| n.parse())?;
    let client = Plugin::load(plugin.as_ref())?.client()?;
    println!(
        "platform: {}, {} devices",
        client.platform()?,
        client.n_devices()
    );

    let digits = Digits::bundled();
    let (train, test) = digits.split(Key::new(20));
    let (init, mut shuffle) = Key::new(0).split();
    let model = Mlp::init(init, [PIXELS, 256, 128, CLASSES]);
    let (x, labels) = digits.batch(&train[..BATCH]);
    let argument: Argument = (model.clone(), adam().init(&model), x, labels);
    let start = Instant::now();
    let traced = trace(step, &argument);
    let compiled = client.compile(&gradloom_stablehlo::export(traced.program(), "step")?, 1)?;
    let (test_x, test_labels) = digits.batch(&test);
    let measured = (model, test_x, test_labels);
    let of_test = trace(
        |(model, x, labels): &(Mlp, Tensor, Tensor)| {
            (loss(model, x, labels), accuracy(model, x, labels))
        },
        &measured,
    );
    let test = client.compile(&gradloom_stablehlo::export(of_test.program(), "test")?, 1)?;
    println!("compiled in {:.2} s", start.elapsed().as_secs_f64());

    let of_step = buffers(&client, &constants(&traced))?;
    let mut state = buffers(
        &client,
        &[leaves(&argument.0), leaves(&argument.1)].concat(),
    )?;
    let n_params = leaves(&argument.0).len();
    let test_set = buffers(&client, &[measured.1.clone(), measured.2.clone()])?;
    let test_constants = buffers(&client, &constants(&of_test))?;
    let start = Instant::now();
    for epoch in 1..=epochs {
        let (this, next) = shuffle.split();
        shuffle = next;
        let order = this.permutation(train.len()).to_vec::<i64>();
        let order: Vec<i64> = order.iter().map(|&i| train[i as usize]).collect();
        let (mut total, mut n) = (0.0, 0);
        // The step has one batch size: the last images of an epoch are left out.
        for indices in order.chunks_exact(BATCH) {
            let (x, labels) = digits.batch(indices);
            let batch = buffers(&client, &[x, labels])?;
            let args: Vec<&Buffer> = state.iter().chain(&batch).chain(&of_step).collect();
            state = compiled.run(&args)?;
            let of_batch = state.pop().ok_or("the step returns a loss")?;
            total += number(&of_batch)?;
            n += 1;
        }
        let params = state[..n_params].iter();
        let args: Vec<&Buffer> = params.chain(&test_set).chain(&test_constants).collect();
        let found = test.run(&args)?;
        println!(
            "epoch {epoch}: training loss {:.4}, test loss {:.4}, test accuracy {:.4}",
            total / n as f32,
            number(&found[0])?,
            number(&found[1])?
        );
    }
    println!("time: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Copies tensors to the device.
fn buffers(client: &Client, tensors: &[Tensor]) -> Result<Vec<Buffer>, Box<dyn Error>> {
    let buffer = |x: &Tensor| -> Result<Buffer, Box<dyn Error>> {
        let (element, bytes): (Element, Vec<u8>) = match x.dtype() {
            DType::F32 => (
                Element::F32,
                x.to_vec::<f32>()
                    .iter()
                    .flat_map(|x| x.to_le_bytes())
                    .collect(),
            ),
            DType::I64 => (
                Element::I64,
                x.to_vec::<i64>()
                    .iter()
                    .flat_map(|x| x.to_le_bytes())
                    .collect(),
            ),
            dtype => return Err(format!("the model has no {dtype}").into()),
        };
        Ok(client.buffer(element, x.shape(), &bytes, 0)?)
    };
    tensors.iter().map(buffer).collect()
}

/// Returns the only element of a buffer of `f32`.
fn number(buffer: &Buffer) -> Result<f32, Box<dyn Error>> {
    let bytes = buffer.to_bytes()?;
    Ok(f32::from_le_bytes(bytes[..].try_into()?))
}
