//! CPU kernels of [gradloom](https://docs.rs/gradloom). Use `gradloom`, not this crate: its
//! interface may change with every release.
//!
//! A kernel reads slices and writes slices. It knows nothing of tensors, programs or plans: a
//! [`Prepared`] kernel has everything resolved except the values.
//!
//! - [`memory`]: buffers, the buffer pool, layouts, element types.
//! - [`task`]: kernels with the regions that they read and write, and the loop that runs them.
//! - [`elementwise`]: groups of elementwise ops, compiled to a bytecode or to loops.
//! - [`rows`]: softmax, norms and losses, and chains of kernels that share a block of rows.
//! - [`conv`] and [`pool`]: convolutions and pooling, on [`windows`] that slide along axes.
//! - [`reduce`], [`scan`], [`order`], [`movement`], [`indexing`], [`gemm`],
//!   [`linalg`], [`attention`], [`random`]: the other kernels.
//! - [`control`]: loops and conditionals, which run tasks. [`turn_loop`]: compiled loops over single numbers. [`spmd`]: tasks on simulated devices.
//! - [`threads`] divides work; `simd` has vectors for each level of the CPU.
//!
//! A kernel relies on its caller for shapes and dtypes, and asserts what memory safety needs. An
//! error that depends on values is a [`KernelFault`]. The result depends on the shapes and values
//! of the operands, not on their strides: a strided view gives the same bits as its contiguous
//! copy.
//!
//! All `unsafe` code of the run time is in this crate.

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    reason = "not for users: documentation is for readers of the code, and names may say enough"
)]

#[macro_use]
mod dispatch;

mod array;
pub mod attention;
pub mod body;
pub mod control;
pub mod conv;
pub mod elementwise;
pub mod fork;
pub mod gemm;
pub mod indexing;
pub mod linalg;
pub mod lock;
pub mod memory;
pub mod movement;
pub mod order;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod rows;
pub mod scan;
mod simd;
pub mod spmd;
pub mod task;
pub mod threads;
pub mod timeline;
pub mod turn_loop;
pub mod windows;

pub use memory::fault::KernelFault;
pub use task::Prepared;
