//! Stochastic gradient descent with momentum.

use super::{leaves_beside, rate, zeros_like};
use crate::call::{CallSite, begin};
use crate::function::{Function, Param};
use crate::tree::{frozen, leaves, with_leaves};
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

/// Function under which reports list a step.
const STEP: Function = Function::new(
    "gradloom::optim::Sgd::step",
    &[
        Param::fixed("momentum"),
        Param::fixed("nesterov"),
        Param::tree("params"),
    ],
);

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

impl Sgd {
    /// Returns the state before the first step.
    ///
    /// # Panics
    ///
    /// If memory cannot be allocated.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P) -> SgdState<P> {
        SgdState {
            velocity: (self.momentum != 0.0).then(|| zeros_like(params)),
        }
    }

    /// Returns the updated parameters and state.
    ///
    /// # Panics
    ///
    /// If a parameter is not a float, or the trees differ in the number, shapes or dtypes of their
    /// leaves.
    #[track_caller]
    pub fn step<P: Tree>(&self, params: &P, grads: &P, state: &SgdState<P>) -> (P, SgdState<P>) {
        self.step_with(&rate(self.lr, params), params, grads, state)
    }

    /// [`Sgd::step`] with the learning rate as a tensor of rank 0.
    ///
    /// # Panics
    ///
    /// As for [`Sgd::step`].
    #[track_caller]
    pub fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &SgdState<P>,
    ) -> (P, SgdState<P>) {
        thread_local! {
            static SITE: CallSite = const { CallSite::new(STEP) };
        }
        let found = begin(&SITE, |key| {
            key.param(0);
            key.word(self.momentum.to_bits());
            key.param(1);
            key.word(self.nesterov.into());
            key.param(2);
            key.leaf(lr);
            key.tree(params);
            key.tree(grads);
            key.tree(state);
        });
        match found {
            Ok(mut results) => {
                let xs = results.like(params);
                let moves = state.velocity.is_some() || self.momentum != 0.0;
                let velocity = moves.then(|| results.like(params));
                (xs, SgdState { velocity })
            }
            Err(recording) => recording.end(self.record(lr, params, grads, state)),
        }
    }

    #[track_caller]
    fn record<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &SgdState<P>,
    ) -> (P, SgdState<P>) {
        let gs = leaves_beside(params, grads, "gradient");
        let (moves, velocity) = match &state.velocity {
            None if self.momentum == 0.0 => (gs, None),
            velocity => {
                let vs: Vec<Tensor> = match velocity {
                    Some(velocity) => leaves_beside(params, velocity, "velocity")
                        .iter()
                        .zip(&gs)
                        .zip(frozen(params))
                        .map(|((v, g), frozen)| match frozen {
                            true => v.clone(),
                            false => v * self.momentum + g,
                        })
                        .collect(),
                    // A missing velocity counts as zero.
                    None => gs.clone(),
                };
                let velocity = with_leaves(params, &vs);
                let moves = match self.nesterov {
                    false => vs,
                    true => vs
                        .iter()
                        .zip(&gs)
                        .zip(frozen(params))
                        .map(|((v, g), frozen)| match frozen {
                            true => g.clone(),
                            false => g + v * self.momentum,
                        })
                        .collect(),
                };
                (moves, Some(velocity))
            }
        };
        let xs = leaves(params).into_iter().zip(&moves).zip(frozen(params));
        let xs = xs.map(|((x, m), frozen)| match frozen {
            true => x,
            false => &x - lr.cast(x.dtype()) * m,
        });
        let xs: Vec<Tensor> = xs.collect();
        (with_leaves(params, &xs), SgdState { velocity })
    }
}
