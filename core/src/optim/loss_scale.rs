//! Dynamic loss scales.

use super::Optimiser;
use super::update::choose;
use crate::tree::free_leaves;
use crate::{Tensor, Tree, tree};

/// An optimiser of the gradients of a loss that was multiplied by a scale.
///
/// [`Optimiser::loss_scaled`] makes it. Multiply the loss by `state.scale`, so that small gradients do not
/// underflow. A step divides them by the scale. If an element of the quotient is not finite, the step keeps the
/// parameters and the state of the optimiser, and multiplies the scale by `backoff`; after `interval` finite
/// steps in succession, it multiplies the scale by `growth`.
///
/// Micikevicius et al., "Mixed precision training", 2018 (arXiv:1710.03740), with the rule and the numbers of
/// `torch.amp.GradScaler`. The scale stays at least 1e-30 and at most 1e30.
///
/// ```
/// use gradloom::optim::Sgd;
/// use gradloom::prelude::*;
///
/// let sgd = Sgd { lr: 0.5, ..Sgd::default() }.loss_scaled();
/// let x = Tensor::from([3.0f32]);
/// let state = sgd.init(&x);
/// let ct = grad(|x: &Tensor| x.square().sum(..) * &state.scale)(&x);
/// let (x, state) = sgd.step(&x, &ct, &state);
/// assert_eq!((x.item::<f32>(), state.scale.item::<f32>()), (0.0, 65536.0));
/// let (x, state) = sgd.step(&x, &Tensor::from([f32::INFINITY]), &state);
/// assert_eq!((x.item::<f32>(), state.scale.item::<f32>()), (0.0, 32768.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaled<O> {
    /// Optimiser that takes the steps.
    pub optimiser: O,
    /// First scale: 65536 by default.
    pub initial: f64,
    /// Factor of the scale after `interval` finite steps: 2 by default.
    pub growth: f64,
    /// Factor of the scale after a step that is not finite: 0.5 by default.
    pub backoff: f64,
    /// Number of finite steps before the scale grows: 2000 by default.
    pub interval: usize,
}

/// State of [`LossScaled`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct LossScaledState<S> {
    /// Scale of the next loss, an `f32` of rank 0.
    pub scale: Tensor,
    /// Number of finite steps since the scale changed, an `i64` of rank 0.
    pub finite: Tensor,
    /// State of the optimiser.
    pub inner: S,
}

impl<O: Optimiser> Optimiser for LossScaled<O> {
    type State<P: Tree> = LossScaledState<O::State<P>>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> Self::State<P> {
        LossScaledState {
            scale: Tensor::scalar(self.initial as f32),
            finite: Tensor::scalar(0i64),
            inner: self.optimiser.init(params),
        }
    }

    fn lr(&self) -> f64 {
        self.optimiser.lr()
    }

    #[track_caller]
    fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &Self::State<P>,
    ) -> (P, Self::State<P>) {
        self.stepped(params, grads, state, |grads| {
            self.optimiser.step_with(lr, params, grads, &state.inner)
        })
    }

    #[track_caller]
    fn step<P: Tree>(&self, params: &P, grads: &P, state: &Self::State<P>) -> (P, Self::State<P>) {
        self.stepped(params, grads, state, |grads| {
            self.optimiser.step(params, grads, &state.inner)
        })
    }
}

impl<O: Optimiser> LossScaled<O> {
    /// Applies the step to the unscaled gradients, and takes its results if they are finite.
    #[track_caller]
    fn stepped<P: Tree>(
        &self,
        params: &P,
        grads: &P,
        state: &LossScaledState<O::State<P>>,
        step: impl FnOnce(&P) -> (P, O::State<P>),
    ) -> (P, LossScaledState<O::State<P>>) {
        let grads = tree::scale(grads, &(1.0 / &state.scale));
        let finite = free_leaves(&grads)
            .iter()
            .fold(Tensor::scalar(true), |all, g| all & g.is_finite().all(..));
        let (next, inner) = step(&grads);
        let n = &state.finite + 1;
        let grows = n.ge(self.interval as i64);
        let grown = grows.select(&state.scale * self.growth, &state.scale);
        let scale = finite.select(grown, &state.scale * self.backoff);
        let state = LossScaledState {
            scale: scale.clamp(1e-30, 1e30),
            finite: (&finite & !grows).select(n, 0),
            inner: choose(&finite, &inner, &state.inner),
        };
        (choose(&finite, &next, params), state)
    }
}
