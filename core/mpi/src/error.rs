//! Errors of worlds and of the functions that their ranks run.

use gradloom::{Error, ShardingFault};

/// Error of a [`World`](crate::World), or of a function that its ranks run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI was initialised before.
    #[error(
        "MPI is initialised already, and a process can do so once; make one `World` and borrow it"
    )]
    Initialised,
    /// The MPI library cannot be called from a process with threads.
    #[error("this MPI library does not support processes with threads (MPI_THREAD_SERIALIZED)")]
    Threads,
    /// A mesh has other devices than the ranks of the world.
    #[error(
        "{mesh} does not have the devices 0 to {}, which are the ranks; start a rank for each device, as in `mpirun -n {n_devices}`",
        ranks - 1
    )]
    Devices {
        /// The mesh.
        mesh: String,
        /// Number of its devices.
        n_devices: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// A rank failed in a call. All ranks get this error.
    #[error("rank {rank} failed: {message}")]
    Failed {
        /// The first rank that failed.
        rank: usize,
        /// Its error, or the message of its panic.
        message: String,
    },
    /// A rank has dropped its [`World`](crate::World), so no call can complete.
    #[error("rank {rank} has left: {reason}")]
    Left {
        /// The first such rank.
        rank: usize,
        /// The message of its panic, or that its `World` was dropped.
        reason: String,
    },
    /// Ranks did not make the same call.
    #[error(
        "rank 0 {first}, and rank {rank} {other}; all ranks must make the same calls in the same order, with arguments of the same shapes"
    )]
    Order {
        /// What rank 0 did.
        first: String,
        /// The first rank that did something else.
        rank: usize,
        /// What it did.
        other: String,
    },
    /// Ranks traced different programs for a call.
    #[error(
        "rank {rank} has traced another program than rank 0; give all ranks the same function, specs and shapes"
    )]
    Program {
        /// The first rank that differs from rank 0.
        rank: usize,
    },
    /// Ranks have different elements for the same value, or for the same part of it.
    #[error(
        "`{path}` has other elements on rank {rank} than on rank {first}, and both have the same part of it"
    )]
    Elements {
        /// Path of the argument, or the number of a captured tensor.
        path: String,
        /// The first rank that differs from one before it.
        rank: usize,
        /// The first rank that has the part.
        first: usize,
    },
    /// A value has no equal parts, so a call on parts cannot take or return it.
    #[error(
        "`{path}` cannot be divided equally: {reason}; use `call`, which takes and returns whole values"
    )]
    Uneven {
        /// Path of the argument or of the result.
        path: String,
        /// The shape or the axis.
        reason: String,
    },
    /// A message has more elements than MPI can count.
    #[error(
        "a rank would send or receive {elements} elements at once, and MPI counts up to {}",
        i32::MAX
    )]
    TooLarge {
        /// Number of elements.
        elements: usize,
    },
    /// The function cannot be divided.
    #[error("cannot divide the function: {reason}")]
    Divide {
        /// The reason.
        reason: String,
    },
    /// A spec does not fit.
    #[error("{0}")]
    Sharding(#[from] ShardingFault),
    /// The function cannot be traced, or a value not computed.
    #[error("{0}")]
    Tensor(#[from] Error),
}

/// Result of a call on the ranks of a world.
pub(crate) type Result<T, E = MpiError> = std::result::Result<T, E>;
