//! Programs for several devices on processes of MPI: each rank is a device of a mesh.
//!
//! [`World::sharded`] divides a function of whole tensors over the ranks, as
//! [`gradloom::sharding::sharded`] does over simulated devices, and [`World::shard_map`] runs a function on the parts of
//! each rank. A rank runs the program of its device by the evaluator of Gradloom, cut at the collectives, which MPI
//! carries.
//!
//! The crate is empty without the feature `mpi`. With it, it needs an implementation of MPI and libclang, such as the
//! Debian packages `openmpi-bin libopenmpi-dev libclang-dev clang`.
//!
#![cfg_attr(feature = "mpi", doc = "```no_run")]
#![cfg_attr(not(feature = "mpi"), doc = "```ignore")]
//! use gradloom::prelude::*;
//! use gradloom::sharding::{Mesh, ShardingSpec};
//! use gradloom_mpi::World;
//! use std::sync::Arc;
//!
//! // `mpirun -n 2 target/release/program` runs two ranks.
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let world = World::new()?;
//!     let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
//!     let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
//!     let loss = |(w, x): &(Tensor, Tensor)| x.matmul(w).square().mean(..);
//!     let step = move |(w, x): &(Tensor, Tensor)| {
//!         w - grad(|w: &Tensor| loss(&(w.clone(), x.clone())))(w) * 0.1
//!     };
//!     let step = world.sharded(step, &mesh, (None, rows), None);
//!
//!     let w = Tensor::from([1.0f32, -1.0]);
//!     let x = Tensor::from([[1.0f32, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]);
//!     println!("rank {}: {}", world.rank(), step.call(&(w, x))?);
//!     Ok(())
//! }
//! ```
//!
//! # Failures
//!
//! Ranks agree before and after each call. If a rank fails in a call, by an error or a panic, the call is an error on
//! all ranks, which names the rank and its error: see [`MpiError`]. A rank whose [`World`] is dropped takes part in the
//! next agreement, so the others get an error from their next call instead of waiting for it. MPI itself ends all ranks
//! if one is killed or calls [`std::process::exit`].

#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "mpi"), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "mpi")]
mod error;
#[cfg(feature = "mpi")]
mod exchange;
#[cfg(feature = "mpi")]
mod function;
#[cfg(feature = "mpi")]
mod lower;
#[cfg(feature = "mpi")]
mod steps;
#[cfg(feature = "mpi")]
mod world;

#[cfg(feature = "mpi")]
pub use error::MpiError;
#[cfg(feature = "mpi")]
pub use function::RankFunction;
#[cfg(feature = "mpi")]
pub use world::World;
