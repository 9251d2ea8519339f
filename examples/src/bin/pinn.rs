//! A network that solves a differential equation: `-u'' = f` from 0 to 1, with `u` zero at both ends.
//! The second derivative is forward mode of forward mode, in lanes, and the loss has a gradient.
//!
//! `cargo run --release --bin pinn [-- --short]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::optim::{Adam, Lbfgs, Schedule};
use gradloom::prelude::*;
use gradloom_examples::chart;
use gradloom_examples::command::is_short;
use gradloom_examples::model::Linear;
use std::error::Error;
use std::f64::consts::PI;
use std::path::Path;
use std::time::Instant;

const WIDTH: usize = 24;

/// A perceptron from numbers to numbers.
#[derive(Clone, Tree)]
struct Net {
    first: Linear,
    second: Linear,
    last: Linear,
}

impl Net {
    fn new(key: Key) -> Net {
        let [slopes, places, second, last] = key.split_n();
        let layer = |key: Key, inputs: usize, outputs: usize| Linear {
            w: key.normal([inputs, outputs], DType::F64) * (1.0 / inputs as f64).sqrt(),
            b: Tensor::zeros([outputs], DType::F64),
        };
        Net {
            // The kinks of the units are spread over the interval.
            first: Linear {
                w: slopes.normal([1, WIDTH], DType::F64) * 4.0,
                b: places.uniform([WIDTH], DType::F64) * 8.0 - 4.0,
            },
            second: layer(second, WIDTH, WIDTH),
            last: layer(last, WIDTH, 1),
        }
    }
}

/// Returns the approximate solution at a number. The factor `x (1 - x)` makes it zero at both ends.
#[traced]
fn solution(net: &Net, x: &Tensor) -> Tensor {
    let hidden = net.first.forward(&x.unsqueeze(0)).tanh();
    let hidden = net.second.forward(&hidden).tanh();
    let factor = x * (1.0 - x);
    net.last.forward(&hidden).squeeze(0) * factor
}

/// Returns the second derivative of the solution at a number.
fn curvature(net: &Net, x: &Tensor) -> Tensor {
    let one = x.ones_like();
    let slope = |x: &Tensor| jvp(|x: &Tensor| solution(net, x), x, &one).1;
    jvp(slope, x, &one).1
}

/// Returns the exact solution.
fn exact(x: &Tensor) -> Tensor {
    (x * PI).sin() + (x * (3.0 * PI)).sin() * 0.5
}

/// Returns the right side `f` of the equation.
fn source(x: &Tensor) -> Tensor {
    ((x * PI).sin() + (x * (3.0 * PI)).sin() * 4.5) * (PI * PI)
}

/// Returns the mean square of `u'' + f` at the numbers `xs`.
#[traced(pure, record)]
fn loss(net: &Net, #[nodiff] xs: &Tensor) -> Tensor {
    let residual = |x: &Tensor| curvature(net, x) + source(x);
    vmap(residual)(xs).square().mean(..)
}

/// Returns the largest error of the solution at 1001 numbers.
fn error(net: &Net) -> f64 {
    let xs = Tensor::linspace(0.0, 1.0, 1001, DType::F64);
    let found = vmap(|x: &Tensor| solution(net, x))(&xs);
    (found - exact(&xs)).abs().max(..).item::<f64>()
}

fn main() -> Result<(), Box<dyn Error>> {
    let (adam_steps, lbfgs_steps, limit) = match is_short()? {
        false => (1500, 500, 1e-4),
        true => (200, 60, 0.05),
    };
    let clock = Instant::now();
    let xs = Tensor::linspace(0.0, 1.0, 128, DType::F64);
    let mut net = Net::new(Key::new(0));
    evaluate((&xs, &net))?;

    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "after",
        "mean square of the residual",
        "largest error",
    ]);
    let mut row = |after: String, value: f64, net: &Net| {
        table.add_row([after, format!("{value:.3e}"), format!("{:.2e}", error(net))]);
    };
    row("the start".to_owned(), loss(&net, &xs).item::<f64>(), &net);

    let adam = Adam::default().scheduled(Schedule::cosine(1e-2, 1e-4, adam_steps));
    let mut state = adam.init(&net);
    let mut curve = Vec::new();
    for step in 0..adam_steps {
        let (value, grads) = loss::value_and_grad(&net, &xs);
        (net, state) = adam.step(&net, &grads.net, &state);
        let value = value.item::<f64>();
        if step % (adam_steps / 50) == 0 {
            curve.push(value.sqrt() as f32);
        }
    }
    row(
        format!("{adam_steps} steps of Adam"),
        loss(&net, &xs).item::<f64>(),
        &net,
    );

    // The loss has no noise, so an estimate of its Hessian helps.
    let lbfgs = Lbfgs {
        history: 50,
        ..Lbfgs::default()
    };
    let evaluation = |net: &Net| {
        let (value, grads) = loss::value_and_grad(net, &xs);
        (value, grads.net)
    };
    let mut state = lbfgs.init(&net, evaluation);
    for step in 1..=lbfgs_steps {
        (net, state) = lbfgs.step(&net, &state, evaluation);
        if step % (lbfgs_steps / 3) == 0 {
            row(
                format!("{step} steps of L-BFGS"),
                state.value.item::<f64>(),
                &net,
            );
        }
    }
    println!("{table}");
    let svg = Path::new("target/pinn-residual.svg");
    chart::curves(
        svg,
        "Root mean square of u'' + f, 50 times during Adam",
        &[("residual", curve)],
    )?;
    println!("residual curve: {}", svg.display());
    println!("time: {:.1} s", clock.elapsed().as_secs_f64());
    let error = error(&net);
    println!("largest error of the solution: {error:.2e}");
    if error.is_nan() || error > limit {
        Err(format!("the error is larger than {limit:e}"))?;
    }
    Ok(())
}
