//! Kernels on rows and columns, and chains of tasks that run on a block of rows at a time.

pub mod chain;
mod columns;
pub(crate) mod forward;
pub(crate) mod jacobians;
mod kernels;
pub mod norm;
pub mod row_kernel;

pub use forward::Root;
pub use kernels::{
    Along, Rows, cross_entropy, cross_entropy_grad, inv_std, layer_norm, log_softmax,
    log_softmax_jvp, log_softmax_vjp, logsumexp, normalize, normalize_t, one_hot, rms_norm,
    softmax, softmax_t, variance,
};
