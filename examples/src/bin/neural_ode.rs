//! Learns the vector field of a spiral from its trajectory, by gradients through a Runge-Kutta
//! solver: Chen and others, "Neural ordinary differential equations", 2018.
//!
//! `cargo run --release --bin neural_ode [-- --short]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::optim::{Adam, Schedule};
use gradloom::prelude::*;
use gradloom::scan;
use gradloom_examples::chart;
use gradloom_examples::command::is_short;
use gradloom_examples::model::Linear;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Distance of two points of a trajectory.
const DT: f64 = 0.05;
/// Number of points after the start, in the data.
const POINTS: usize = 300;
/// Number of points after the start, in a training example.
const SEGMENT: usize = 20;
const BATCH: usize = 64;

/// A vector field: a perceptron of the cubes of the coordinates.
#[derive(Clone, Tree)]
struct Field {
    hidden: Linear,
    out: Linear,
}

#[traced]
impl Field {
    /// Returns the velocity at each row of `y`.
    fn velocity(&self, y: &Tensor) -> Tensor {
        let hidden = self.hidden.forward(&(y.square() * y)).tanh();
        self.out.forward(&hidden)
    }
}

/// Returns `steps` points after `start` of the solution of `dy/dt = f(y)`, by the classical method
/// of Runge and Kutta. They are along axis 0.
fn solve(f: impl Fn(&Tensor) -> Tensor, start: &Tensor, steps: usize) -> Tensor {
    let turn = |y: &Tensor, _: &Tensor| {
        let k1 = f(y);
        let k2 = f(&(y + &k1 * (0.5 * DT)));
        let k3 = f(&(y + &k2 * (0.5 * DT)));
        let k4 = f(&(y + &k3 * DT));
        let y = y + (k1 + (k2 + k3) * 2.0 + k4) * (DT / 6.0);
        (y.clone(), y)
    };
    let (_, points) = scan(turn, start, &Tensor::arange(steps, DType::I64));
    points
}

/// Returns the mean distance from `points` of the solutions that begin at the rows of `start`.
#[traced(pure, record)]
fn loss(field: &Field, #[nodiff] start: &Tensor, #[nodiff] points: &Tensor) -> Tensor {
    let found = solve(|y: &Tensor| field.velocity(y), start, points.dim(0));
    (found - points).abs().mean(..)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (iterations, shrink) = match is_short()? {
        false => (2000, 20.0),
        true => (200, 3.0),
    };
    let clock = Instant::now();

    // The spiral of the paper: dy/dt = y^3 A.
    let matrix = Tensor::from([[-0.1f32, 2.0], [-2.0, -0.1]]);
    let start = Tensor::from([[2.0f32, 0.0]]);
    let spiral = solve(
        |y: &Tensor| (y.square() * y).matmul(&matrix),
        &start,
        POINTS,
    );
    let spiral = Tensor::concat(&[start.unsqueeze(0), spiral], 0).squeeze(1);
    evaluate(&spiral)?;
    let whole = spiral.i(1..).unsqueeze(1);

    let [hidden, out, mut key] = Key::new(0).split_n();
    let mut field = Field {
        hidden: Linear::init(hidden, 2, 50),
        out: Linear::init(out, 50, 2),
    };
    evaluate(&field)?;
    let before = loss(&field, &start, &whole).item::<f32>();
    let optimiser = Adam::default().scheduled(Schedule::cosine(1e-2, 1e-4, iterations));
    let mut state = optimiser.init(&field);
    let offsets = Tensor::arange(SEGMENT, DType::I64).unsqueeze(1) + 1;
    let (mut curve, mut sum) = (Vec::new(), 0.0);
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_header(["iteration", "loss of segments"]);
    for i in 1..=iterations {
        let (now, later) = key.split();
        key = later;
        let first =
            (now.uniform([BATCH], DType::F32) * (POINTS + 1 - SEGMENT) as f64).cast(DType::I64);
        let starts = spiral.take(&first, 0);
        let points = spiral.take(first + &offsets, 0);
        let (value, grads) = loss::value_and_grad(&field, &starts, &points);
        (field, state) = optimiser.step(&field, &grads.field, &state);
        sum += value.item::<f32>();
        if i % (iterations / 20) == 0 {
            curve.push(sum / (iterations / 20) as f32);
            sum = 0.0;
            if i % (iterations / 5) == 0 {
                table.add_row([i.to_string(), format!("{:.5}", curve[curve.len() - 1])]);
            }
        }
    }
    println!("{table}");
    let after = loss(&field, &start, &whole).item::<f32>();
    let svg = Path::new("target/neural-ode-loss.svg");
    chart::curves(
        svg,
        "Distance from the spiral, segments",
        &[("training", curve)],
    )?;
    println!("loss curve: {}", svg.display());
    println!("time: {:.1} s", clock.elapsed().as_secs_f64());
    println!("mean distance from the whole spiral: {before:.4} before, {after:.4} after");
    if after.is_nan() || after > before / shrink {
        Err(format!(
            "the distance is not {shrink} times smaller after training"
        ))?;
    }
    Ok(())
}
