//! A training step of the perceptron as one function, for export.

use crate::model::{Mlp, loss};
use gradloom::optim::{Adam, AdamState};
use gradloom::prelude::*;

/// Parameters and optimiser state, and the images and labels of a batch.
pub type Argument = (Mlp, AdamState<Mlp>, Tensor, Tensor);

/// Returns the optimiser.
pub fn adam() -> Adam {
    Adam {
        lr: 2e-3,
        ..Adam::default()
    }
}

/// Returns parameters and state after a step, and the loss before it.
pub fn step((model, state, x, labels): &Argument) -> (Mlp, AdamState<Mlp>, Tensor) {
    let (l, grads) = value_and_grad(|model: &Mlp| loss(model, x, labels))(model);
    let (model, state) = adam().step(model, &grads, state);
    (model, state, l)
}
