//! Stochastic gradient descent with momentum.

use super::Optimiser;
use super::update::{StepArgs, begin_step, zeros_in_state};
use crate::{Tensor, Tree};

/// Stochastic gradient descent.
///
/// With `g` the gradient and `v` the velocity, zero at first:
///
/// ```text
/// v' = momentum * v + g
/// x' = x - lr * v'                      or, with `nesterov`,
/// x' = x - lr * (g + momentum * v')
/// ```
///
/// Momentum: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
/// Nesterov momentum: Nesterov, 1983, in the form of Sutskever, Martens, Dahl, Hinton, "On the
/// importance of initialization and momentum in deep learning", 2013. `optax.sgd` computes the
/// same.
///
/// ```
/// use gradloom::optim::Sgd;
/// use gradloom::prelude::*;
///
/// let sgd = Sgd { lr: 0.1, momentum: 0.9, ..Sgd::default() };
/// let x = Tensor::from([1.0f32, -2.0]);
/// let (x, state) = sgd.step(&x, &Tensor::from([1.0f32, 1.0]), &sgd.init(&x));
/// assert_eq!(x.to_vec::<f32>(), [0.9, -2.1]);
/// assert_eq!(state.velocity.unwrap().to_vec::<f32>(), [1.0, 1.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
    /// Factor of the velocity in each step. If it is zero, no velocity is stored.
    pub momentum: f64,
    /// Enables Nesterov momentum: the second form above.
    pub nesterov: bool,
}

impl Default for Sgd {
    /// Learning rate 0.01, no momentum.
    fn default() -> Sgd {
        Sgd {
            lr: 0.01,
            momentum: 0.0,
            nesterov: false,
        }
    }
}

/// State of [`Sgd`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct SgdState<P> {
    /// Velocity of each parameter. `None` if the momentum is zero.
    pub velocity: Option<P>,
}

impl Optimiser for Sgd {
    type State<P: Tree> = SgdState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> SgdState<P> {
        SgdState {
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
        state: &SgdState<P>,
    ) -> (P, SgdState<P>) {
        // A missing velocity counts as zero.
        let first = (state.velocity.is_none() && self.momentum != 0.0).then(|| self.init(params));
        let args = StepArgs {
            lr,
            params,
            grads,
            state: first.as_ref().unwrap_or(state),
        };
        let recording = begin_step!(
            args,
            "Sgd",
            "momentum, nesterov",
            [self.momentum, f64::from(u8::from(self.nesterov))]
        );
        recording.end(self.record(&args))
    }
}

impl Sgd {
    #[track_caller]
    fn record<P: Tree>(&self, args: &StepArgs<'_, P, SgdState<P>>) -> (P, SgdState<P>) {
        let moved = |x: &Tensor, by: &Tensor| x - args.lr.cast(x.dtype()) * by;
        let Some(velocity) = &args.state.velocity else {
            let (params, []) = args.update([], |x, g, []| (moved(x, g), []));
            return (params, SgdState { velocity: None });
        };
        let (params, [velocity]) = args.update([("velocity", velocity)], |x, g, [v]| {
            let v = v * self.momentum + g;
            let x = match self.nesterov {
                false => moved(x, &v),
                true => moved(x, &(g + &v * self.momentum)),
            };
            (x, [v])
        });
        let velocity = Some(velocity);
        (params, SgdState { velocity })
    }
}
