//! Traces: the operations of a computation as data.
//!
//! A *traced function*, marked with [`#[traced]`](macro@crate::traced), is compiled. A *trace* is recorded at
//! run time, in one of two ways:
//!
//! - [`trace`] runs a closure on arguments without elements and returns its [`Program`], which can be called,
//!   differentiated, batched, printed and parsed back.
//! - A [`TraceContext`] notes what its thread computes while it is open, as a list of [`TraceNode`]s. Values are
//!   there, and the code that is watched need not know of it. A [`TracedTensor`] is a tensor with its node.
//!
//! [`run`] records the operations of a program that is already there, and a [`ProgramPlan`] computes them at once.
//! [`pending`] returns the program of promises that nobody has traced.
//!
//! ```
//! use gradloom::Tensor;
//! use gradloom::trace::trace;
//!
//! let x = Tensor::from([1.0f32, 2.0]);
//! let t = trace(|x: &Tensor| x * 2.0 + 1.0, &x);
//! let nodes = t.nodes();
//! let names: Vec<&str> = nodes.iter().map(|node| node.operation()).collect();
//! assert_eq!(names, ["multiply", "add"]);
//! assert_eq!(t.call(&x).to_vec::<f32>(), [3.0, 5.0]);
//! assert_eq!(gradloom::grad(|x: &Tensor| t.call(x).sum(..))(&x).to_vec::<f32>(), [2.0, 2.0]);
//! ```

mod function;
#[cfg(feature = "view")]
mod page;
mod plan;
mod text;
mod traced_tensor;

pub use crate::error::TraceFault;
pub use crate::observe::{Attribute, NodeId, NodeOutput, TraceContext, TraceHandle, TraceNode};
pub use function::{Trace, pending, trace};
pub use gradloom_ir::{Program, verify};
pub use plan::ProgramPlan;
pub use text::{parse, run};
pub use traced_tensor::TracedTensor;
