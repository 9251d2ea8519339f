//! Optimisers: functions from parameters and their gradients to updated parameters.
//!
//! An optimiser is a few numbers. Its state is a [`Tree`] beside the parameters, and a step is a
//! function of tensors. A whole training step (value, gradient, update) is therefore one graph:
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
//! see [`Sgd::step_with`], [`Adam::step_with`] and [`AdamW::step_with`].

mod adam;
mod marks;
mod sgd;
#[cfg(test)]
mod tests;

pub use adam::{Adam, AdamState, AdamW};
pub use sgd::{Sgd, SgdState};

use crate::raise::expect;
use crate::tree::{leaves, marks};
use crate::{DType, Tensor, Tree, check, evaluate, tree};
use std::cell::RefCell;

/// Returns gradients scaled down such that their norm is at most `max_norm`.
///
/// The norm is that of all elements of all leaves together. Gradients with a smaller norm are
/// multiplied by 1.
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
marks! { clip_by_norm }

/// Returns the leaves of a tree that has the structure of the parameters.
///
/// # Panics
///
/// If a parameter is not a float, or the tree differs from `params` in the number, shape or dtype
/// of its leaves.
#[track_caller]
fn leaves_beside<P: Tree>(params: &P, other: &P, what: &'static str) -> Vec<Tensor> {
    expect(check::floats(params, "parameters"));
    let leaves_of_params = leaves(params);
    let leaves = leaves(other);
    let expected = check::avals(&leaves_of_params);
    expect(check::beside(what, params, "parameters", &leaves, expected));
    leaves
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

/// Returns realised zeros. Promised zeros would be part of the first step's graph, which would then
/// need its own plan.
#[track_caller]
fn zeros_like<P: Tree>(tree: &P) -> P {
    let zeros = tree.map(&mut |t| crate::call::leaves::zeros(t.aval()));
    expect(evaluate(&zeros));
    zeros
}
