//! Differentiable tensor programs: derivatives at compile time, lazy evaluation with a plan cache.
//!
//! - [`Tensor`] is a handle on a value that is computed when it is looked at; [`evaluate()`] computes many together.
//! - [`macro@traced`] differentiates a function while it is compiled. [`grad`], [`vjp`], [`jvp`] and their relatives do
//!   the same for closures when they run.
//! - A model is a [`Tree`] of tensors: derive it. [`optim`] has optimisers for trees, [`random`] numbers for their leaves.
//! - [`events`] tells what was planned and run, and [`cache`] holds the plans.
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
#[path = "private.rs"]
pub mod __private;
mod aval;
#[macro_use]
mod buffer;
pub mod cache;
mod check;
mod dtype;
mod error;
mod evaluate;
pub mod events;
mod kernel;
mod layout;
mod lower;
mod node;
pub mod optim;
mod plan;
pub mod random;
mod record;
mod statics;
mod tensor;
mod traced;
mod transform;
mod tree;
mod walk;

pub use aval::Aval;
pub use dtype::Element;
pub use error::{Error, Result};
pub use evaluate::evaluate;
pub use gradloom_ir::DType;
pub use gradloom_macros::{Tree, traced};
pub use random::Key;
pub use statics::IntoStatic;
pub use tensor::{IntoShape, Operand, Tensor};
pub use traced::Traced;
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
