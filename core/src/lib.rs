//! Differentiable tensor programs: derivatives at compile time, lazy evaluation with a plan cache.

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
