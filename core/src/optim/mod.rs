//! Optimisers: functions from parameters and their gradients to updated parameters.
//!
//! An optimiser is a few numbers, and implements [`Optimiser`]. Its state is a [`Tree`] beside the
//! parameters, and a step is a function of tensors. A whole training step (value, gradient, update)
//! is therefore one graph:
//!
//! ```
//! use gradloom::optim::Adam;
//! use gradloom::prelude::*;
//!
//! let adam = Adam { lr: 0.1, ..Adam::default() };
//! let mut x = Tensor::from([3.0f32, -2.0]);
//! let mut state = adam.init(&x);
//! for _ in 0..200 {
//!     let ct = grad(|x: &Tensor| x.square().sum(..))(&x);
//!     (x, state) = adam.step(&x, &ct, &state);
//! }
//! assert!(x.to_vec::<f32>().iter().all(|x| x.abs() < 0.01));
//! ```
//!
//! Everything that changes from step to step is data: the step count is a tensor in the state, and
//! the learning rate may be a tensor. A learning rate schedule therefore does not cause replanning:
//! see [`Optimiser::step_with`].
//!
//! Schedules, clipping, groups of parameters, micro-batches and loss scales are optimisers around an
//! optimiser, which the methods of [`Optimiser`] make:
//!
//! ```
//! use gradloom::optim::{AdamW, Schedule};
//! use gradloom::prelude::*;
//!
//! let adam = AdamW::default()
//!     .group(["*bias"], AdamW { weight_decay: 0.0, ..AdamW::default() })
//!     .scheduled(Schedule::linear(0.0, 1e-3, 10).then(10, Schedule::cosine(1e-3, 0.0, 90)))
//!     .clipped_by_norm(1.0);
//!
//! #[derive(Tree)]
//! struct Line { slope: Tensor, bias: Tensor }
//!
//! let line = Line { slope: Tensor::from(2.0f32), bias: Tensor::from(1.0f32) };
//! let ct = grad(|line: &Line| (&line.slope * 3.0 + &line.bias).square())(&line);
//! let (line, _state) = adam.step(&line, &ct, &adam.init(&line));
//! assert_eq!(line.bias.item::<f32>(), 1.0); // the first learning rate is 0
//! ```

mod accumulated;
mod adafactor;
mod adagrad;
mod adam;
mod average;
mod clip;
mod group;
mod lamb;
mod lbfgs;
mod lion;
mod lora;
mod loss_scale;
mod marks;
mod rmsprop;
mod schedule;
mod sgd;
#[cfg(test)]
mod tests;
mod update;

pub use accumulated::{Accumulated, AccumulatedState};
pub use adafactor::{Adafactor, AdafactorState};
pub use adagrad::{Adagrad, AdagradState};
pub use adam::{Adam, AdamState, AdamW};
pub use average::{Average, AverageState};
pub use clip::{Clipped, clip_by_norm, clip_by_value};
pub use group::{Frozen, Grouped, GroupedState, Subtree};
pub use lamb::Lamb;
pub use lbfgs::{Lbfgs, LbfgsState};
pub use lion::{Lion, LionState};
pub use lora::{Adapter, Lora};
pub use loss_scale::{LossScaled, LossScaledState};
pub use rmsprop::{RmsProp, RmsPropState};
pub use schedule::{Schedule, Scheduled, ScheduledState, StepNumber};
pub use sgd::{Sgd, SgdState};

use crate::{DType, Tensor, Tree};
use clip::Limit;
use std::cell::RefCell;

/// A function from parameters, their gradients and a state to the next parameters and state.
///
/// Frozen leaves, which are in fields marked `#[nodiff]`, keep their value. Panics of all methods:
/// if a parameter that is not frozen is not a float, if the trees differ in the number, shapes or
/// dtypes of their leaves, or if memory cannot be allocated.
///
/// Your own optimisers implement `init`, `lr` and `step_with`:
///
/// ```
/// use gradloom::optim::Optimiser;
/// use gradloom::{prelude::*, tree};
///
/// /// Moves each parameter by the sign of its gradient.
/// struct SignDescent { lr: f64 }
///
/// impl Optimiser for SignDescent {
///     type State<P: Tree> = ();
///     fn init<P: Tree>(&self, _: &P) {}
///     fn lr(&self) -> f64 {
///         self.lr
///     }
///     fn step_with<P: Tree>(&self, lr: &Tensor, params: &P, grads: &P, _: &()) -> (P, ()) {
///         (tree::map2(params, grads, |x, g| x - lr.cast(x.dtype()) * g.sign()), ())
///     }
/// }
///
/// let descent = SignDescent { lr: 0.5 }.clipped_by_norm(1.0);
/// let x = Tensor::from([3.0f32, -2.0]);
/// let (x, _) = descent.step(&x, &Tensor::from([6.0f32, -4.0]), &());
/// assert_eq!(x.to_vec::<f32>(), [2.5, -1.5]);
/// ```
pub trait Optimiser {
    /// State between steps, beside parameters of type `P`.
    type State<P: Tree>: Tree;

    /// Returns the state before the first step.
    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> Self::State<P>;

    /// Learning rate of [`Optimiser::step`].
    fn lr(&self) -> f64;

    /// [`Optimiser::step`] with the learning rate as a tensor of rank 0.
    ///
    /// A different rate at each step uses the same plan:
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
    #[track_caller]
    fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &Self::State<P>,
    ) -> (P, Self::State<P>);

    /// Returns the updated parameters and state.
    #[track_caller]
    fn step<P: Tree>(&self, params: &P, grads: &P, state: &Self::State<P>) -> (P, Self::State<P>) {
        self.step_with(&rate(self.lr(), params), params, grads, state)
    }

    /// Takes the learning rate of each step from a schedule.
    fn scheduled(self, schedule: Schedule) -> Scheduled<Self>
    where
        Self: Sized,
    {
        Scheduled {
            optimiser: self,
            schedule,
        }
    }

    /// Scales gradients down such that their norm is at most `max_norm`, as [`clip_by_norm`] does.
    fn clipped_by_norm(self, max_norm: f64) -> Clipped<Self>
    where
        Self: Sized,
    {
        Clipped {
            optimiser: self,
            limit: Limit::Norm(max_norm),
        }
    }

    /// Limits each element of the gradients to `-limit..=limit`, as [`clip_by_value`] does.
    fn clipped_by_value(self, limit: f64) -> Clipped<Self>
    where
        Self: Sized,
    {
        Clipped {
            optimiser: self,
            limit: Limit::Value(limit),
        }
    }

    /// Passes the parameters whose paths match a pattern to another optimiser: see [`Grouped`].
    fn group<G: Optimiser, S: Into<String>>(
        self,
        patterns: impl IntoIterator<Item = S>,
        group: G,
    ) -> Grouped<Self, G>
    where
        Self: Sized,
    {
        Grouped {
            rest: self,
            patterns: patterns.into_iter().map(Into::into).collect(),
            group,
        }
    }

    /// Takes one step for `n` micro-batches, by the mean of their gradients: see [`Accumulated`].
    fn accumulated(self, n: usize) -> Accumulated<Self>
    where
        Self: Sized,
    {
        Accumulated { optimiser: self, n }
    }

    /// Divides gradients by the scale of the loss, and skips steps that are not finite.
    ///
    /// See [`LossScaled`].
    fn loss_scaled(self) -> LossScaled<Self>
    where
        Self: Sized,
    {
        LossScaled {
            optimiser: self,
            initial: 65536.0,
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
        }
    }
}

/// Returns a learning rate as a tensor, and the same tensor while the rate does not change.
///
/// The rate is an `f32` if all parameters are. Otherwise it is an `f64`, and each update casts it.
fn rate<P: Tree>(lr: f64, params: &P) -> Tensor {
    thread_local! {
        static LAST: RefCell<Option<(u64, Tensor)>> = const { RefCell::new(None) };
    }
    let mut single = true;
    params.visit(&mut |x| single &= x.dtype() == DType::F32);
    let make = || match single {
        true => Tensor::scalar(lr as f32),
        false => Tensor::scalar(lr),
    };
    let found = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        match &*last {
            Some((bits, rate))
                if *bits == lr.to_bits() && (rate.dtype() == DType::F32) == single =>
            {
                rate.clone()
            }
            _ => {
                let rate = make();
                *last = Some((lr.to_bits(), rate.clone()));
                rate
            }
        }
    });
    found.unwrap_or_else(|_| make())
}
