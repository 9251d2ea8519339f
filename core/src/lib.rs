//! Differentiable tensor programs: derivatives at compile time, lazy evaluation with a plan cache.

extern crate self as gradloom;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod aval;
#[doc(hidden)]
#[macro_use]
pub mod buffer;
mod dtype;
mod error;
mod kernel;
mod layout;
mod node;
pub mod random;
mod record;
mod statics;
mod tensor;
mod transform;
mod tree;

pub use aval::Aval;
pub use dtype::Element;
pub use error::{Error, Result};
pub use gradloom_ir::DType;
pub use random::Key;
pub use statics::IntoStatic;
pub use tensor::{IntoShape, Tensor};
pub use transform::{
    Outcome, Pullback, grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp,
};
pub use tree::Tree;

/// What most programs use.
pub mod prelude {
    pub use crate::{Aval, DType, Element, Error, Key, Result, Tensor, Tree};
    pub use crate::{grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp};
}
