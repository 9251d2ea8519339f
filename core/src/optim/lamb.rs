//! LAMB.

use super::update::{StepArgs, begin_step};
use super::{Adam, AdamState, Optimiser};
use crate::{Tensor, Tree};

/// LAMB: Adam whose step of each parameter is proportional to the parameter's norm, for large
/// batches.
///
/// With `u` the step of [`AdamW`](super::AdamW) for learning rate 1, and norms over all elements of
/// one parameter:
///
/// ```text
/// u  = (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay * x
/// x' = x - lr * u * |x| / |u|
/// ```
///
/// The quotient of the norms counts as 1 if one of them is zero. You et al., "Large batch
/// optimization for deep learning: training BERT in 76 minutes", 2020 (arXiv:1904.00962),
/// algorithm 2, with the identity as its function of the norm. `optax.lamb` computes the same.
///
/// ```
/// use gradloom::optim::Lamb;
/// use gradloom::prelude::*;
///
/// let lamb = Lamb { lr: 0.1, weight_decay: 0.0, ..Lamb::default() };
/// let x = Tensor::from([3.0f64, 4.0]);
/// let (y, _state) = lamb.step(&x, &Tensor::from([1.0, -1.0]), &lamb.init(&x));
/// // The step has a tenth of the norm of the parameter.
/// assert!(((&x - y).square().sum(..).sqrt().item::<f64>() - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lamb {
    /// Learning rate.
    pub lr: f64,
    /// Decay factor of the mean gradient in each step.
    pub beta1: f64,
    /// Decay factor of the mean squared gradient in each step.
    pub beta2: f64,
    /// Added to the denominator, so that the step stays finite where the gradient vanishes.
    pub eps: f64,
    /// Factor of the parameter in the direction of a step.
    pub weight_decay: f64,
}

impl Default for Lamb {
    /// 0.001, 0.9, 0.999, 1e-6, 0.01.
    fn default() -> Lamb {
        Lamb {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-6,
            weight_decay: 0.01,
        }
    }
}

impl Lamb {
    fn adam(&self) -> Adam {
        Adam {
            lr: self.lr,
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
        }
    }
}

impl Optimiser for Lamb {
    type State<P: Tree> = AdamState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> AdamState<P> {
        self.adam().init(params)
    }

    fn lr(&self) -> f64 {
        self.lr
    }

    #[track_caller]
    fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &AdamState<P>,
    ) -> (P, AdamState<P>) {
        let args = StepArgs {
            lr,
            params,
            grads,
            state,
        };
        let recording = begin_step!(
            args,
            "Lamb",
            "beta1, beta2, eps, weight_decay",
            [self.beta1, self.beta2, self.eps, self.weight_decay]
        );
        recording.end(self.adam().record(&args, |x, change| {
            let change = change + x * self.weight_decay;
            let [of_x, of_change] = [x, &change].map(|x| x.square().sum(..).sqrt());
            let some = of_x.gt(0.0) & of_change.gt(0.0);
            let ratio = some.select(of_x / of_change, 1.0);
            change * ratio
        }))
    }
}
