//! A network with two convolutions: training and class scores, W11.

use super::inputs::{fill, labels, weight, zeros};
use super::measure::{Timer, Unit, sum};
use super::perceptron::Training;
use crate::model::Linear;
use gradloom::prelude::*;
use gradloom::tree;

/// A convolution with windows of 3 x 3 that keeps the sides of images.
#[derive(Clone, Tree)]
struct Conv {
    /// `[outputs, inputs, 3, 3]`.
    w: Tensor,
    /// `[outputs]`.
    b: Tensor,
}

#[traced]
impl Conv {
    /// Convolves, and halves the sides of the images.
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.conv_same(&self.w, [1, 1]) + self.b.reshape([self.b.dim(0), 1, 1]);
        y.relu().max_pool([2, 2], [2, 2], [0, 0])
    }
}

#[derive(Clone, Tree)]
struct Network {
    first: Conv,
    second: Conv,
    last: Linear,
}

/// Returns the scores of the classes of each image.
#[traced]
fn scores(network: &Network, #[nodiff] x: &Tensor) -> Tensor {
    let y = network.second.forward(&network.first.forward(x));
    network.last.forward(&y.reshape([y.dim(0), -1]))
}

#[traced]
fn loss(network: &Network, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    scores(network, x).cross_entropy(labels)
}

/// Times training steps.
pub(super) fn steps(timer: &mut Timer) -> Result<()> {
    let mut training = Training::new(network());
    let (x, labels) = (images(), labels(32));
    let first = loss(&training.model, &x, &labels).item::<f32>();
    let step = |network: &Network| {
        let (loss, grads) = loss::value_and_grad(network, &x, &labels);
        (loss, grads.network)
    };
    training.step(step)?;
    let leaves = tree::leaves_with_paths(&training.model);
    let weights: f64 = leaves.iter().map(|(_, leaf)| sum(leaf, f64::abs)).sum();
    let check = f64::from(first) + weights;
    timer.time("W11", Unit::Millis, check, || training.step(step))
}

/// Times class scores.
pub(super) fn class_scores(timer: &mut Timer) -> Result<()> {
    let (network, x) = (network(), images());
    let check = sum(&scores(&network, &x), f64::abs);
    timer.time("W11_scores", Unit::Millis, check, || {
        evaluate(&scores(&network, &x))
    })
}

fn images() -> Tensor {
    fill(110, [32, 1, 28, 28], 1.0)
}

fn network() -> Network {
    let window = |seed, outputs: usize, inputs: usize| {
        fill(
            seed,
            [outputs, inputs, 3, 3],
            1.0 / (inputs as f32 * 9.0).sqrt(),
        )
    };
    let conv = |seed, outputs, inputs| Conv {
        w: window(seed, outputs, inputs),
        b: zeros(outputs),
    };
    Network {
        first: conv(111, 16, 1),
        second: conv(112, 32, 16),
        last: Linear {
            w: weight(113, 1568, 10),
            b: zeros(10),
        },
    }
}
