//! Custom functions: forward code of any kind, with derivatives that the user writes.
//!
//! [`custom_vjp`](crate::custom_vjp) and `#[traced(vjp = ..)]` suit functions that consist of tensor operations.
//! A [`CustomFunction`] may do anything in `forward`: read values, call a foreign library, keep objects for
//! `backward`. A [`Kernel`] computes on slices, as a lazy operation with declared shapes.
//!
//! | | `forward` runs | `backward` runs | values |
//! |---|---|---|---|
//! | [`CustomFunction`] | at each call | once in each backward pass, with the cotangents of all results | promises, until the code reads them |
//! | [`Kernel`] | when the result is read | as ops | slices |

mod call_node;
mod context;
mod kernel;
mod validate;

pub use crate::backend::host_kernel::{KernelInput, KernelOutput};
pub use call_node::{Call, CustomFunction, custom_call, try_custom_call};
pub use context::FunctionContext;
pub use kernel::{HostKernel, Kernel};
pub use validate::GradientValidator;

crate::tree::marks! { custom_call try_custom_call }
