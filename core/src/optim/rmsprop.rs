//! RMSprop.

use super::Optimiser;
use super::update::{StepArgs, begin_step, zeros_in_state};
use crate::tree::share;
use crate::{Tensor, Tree};

/// RMSprop: gradients divided by the root of their mean square.
///
/// With `g` the gradient, and `v` and `b` zero at first:
///
/// ```text
/// v' = decay * v + (1 - decay) * g^2
/// b' = momentum * b + g / (sqrt(v') + eps)
/// x' = x - lr * b'
/// ```
///
/// Tieleman and Hinton, "Neural networks for machine learning", lecture 6.5, 2012.
/// `torch.optim.RMSprop` computes the same.
///
/// ```
/// use gradloom::optim::RmsProp;
/// use gradloom::prelude::*;
///
/// let rmsprop = RmsProp { lr: 0.1, decay: 0.75, eps: 0.0, ..RmsProp::default() };
/// let x = Tensor::from([1.0f32, -2.0]);
/// let (x, state) = rmsprop.step(&x, &Tensor::from([2.0f32, -8.0]), &rmsprop.init(&x));
/// assert_eq!(x.to_vec::<f32>(), [0.8, -1.8]);
/// assert_eq!(state.square.to_vec::<f32>(), [1.0, 16.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// Learning rate.
    pub lr: f64,
    /// Decay factor of the mean squared gradient in each step.
    pub decay: f64,
    /// Added to the denominator, so that the step stays finite where the gradient vanishes.
    pub eps: f64,
    /// Factor of the velocity in each step. If it is zero, no velocity is stored.
    pub momentum: f64,
}

impl Default for RmsProp {
    /// 0.01, 0.99, 1e-8, and no momentum.
    fn default() -> RmsProp {
        RmsProp {
            lr: 0.01,
            decay: 0.99,
            eps: 1e-8,
            momentum: 0.0,
        }
    }
}

/// State of [`RmsProp`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct RmsPropState<P> {
    /// Mean squared gradient of each parameter.
    pub square: P,
    /// Velocity of each parameter, which is `b` above. `None` if the momentum is zero.
    pub velocity: Option<P>,
}

impl Optimiser for RmsProp {
    type State<P: Tree> = RmsPropState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> RmsPropState<P> {
        RmsPropState {
            square: zeros_in_state(params),
            velocity: (self.momentum != 0.0).then(|| zeros_in_state(params)),
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
        state: &RmsPropState<P>,
    ) -> (P, RmsPropState<P>) {
        // A missing velocity counts as zero.
        let first = (state.velocity.is_none() && self.momentum != 0.0).then(|| RmsPropState {
            square: share(&state.square),
            velocity: Some(zeros_in_state(params)),
        });
        let args = StepArgs {
            lr,
            params,
            grads,
            state: first.as_ref().unwrap_or(state),
        };
        let recording = begin_step!(
            args,
            "RmsProp",
            "decay, eps, momentum",
            [self.decay, self.eps, self.momentum]
        );
        recording.end(self.record(&args))
    }
}

impl RmsProp {
    #[track_caller]
    fn record<P: Tree>(&self, args: &StepArgs<'_, P, RmsPropState<P>>) -> (P, RmsPropState<P>) {
        let square = ("mean of squares", &args.state.square);
        let scaled = |g: &Tensor, v: &Tensor| {
            let v = v * self.decay + g.square() * (1.0 - self.decay);
            (g / (v.sqrt() + self.eps), v)
        };
        let moved = |x: &Tensor, by: &Tensor| x - args.lr.cast(x.dtype()) * by;
        let Some(velocity) = &args.state.velocity else {
            let (params, [square]) = args.update([square], |x, g, [v]| {
                let (change, v) = scaled(g, v);
                (moved(x, &change), [v])
            });
            let velocity = None;
            return (params, RmsPropState { square, velocity });
        };
        let slots = [square, ("velocity", velocity)];
        let (params, [square, velocity]) = args.update(slots, |x, g, [v, b]| {
            let (change, v) = scaled(g, v);
            let b = b * self.momentum + change;
            (moved(x, &b), [v, b])
        });
        let velocity = Some(velocity);
        (params, RmsPropState { square, velocity })
    }
}
