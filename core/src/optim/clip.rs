//! Gradient clipping.

use super::Optimiser;
use crate::tree::{frozen, marks};
use crate::{Tensor, Tree, tree};

/// Returns gradients scaled down such that their norm is at most `max_norm`.
///
/// The norm is that of all elements of all leaves together. Gradients with a smaller norm are
/// multiplied by 1. Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural
/// networks", 2013 (arXiv:1211.5063).
///
/// ```
/// use gradloom::optim;
/// use gradloom::prelude::*;
///
/// let gradients = (Tensor::from([3.0f32]), Tensor::from([4.0f32]));
/// let (a, b) = optim::clip_by_norm(&gradients, 1.0);
/// assert_eq!((a.item::<f32>(), b.item::<f32>()), (0.6, 0.8));
/// ```
///
/// # Panics
///
/// If a leaf is not a float.
#[track_caller]
pub fn clip_by_norm<P: Tree>(gradients: &P, max_norm: f64) -> P {
    let norm = tree::norm(gradients);
    // A norm of 0 makes the quotient infinite, and the factor 1.
    let factor = (norm.ones_like() * max_norm / norm).minimum(1.0);
    tree::scale(gradients, &factor)
}

/// Returns gradients with each element limited to `-limit..=limit`. Frozen leaves are kept.
///
/// ```
/// use gradloom::optim;
/// use gradloom::prelude::*;
///
/// let clipped = optim::clip_by_value(&Tensor::from([3.0f32, -0.5, -7.0]), 1.0);
/// assert_eq!(clipped.to_vec::<f32>(), [1.0, -0.5, -1.0]);
/// ```
///
/// # Panics
///
/// If a leaf is not a float.
#[track_caller]
pub fn clip_by_value<P: Tree>(gradients: &P, limit: f64) -> P {
    let mut frozen = frozen(gradients).into_iter();
    gradients.map(&mut |g| match frozen.next() {
        Some(true) => g.clone(),
        _ => g.clamp(-limit, limit),
    })
}
marks! { clip_by_norm clip_by_value }

/// An optimiser of clipped gradients.
///
/// [`Optimiser::clipped_by_norm`] and [`Optimiser::clipped_by_value`] make it. The state is that of
/// the optimiser.
///
/// ```
/// use gradloom::optim::Sgd;
/// use gradloom::prelude::*;
///
/// let sgd = Sgd { lr: 1.0, ..Sgd::default() };
/// let (x, g) = (Tensor::from([0.0f32, 0.0]), Tensor::from([30.0f32, -0.5]));
/// let (y, _) = sgd.clipped_by_value(1.0).step(&x, &g, &sgd.init(&x));
/// assert_eq!(y.to_vec::<f32>(), [-1.0, 0.5]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Clipped<O> {
    /// Optimiser that takes the clipped gradients.
    pub optimiser: O,
    pub(super) limit: Limit,
}

/// Quantity that is limited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// Norm of all elements of all leaves.
    Norm(f64),
    /// Magnitude of each element.
    Value(f64),
}

impl<O: Optimiser> Optimiser for Clipped<O> {
    type State<P: Tree> = O::State<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> O::State<P> {
        self.optimiser.init(params)
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
        state: &O::State<P>,
    ) -> (P, O::State<P>) {
        let grads = self.limit.clip(grads);
        self.optimiser.step_with(lr, params, &grads, state)
    }

    #[track_caller]
    fn step<P: Tree>(&self, params: &P, grads: &P, state: &O::State<P>) -> (P, O::State<P>) {
        self.optimiser.step(params, &self.limit.clip(grads), state)
    }
}

impl Limit {
    #[track_caller]
    fn clip<P: Tree>(self, grads: &P) -> P {
        match self {
            Limit::Norm(limit) => clip_by_norm(grads, limit),
            Limit::Value(limit) => clip_by_value(grads, limit),
        }
    }
}
