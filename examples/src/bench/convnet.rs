//! Training of a network with two convolutions: W11.

use super::inputs::{fill, labels, weight, zeros};
use super::measure::{Timer, Unit};
use super::perceptron::Training;
use crate::model::Linear;
use gradloom::prelude::*;

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

#[traced]
fn loss(network: &Network, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    let y = network.second.forward(&network.first.forward(x));
    let y = network.last.forward(&y.reshape([y.dim(0), -1]));
    y.cross_entropy(labels)
}

/// Times training steps.
pub(super) fn steps(timer: &mut Timer) -> Result<()> {
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
    let mut training = Training::new(Network {
        first: conv(111, 16, 1),
        second: conv(112, 32, 16),
        last: Linear {
            w: weight(113, 1568, 10),
            b: zeros(10),
        },
    });
    let (x, labels) = (fill(110, [32, 1, 28, 28], 1.0), labels(32));
    let step = |network: &Network| {
        let (loss, grads) = loss::value_and_grad(network, &x, &labels);
        (loss, grads.network)
    };
    for _ in 0..3 {
        training.step(step)?;
    }
    let check = loss(&training.model, &x, &labels).item::<f32>();
    timer.time("W11", Unit::Millis, check.into(), || training.step(step))
}
