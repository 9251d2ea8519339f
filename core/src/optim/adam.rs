//! Adam and AdamW.

use super::{leaves_beside, rate, zeros_like};
use crate::call::{CallSite, begin};
use crate::function::{Function, Param};
use crate::tree::{frozen, leaves, with_leaves};
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

/// Function under which reports list a step of [`Adam`] or [`AdamW`].
const STEP: Function = Function::new(
    "gradloom::optim::Adam::step",
    &[
        Param::fixed("beta1, beta2, eps, weight_decay"),
        Param::tree("params"),
    ],
);

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

impl Adam {
    /// Returns the state before the first step.
    ///
    /// # Panics
    ///
    /// If memory cannot be allocated.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P) -> AdamState<P> {
        AdamState {
            step: Tensor::scalar(0i64),
            mean: zeros_like(params),
            square: zeros_like(params),
        }
    }

    /// Returns the updated parameters and state.
    ///
    /// # Panics
    ///
    /// If a parameter is not a float, or the trees differ in the number, shapes or dtypes of their
    /// leaves.
    #[track_caller]
    pub fn step<P: Tree>(&self, params: &P, grads: &P, state: &AdamState<P>) -> (P, AdamState<P>) {
        self.step_with(&rate(self.lr, params), params, grads, state)
    }

    /// [`Adam::step`] with the learning rate as a tensor of rank 0.
    ///
    /// A schedule may pass a different rate at each step, and all steps use one plan:
    ///
    /// ```
    /// use gradloom::optim::Adam;
    /// use gradloom::prelude::*;
    ///
    /// let adam = Adam::default();
    /// let mut x = Tensor::from([3.0f32, -2.0]);
    /// let mut state = adam.init(&x);
    /// for turn in 0..100 {
    ///     let lr = Tensor::from(0.1 / f64::from(1 + turn).sqrt());
    ///     let ct = grad(|x: &Tensor| x.square().sum(..))(&x);
    ///     (x, state) = adam.step_with(&lr, &x, &ct, &state);
    /// }
    /// assert!(x.square().sum(..).item::<f32>() < 3.0);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Adam::step`].
    #[track_caller]
    pub fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &AdamState<P>,
    ) -> (P, AdamState<P>) {
        self.decayed(lr, 0.0, params, grads, state)
    }

    #[track_caller]
    fn decayed<P: Tree>(
        &self,
        lr: &Tensor,
        decay: f64,
        params: &P,
        grads: &P,
        state: &AdamState<P>,
    ) -> (P, AdamState<P>) {
        thread_local! {
            static SITE: CallSite = const { CallSite::new(STEP) };
        }
        let found = begin(&SITE, |key| {
            key.param(0);
            for number in [self.beta1, self.beta2, self.eps, decay] {
                key.word(number.to_bits());
            }
            key.param(1);
            key.leaf(lr);
            key.tree(params);
            key.tree(grads);
            key.tree(state);
        });
        match found {
            Ok(mut results) => (results.like(params), results.like(state)),
            Err(recording) => recording.end(self.record(lr, decay, params, grads, state)),
        }
    }

    #[track_caller]
    fn record<P: Tree>(
        &self,
        lr: &Tensor,
        decay: f64,
        params: &P,
        grads: &P,
        state: &AdamState<P>,
    ) -> (P, AdamState<P>) {
        let gs = leaves_beside(params, grads, "gradient");
        let ms = leaves_beside(params, &state.mean, "mean of gradients");
        let vs = leaves_beside(params, &state.square, "mean of squares");
        let step = &state.step + 1;
        // `1 - beta^t` is computed as `-expm1(t * log(beta))` in `f64`, because the subtraction
        // would lose digits.
        let count = step.cast(DType::F64);
        let correction = |beta: f64| -(&count * beta.ln()).expm1();
        let (c1, c2) = (correction(self.beta1), correction(self.beta2));

        let mut frozen = frozen(params).into_iter();
        let (mut new_xs, mut new_ms, mut new_vs) = (Vec::new(), Vec::new(), Vec::new());
        for (((x, g), m), v) in leaves(params).iter().zip(&gs).zip(&ms).zip(&vs) {
            if frozen.next() == Some(true) {
                new_xs.push(x.clone());
                new_ms.push(m.clone());
                new_vs.push(v.clone());
                continue;
            }
            let dtype = x.dtype();
            let m = m * self.beta1 + g * (1.0 - self.beta1);
            let v = v * self.beta2 + g.square() * (1.0 - self.beta2);
            let mut change = (&m / c1.cast(dtype)) / ((&v / c2.cast(dtype)).sqrt() + self.eps);
            if decay != 0.0 {
                change += x * decay;
            }
            new_xs.push(x - lr.cast(dtype) * change);
            new_ms.push(m);
            new_vs.push(v);
        }
        let state = AdamState {
            step,
            mean: with_leaves(&state.mean, &new_ms),
            square: with_leaves(&state.square, &new_vs),
        };
        (with_leaves(params, &new_xs), state)
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

    /// Returns the state before the first step.
    ///
    /// # Panics
    ///
    /// If memory cannot be allocated.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P) -> AdamState<P> {
        self.adam().init(params)
    }

    /// Returns the updated parameters and state.
    ///
    /// # Panics
    ///
    /// If a parameter is not a float, or the trees differ in the number, shapes or dtypes of their
    /// leaves.
    #[track_caller]
    pub fn step<P: Tree>(&self, params: &P, grads: &P, state: &AdamState<P>) -> (P, AdamState<P>) {
        self.step_with(&rate(self.lr, params), params, grads, state)
    }

    /// [`AdamW::step`] with the learning rate as a tensor of rank 0.
    ///
    /// # Panics
    ///
    /// As for [`AdamW::step`].
    #[track_caller]
    pub fn step_with<P: Tree>(
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
