//! Trains the perceptron for handwritten digits with XLA: the step is exported as StableHLO text, compiled once by a PJRT
//! plugin, and its parameters and optimiser state stay on the device.
//!
//! `cargo run --release --bin train_xla -- PLUGIN [EPOCHS [DEVICES]]`, where `PLUGIN` is a shared library such as
//! `xla_cpu_pjrt.so` of the Python package `xla-cpu-pjrt`. Each of several devices has a part of each batch, and XLA
//! inserts the sums of gradients. The CPU has 4 devices with `XLA_FLAGS=--xla_force_host_platform_device_count=4`.

use gradloom::prelude::*;
use gradloom::sharding::sharded;
use gradloom::trace::trace;
use gradloom_examples::data::{CLASSES, Digits, PIXELS};
use gradloom_examples::model::{Mlp, accuracy, loss};
use gradloom_examples::step::{Argument, adam, constants, data_parallel, leaves, step};
use gradloom_examples::xla::{buffers, number};
use gradloom_pjrt::{Buffer, PjrtError, Plugin};
use std::error::Error;
use std::time::Instant;

const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let plugin = args.next().ok_or("give the path of a PJRT plugin")?;
    let epochs: usize = args.next().map_or(Ok(30), |n| n.parse())?;
    let n_devices: usize = args.next().map_or(Ok(1), |n| n.parse())?;
    if n_devices == 0 || !BATCH.is_multiple_of(n_devices) {
        return Err(format!("{n_devices} devices cannot share a batch of {BATCH}").into());
    }
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
    // The parameters are whole on each device, and the images and labels of a batch are divided.
    let (mesh, [whole, rows]) = data_parallel(n_devices)?;
    let specs = (whole.clone(), whole.clone(), rows.clone(), rows);
    let traced = trace(sharded(step, &mesh, specs, whole), &argument);
    let n_params = leaves(&argument.0).len();
    let state = [leaves(&argument.0), leaves(&argument.1)].concat();
    // The new state takes the memory of the old one.
    let donated: Vec<usize> = (0..state.len()).collect();
    let text = gradloom_stablehlo::export_donating(traced.program(), "step", &donated)?;
    let compiled = client.compile(&text, n_devices)?;
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

    let on_devices = |tensors: &[Tensor]| -> Result<Vec<Vec<Buffer>>, PjrtError> {
        let on_device = |device| buffers(&client, tensors, device);
        (0..n_devices).map(on_device).collect()
    };
    let of_step = on_devices(&constants(&traced))?;
    let mut states = on_devices(&state)?;
    let test_set = buffers(&client, &[measured.1.clone(), measured.2.clone()], 0)?;
    let test_constants = buffers(&client, &constants(&of_test), 0)?;
    let start = Instant::now();
    for epoch in 1..=epochs {
        let (this, next) = shuffle.split();
        shuffle = next;
        let order = this.permutation(train.len()).to_vec::<i64>();
        let order: Vec<i64> = order.iter().map(|&i| train[i as usize]).collect();
        let (mut total, mut n) = (0.0, 0);
        // The step has one batch size: the last images of an epoch are left out.
        for indices in order.chunks_exact(BATCH) {
            let mut batches = Vec::new();
            for (device, indices) in indices.chunks_exact(BATCH / n_devices).enumerate() {
                let (x, labels) = digits.batch(indices);
                batches.push(buffers(&client, &[x, labels], device)?);
            }
            let args: Vec<Vec<&Buffer>> = (0..n_devices)
                .map(|device| {
                    let parts = [&states[device], &batches[device], &of_step[device]];
                    parts.into_iter().flatten().collect()
                })
                .collect();
            let args: Vec<&[&Buffer]> = args.iter().map(Vec::as_slice).collect();
            states = compiled.run_on(&args)?;
            let losses: Vec<Buffer> = states.iter_mut().filter_map(Vec::pop).collect();
            total += number(&losses[0])?;
            n += 1;
        }
        let params = states[0][..n_params].iter();
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
