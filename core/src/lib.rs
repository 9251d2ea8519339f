//! Differentiable tensor programs: derivatives at compile time, lazy evaluation with a plan cache.
//!
//! A [`Tensor`] is a cheap handle on an array that may not be computed yet. Calls on tensors promise their results; what is
//! read is computed, together with everything it depends on, by a plan that is kept for the next time:
//!
//! ```
//! use gradloom::prelude::*;
//! let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! let y = (&x * 2.0 + 1.0).sum(-1); // a promise
//! assert_eq!(y.shape(), [2]);       // its shape is known all the same
//! assert_eq!(y.to_vec::<f32>(), [8.0, 16.0]);
//! ```
//!
//! Several results are computed by one plan if they are evaluated together: [`evaluate`] takes any tree of tensors, such as
//! `&(loss.clone(), model.clone())`. A loop of training evaluates what it carries to the next step; otherwise the graph
//! grows with every step. What does not fit panics at the line of the call.
//!
//! # Traced functions
//!
//! [`#[traced]`](macro@traced) differentiates a function while rustc compiles it. The derivatives stand beside it, under its name:
//!
//! ```
//! use gradloom::prelude::*;
//!
//! #[traced]
//! fn loss(#[shape(B, I)] x: &Tensor, #[shape(I)] w: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
//!     (x.matmul(w) - target).square().mean(..)
//! }
//!
//! let x = Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]);
//! let w = Tensor::from([1.0f32, 2.0]);
//! let target = Tensor::from([0.0f32, 0.0]);
//! let (value, grads) = loss::value_and_grad(&x, &w, &target);
//! assert_eq!(value.item::<f32>(), 2.5);
//! assert_eq!(grads.w.to_vec::<f32>(), [1.0, 2.0]); // a field for each parameter
//! ```
//!
//! # Trees
//!
//! Arguments, results and gradients may be tuples, `Vec`s, maps and structs of tensors. `#[derive(Tree)]` makes a model a
//! [`Tree`], and its methods can be traced:
//!
//! ```
//! use gradloom::prelude::*;
//!
//! #[derive(Clone, Tree)]
//! struct Linear {
//!     w: Tensor,
//!     b: Tensor,
//! }
//!
//! #[traced]
//! impl Linear {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         x.matmul(&self.w) + &self.b
//!     }
//! }
//!
//! let [key, data] = Key::new(0).split_n();
//! let model = Linear { w: key.normal([3, 2], DType::F32), b: Tensor::zeros([2], DType::F32) };
//! let x = data.normal([4, 3], DType::F32);
//! assert_eq!(model.forward(&x).shape(), [4, 2]);
//! ```
//!
//! # Transforms
//!
//! [`vjp`], [`jvp`], [`grad`], [`value_and_grad`], [`hvp`], [`jacfwd`], [`jacrev`] and [`hessian`] take closures, which they run and
//! record. They nest, and they may call traced functions. Several arguments are a tuple:
//!
//! ```
//! use gradloom::prelude::*;
//! let x = Tensor::from(2.0f64);
//! let cube = |x: &Tensor| x * x * x;
//! assert_eq!(grad(cube)(&x).item::<f64>(), 12.0);
//! assert_eq!(grad(grad(cube))(&x).item::<f64>(), 12.0);
//! assert_eq!(hessian(cube)(&x).item::<f64>(), 12.0);
//! let product = |(x, y): &(Tensor, Tensor)| x * y;
//! let (dx, dy) = grad(product)(&(x, Tensor::from(5.0f64)));
//! assert_eq!((dx.item::<f64>(), dy.item::<f64>()), (5.0, 2.0));
//! ```
//!
//! # Random numbers, optimisers, and what was planned
//!
//! A [`Key`] gives random numbers once, see [`random`]. An optimiser takes parameters and gradients to new parameters, see
//! [`optim`]. [`events`] says what was planned and what was found in the [`cache`]:
//!
//! ```
//! use gradloom::events::{self, Event};
//! use gradloom::optim::Sgd;
//! use gradloom::prelude::*;
//!
//! let sgd = Sgd { lr: 0.25, ..Sgd::default() };
//! let mut w = Key::new(1).uniform([3], DType::F32);
//! let mut state = sgd.init(&w);
//! let mut train = || -> Result<()> {
//!     let ct = grad(|w: &Tensor| w.square().sum(..))(&w);
//!     (w, state) = sgd.step(&w, &ct, &state);
//!     evaluate(&(w.clone(), state.clone()))
//! };
//! train()?;
//! let (result, log) = events::record(&mut train);
//! result?;
//! assert!(!log.iter().any(|e| matches!(e, Event::Planned { .. })));
//! # Ok::<(), Error>(())
//! ```
//!
//! - [`Tensor`] is a handle on a value that is computed when it is looked at; [`evaluate()`] computes many together.
//! - [`macro@traced`] differentiates a function while it is compiled. [`grad`], [`vjp`], [`jvp`] and their relatives do
//!   the same for closures when they run.
//! - A model is a [`Tree`] of tensors: derive it. [`optim`] has optimisers for trees, [`random`] numbers for their leaves.
//! - [`events`] tells what was planned and run, and [`cache`] holds the plans.
//! - [`testing`] checks derivatives; `#[traced(check)]` emits tests that do.
//!
//! ```
//! use gradloom::prelude::*;
//!
//! #[traced]
//! fn loss(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
//!     (x.matmul(w) - y).square().mean(..)
//! }
//!
//! let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! let y = Tensor::from([5.0f32, 11.0]);
//! let mut w = Tensor::zeros([2], DType::F32);
//! for _ in 0..500 {
//!     let (_, grads) = loss::value_and_grad(&w, &x, &y);
//!     w -= grads.w * 0.05;
//!     evaluate(&w)?;
//! }
//! assert!(loss(&w, &x, &y).item::<f32>() < 1e-3);
//! # Ok::<(), Error>(())
//! ```

extern crate self as gradloom;

#[doc(hidden)]
#[path = "private/mod.rs"]
pub mod __private;
mod age;
mod annotation;
mod aval;
#[macro_use]
mod buffer;
pub mod cache;
mod call;
mod check;
mod cost;
mod dtype;
mod error;
mod evaluate;
pub mod events;
mod graph;
mod kernel;
mod layout;
mod lower;
mod node;
pub mod optim;
mod plan;
pub mod random;
mod record;
mod rules;
mod scope;
mod shelf;
mod spare;
mod statics;
mod tensor;
pub mod testing;
mod traced;
mod transform;
mod tree;
mod walk;

pub use annotation::AnnotationFault;
pub use aval::Aval;
pub use cost::{Cost, Formula, Term, Work};
pub use dtype::Element;
pub use error::{Error, Result};
pub use evaluate::{evaluate, explain};
pub use gradloom_ir::DType;
pub use gradloom_macros::{Tree, traced};
pub use kernel::threads::{set_threads, threads};
pub use random::Key;
pub use statics::IntoStatic;
pub use tensor::{Branch, IntoShape, Operand, Tensor};
pub use traced::{Point, Traced};
pub use transform::{
    Outcome, Pullback, grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp,
};
pub use tree::Tree;

/// What most programs use.
pub mod prelude {
    pub use crate::traced;
    pub use crate::{Aval, DType, Element, Error, Key, Result, Tensor, Tree};
    pub use crate::{evaluate, grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp};
}
