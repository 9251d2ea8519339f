//! Lion.

use super::Optimiser;
use super::update::{StepArgs, begin_step, zeros_in_state};
use crate::{Tensor, Tree};

/// Lion: all elements of a step have the same size, and the state is one tree.
///
/// With `g` the gradient and `m` its mean, zero at first:
///
/// ```text
/// x' = x - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * x)
/// m' = beta2 * m + (1 - beta2) * g
/// ```
///
/// The paper uses a learning rate 3 to 10 times smaller than that of [`AdamW`](super::AdamW), and a
/// weight decay larger by the same factor. Chen et al., "Symbolic discovery of optimization
/// algorithms", 2023 (arXiv:2302.06675), algorithm 2. `optax.lion` computes the same.
///
/// ```
/// use gradloom::optim::Lion;
/// use gradloom::prelude::*;
///
/// let lion = Lion { lr: 0.5, ..Lion::default() };
/// let x = Tensor::from([1.0f32, -2.0, 0.0]);
/// let (x, _state) = lion.step(&x, &Tensor::from([3.0f32, -0.1, 0.0]), &lion.init(&x));
/// assert_eq!(x.to_vec::<f32>(), [0.5, -1.5, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lion {
    /// Learning rate.
    pub lr: f64,
    /// Share of the mean in the direction of a step.
    pub beta1: f64,
    /// Decay factor of the mean in each step.
    pub beta2: f64,
    /// Fraction of a parameter that a step with learning rate 1 subtracts.
    pub weight_decay: f64,
}

impl Default for Lion {
    /// 0.0001, 0.9, 0.99, and no decay.
    fn default() -> Lion {
        Lion {
            lr: 1e-4,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
        }
    }
}

/// State of [`Lion`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct LionState<P> {
    /// Mean gradient of each parameter.
    pub mean: P,
}

impl Optimiser for Lion {
    type State<P: Tree> = LionState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> LionState<P> {
        LionState {
            mean: zeros_in_state(params),
        }
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
        state: &LionState<P>,
    ) -> (P, LionState<P>) {
        let args = StepArgs {
            lr,
            params,
            grads,
            state,
        };
        let recording = begin_step!(
            args,
            "Lion",
            "beta1, beta2, weight_decay",
            [self.beta1, self.beta2, self.weight_decay]
        );
        let slots = [("mean of gradients", &args.state.mean)];
        let (params, [mean]) = args.update(slots, |x, g, [m]| {
            let mut change = (m * self.beta1 + g * (1.0 - self.beta1)).sign();
            if self.weight_decay != 0.0 {
                change += x * self.weight_decay;
            }
            let m = m * self.beta2 + g * (1.0 - self.beta2);
            (x - args.lr.cast(x.dtype()) * change, [m])
        });
        recording.end((params, LionState { mean }))
    }
}
