//! Adam and AdamW.

use super::Optimiser;
use super::update::{StepArgs, begin_step, zeros_in_state};
use crate::{Tensor, Tree};
use gradloom_ir::DType;

/// Adam: the size of a step does not depend on the scale of the gradient.
///
/// With `g` the gradient and `t` the step count, starting at 1:
///
/// ```text
/// m' = beta1 * m + (1 - beta1) * g           the mean of the gradient
/// v' = beta2 * v + (1 - beta2) * g^2         the mean of its square
/// x' = x - lr * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + eps)
/// ```
///
/// Kingma and Ba, "Adam: a method for stochastic optimization", 2015 (arXiv:1412.6980),
/// algorithm 1. `optax.adam` computes the same.
///
/// ```
/// use gradloom::optim::Adam;
/// use gradloom::prelude::*;
///
/// let adam = Adam { lr: 0.1, ..Adam::default() };
/// let x = Tensor::from([1.0f64, -2.0]);
/// let (x, _state) = adam.step(&x, &Tensor::from([3.0, -0.01]), &adam.init(&x));
/// assert!((x - Tensor::from([0.9, -1.9])).abs().max(..).item::<f64>() < 1e-6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Learning rate.
    pub lr: f64,
    /// Decay factor of the mean gradient in each step.
    pub beta1: f64,
    /// Decay factor of the mean squared gradient in each step.
    pub beta2: f64,
    /// Added to the denominator, so that the step stays finite where the gradient vanishes.
    pub eps: f64,
}

impl Default for Adam {
    /// The values of the paper: 0.001, 0.9, 0.999, 1e-8.
    fn default() -> Adam {
        Adam {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
        }
    }
}

/// Adam with decoupled weight decay.
///
/// A step is Adam's step, minus `lr * weight_decay * x`. Loshchilov and Hutter, "Decoupled weight
/// decay regularization", 2019 (arXiv:1711.05101), algorithm 2, with the learning rate as its
/// schedule multiplier. `optax.adamw` computes the same.
///
/// ```
/// use gradloom::optim::AdamW;
/// use gradloom::prelude::*;
///
/// let adam = AdamW { lr: 0.1, weight_decay: 0.5, ..AdamW::default() };
/// let x = Tensor::from([4.0f32]);
/// let (x, _state) = adam.step(&x, &Tensor::from([0.0f32]), &adam.init(&x));
/// assert_eq!(x.to_vec::<f32>(), [3.8]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f64,
    /// Decay factor of the mean gradient in each step.
    pub beta1: f64,
    /// Decay factor of the mean squared gradient in each step.
    pub beta2: f64,
    /// Added to the denominator, so that the step stays finite where the gradient vanishes.
    pub eps: f64,
    /// Fraction of a parameter that a step with learning rate 1 subtracts.
    pub weight_decay: f64,
}

impl Default for AdamW {
    /// The values of [`Adam`], and a decay of 0.01.
    fn default() -> AdamW {
        let Adam {
            lr,
            beta1,
            beta2,
            eps,
        } = Adam::default();
        AdamW {
            lr,
            beta1,
            beta2,
            eps,
            weight_decay: 0.01,
        }
    }
}

/// State of [`Adam`] and [`AdamW`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct AdamState<P> {
    /// Step count, an `i64` of rank 0. It is data, so it does not affect the key of a plan.
    pub step: Tensor,
    /// Mean gradient of each parameter.
    pub mean: P,
    /// Mean squared gradient of each parameter.
    pub square: P,
}

impl Optimiser for Adam {
    type State<P: Tree> = AdamState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> AdamState<P> {
        AdamState {
            step: Tensor::scalar(0i64),
            mean: zeros_in_state(params),
            square: zeros_in_state(params),
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
        state: &AdamState<P>,
    ) -> (P, AdamState<P>) {
        self.decayed(lr, 0.0, params, grads, state)
    }
}

impl Adam {
    #[track_caller]
    fn decayed<P: Tree>(
        &self,
        lr: &Tensor,
        decay: f64,
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
            "Adam",
            "beta1, beta2, eps, weight_decay",
            [self.beta1, self.beta2, self.eps, decay]
        );
        recording.end(self.record(&args, |x, change| match decay {
            0.0 => change,
            _ => change + x * decay,
        }))
    }

    /// Records a step by `lr` times `scaled` of the parameter and of Adam's step for rate 1.
    #[track_caller]
    pub(super) fn record<P: Tree>(
        &self,
        args: &StepArgs<'_, P, AdamState<P>>,
        scaled: impl Fn(&Tensor, Tensor) -> Tensor,
    ) -> (P, AdamState<P>) {
        let step = &args.state.step + 1;
        // `1 - beta^t` is computed as `-expm1(t * log(beta))` in `f64`, because the subtraction
        // would lose digits.
        let count = step.cast(DType::F64);
        let correction = |beta: f64| -(&count * beta.ln()).expm1();
        let (c1, c2) = (correction(self.beta1), correction(self.beta2));
        let slots = [
            ("mean of gradients", &args.state.mean),
            ("mean of squares", &args.state.square),
        ];
        let (params, [mean, square]) = args.update(slots, |x, g, [m, v]| {
            let dtype = x.dtype();
            let m = m * self.beta1 + g * (1.0 - self.beta1);
            let v = v * self.beta2 + g.square() * (1.0 - self.beta2);
            let change = (&m / c1.cast(dtype)) / ((&v / c2.cast(dtype)).sqrt() + self.eps);
            (x - args.lr.cast(dtype) * scaled(x, change), [m, v])
        });
        (params, AdamState { step, mean, square })
    }
}

impl AdamW {
    fn adam(&self) -> Adam {
        Adam {
            lr: self.lr,
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
        }
    }
}

impl Optimiser for AdamW {
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
        self.adam()
            .decayed(lr, self.weight_decay, params, grads, state)
    }
}
