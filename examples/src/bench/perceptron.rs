//! Perceptrons: training steps (W1), those of one so small that they measure the fixed cost of a step (W2), and
//! the gradients of each example (W8).

use super::inputs::{fill, labels, weight, zeros};
use super::measure::{Timer, Unit, norm};
use crate::model::{self, Linear, Mlp};
use gradloom::Vmap;
use gradloom::optim::{Sgd, SgdState};
use gradloom::prelude::*;

const SGD: Sgd = Sgd {
    lr: 0.01,
    momentum: 0.0,
    nesterov: false,
};

/// A perceptron with two layers.
#[derive(Clone, Tree)]
struct Tiny {
    first: Linear,
    last: Linear,
}

#[traced]
fn tiny_loss(model: &Tiny, #[nodiff] x: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
    let h = model.first.forward(x).tanh();
    (model.last.forward(&h) - target).square().mean(..)
}

/// Times training steps: W1.
pub(super) fn steps(timer: &mut Timer) -> Result<()> {
    let mut training = Training::new(mlp());
    let (x, labels) = batch(128);
    let step = |model: &Mlp| {
        let (loss, grads) = model::loss::value_and_grad(model, &x, &labels);
        (loss, grads.model)
    };
    for _ in 0..3 {
        training.step(step)?;
    }
    let check = model::loss(&training.model, &x, &labels).item::<f32>();
    timer.time("W1", Unit::Micros, check.into(), || training.step(step))
}

/// Times the first step of W1, as part of W6.
pub(super) fn first_step(timer: &mut Timer) -> Result<()> {
    let mut training = Training::new(mlp());
    let (x, labels) = batch(128);
    timer.time_first("W6_w1", || {
        training.step(|model| {
            let (loss, grads) = model::loss::value_and_grad(model, &x, &labels);
            (loss, grads.model)
        })
    })
}

/// Times training steps of the tiny perceptron: W2.
pub(super) fn tiny_steps(timer: &mut Timer) -> Result<()> {
    let mut training = Training::new(Tiny {
        first: Linear {
            w: fill(202, [4, 16], 0.5),
            b: zeros(16),
        },
        last: Linear {
            w: fill(203, [16, 3], 0.25),
            b: zeros(3),
        },
    });
    let (x, target) = (fill(200, [8, 4], 1.0), fill(201, [8, 3], 1.0));
    let step = |model: &Tiny| {
        let (loss, grads) = tiny_loss::value_and_grad(model, &x, &target);
        (loss, grads.model)
    };
    for _ in 0..3 {
        training.step(step)?;
    }
    let check = tiny_loss(&training.model, &x, &target).item::<f32>();
    timer.time("W2", Unit::Micros, check.into(), || training.step(step))
}

/// Times the gradients of each example of a batch: W8.
pub(super) fn example_gradients(timer: &mut Timer) -> Result<()> {
    let (x, labels) = batch(64);
    let inputs = (mlp(), x, labels);
    let gradient = |(model, x, label): &(Mlp, Tensor, Tensor)| {
        model::loss::grad(model, &x.unsqueeze(0), &label.unsqueeze(0)).model
    };
    let each = Vmap::new(gradient).in_axes((None, 0, 0));
    let check = norm(&each.call(&inputs));
    timer.time("W8", Unit::Millis, check, || evaluate(&each.call(&inputs)))
}

/// State that one training step passes to the next.
pub(super) struct Training<M> {
    pub(super) model: M,
    state: SgdState<M>,
}

impl<M: Tree + Clone> Training<M> {
    pub(super) fn new(model: M) -> Training<M> {
        let state = SGD.init(&model);
        Training { model, state }
    }

    /// Computes the gradient and the update, and evaluates both together with the loss.
    pub(super) fn step(&mut self, value_and_grad: impl Fn(&M) -> (Tensor, M)) -> Result<()> {
        let (loss, grads) = value_and_grad(&self.model);
        (self.model, self.state) = SGD.step(&self.model, &grads, &self.state);
        evaluate((&loss, &self.model))
    }
}

fn mlp() -> Mlp {
    let layer = |seed, inputs, outputs| Linear {
        w: weight(seed, inputs, outputs),
        b: zeros(outputs),
    };
    Mlp {
        first: layer(101, 784, 512),
        second: layer(102, 512, 256),
        last: layer(103, 256, 10),
    }
}

fn batch(n: usize) -> (Tensor, Tensor) {
    (fill(100, [n, 784], 1.0), labels(n))
}
