//! Adam and AdamW.

use super::{leaves_beside, rate, zeros_like};
use crate::call::{Function, Param, Site, begin};
use crate::tree::{leaves, with_leaves};
use crate::{Tensor, Tree};
use gradloom_ir::DType;

/// Adam: a step for each parameter that does not depend on the scale of its gradient.
///
/// With `g` the gradient and `t` the count of steps, from 1:
///
/// ```text
/// m' = beta1 * m + (1 - beta1) * g           the mean of the gradient
/// v' = beta2 * v + (1 - beta2) * g^2         the mean of its square
/// x' = x - lr * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + eps)
/// ```
///
/// Kingma and Ba, "Adam: a method for stochastic optimization", 2015 (arXiv:1412.6980), algorithm 1. `optax.adam`
/// computes the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The learning rate.
    pub lr: f64,
    /// How much of the mean gradient the next step keeps.
    pub beta1: f64,
    /// How much of the mean square the next step keeps.
    pub beta2: f64,
    /// Keeps the step finite where the gradient vanishes.
    pub eps: f64,
}

/// A step, as reports know it. It is that of [`AdamW`], too.
const STEP: Function = Function::new(
    "gradloom::optim::Adam::step",
    &[
        Param::fixed("beta1, beta2, eps, weight_decay"),
        Param::tensors("params"),
    ],
);

impl Default for Adam {
    /// The numbers of the paper: 0.001, 0.9, 0.999, 1e-8.
    fn default() -> Adam {
        Adam {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
        }
    }
}

/// Adam with a decay of the parameters that is not scaled by the gradient's history.
///
/// Adam's step with `lr * weight_decay * x` subtracted as well. Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019 (arXiv:1711.05101), algorithm 2, with the learning rate as its schedule multiplier.
/// `optax.adamw` computes the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// The learning rate.
    pub lr: f64,
    /// How much of the mean gradient the next step keeps.
    pub beta1: f64,
    /// How much of the mean square the next step keeps.
    pub beta2: f64,
    /// Keeps the step finite where the gradient vanishes.
    pub eps: f64,
    /// The share of a parameter that a step of learning rate 1 takes away.
    pub weight_decay: f64,
}

impl Default for AdamW {
    /// The numbers of [`Adam`] and a decay of 0.01.
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

/// What [`Adam`] and [`AdamW`] remember between steps.
#[derive(Clone, Debug, Tree)]
pub struct AdamState<P> {
    /// The count of steps, an `i64` of rank 0. It is data, so it is no part of a plan's key.
    pub step: Tensor,
    /// The mean gradient of each parameter.
    pub mean: P,
    /// The mean square of each parameter's gradient.
    pub square: P,
}

impl Adam {
    /// The state before the first step.
    ///
    /// # Panics
    ///
    /// There is no room for it.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P) -> AdamState<P> {
        AdamState {
            step: Tensor::scalar(0i64),
            mean: zeros_like(params),
            square: zeros_like(params),
        }
    }

    /// New parameters and the new state.
    ///
    /// # Panics
    ///
    /// The trees have different numbers of leaves, or leaves of shapes that do not fit.
    #[track_caller]
    pub fn step<P: Tree>(&self, params: &P, grads: &P, state: &AdamState<P>) -> (P, AdamState<P>) {
        self.step_with(&rate(self.lr, params), params, grads, state)
    }

    /// [`Adam::step`] with a learning rate of its own: a tensor of rank 0. A schedule passes another one at each step, and no step plans
    /// again:
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
    /// As [`Adam::step`].
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
            static SITE: Site = const { Site::new(STEP) };
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
        // 1 - beta^t = -expm1(t * log(beta)), in `f64`: the difference itself would lose digits.
        let count = step.cast(DType::F64);
        let correction = |beta: f64| -(&count * beta.ln()).expm1();
        let (c1, c2) = (correction(self.beta1), correction(self.beta2));

        let (mut new_xs, mut new_ms, mut new_vs) = (Vec::new(), Vec::new(), Vec::new());
        for (((x, g), m), v) in leaves(params).iter().zip(&gs).zip(&ms).zip(&vs) {
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

    /// The state before the first step.
    ///
    /// # Panics
    ///
    /// There is no room for it.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P) -> AdamState<P> {
        self.adam().init(params)
    }

    /// New parameters and the new state.
    ///
    /// # Panics
    ///
    /// The trees have different numbers of leaves, or leaves of shapes that do not fit.
    #[track_caller]
    pub fn step<P: Tree>(&self, params: &P, grads: &P, state: &AdamState<P>) -> (P, AdamState<P>) {
        self.step_with(&rate(self.lr, params), params, grads, state)
    }

    /// [`AdamW::step`] with a learning rate of its own: a tensor of rank 0.
    ///
    /// # Panics
    ///
    /// As [`AdamW::step`].
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
