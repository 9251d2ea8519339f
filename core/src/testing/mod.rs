//! Checks of functions and of their derivatives, for tests.
//!
//! [`#[traced(check)]`](macro@crate::traced) emits tests that call the functions of this module.
//! They accept closures as well:
//!
//! ```
//! use gradloom::testing::{Source, gradcheck, lazy_equals_op_by_op};
//!
//! let x = Source::new(0).normal([3, 4]);
//! gradcheck(|x| x.tanh().sum(..), &x)?;
//! lazy_equals_op_by_op(|| x.softmax(-1))?;
//! # Ok::<(), gradloom::testing::Failure>(())
//! ```
//!
//! # Tolerances
//!
//! - Evaluation as one graph against op by op: equal to the last bit. All NaNs are equal.
//! - Two computations of a derivative, and the two sides of the adjoint identity: 256 units in the
//!   last place, relative to the largest entry of the tensor or, for the identity, to the sum of
//!   the magnitudes of its terms.
//! - Finite differences: 1e-7 in `f64` and 4e-3 in `f32`, relative to the largest entry.
//!
//! The scale of a relative tolerance is at least 1, because entries that cancel leave rounding
//! errors of the terms.

mod compare;
mod elements;
mod laws;
mod op_by_op;
mod source;

pub use crate::call::{check_every_call, check_no_call};
pub use compare::Failure;
pub use elements::{WorstElement, gradcheck_elements};
pub(crate) use laws::gradients_equal;
pub use laws::{
    adjoint_identity, companions_equal_run_time_derivatives, finite_differences, gradcheck,
    lazy_equals_op_by_op,
};
pub use op_by_op::op_by_op;
pub(crate) use source::Sizes;
pub use source::{Sample, Source};
