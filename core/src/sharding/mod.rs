//! Several devices: meshes, sharded tensors, and programs for the devices of a mesh.
//!
//! The devices are simulated: each runs in this process, with buffers of its own, on the threads of the kernels.
//! The crate `gradloom-mpi` runs the same functions on processes.
//! [`shard_map`] runs a function on each device, with collectives such as [`all_reduce`]. With the feature `checkpoint`,
//! `save_checkpoint` and `load_checkpoint` keep sharded trees on disk.

#[cfg(feature = "checkpoint")]
mod checkpoint;
mod collectives;
mod constants;
mod context;
mod placement;
mod shard_map;
mod sharded;
mod specs;
mod tensor;

#[cfg(feature = "checkpoint")]
pub use checkpoint::{
    CheckpointError, load_checkpoint, remove_checkpoint, save_checkpoint, verify_checkpoint,
};
pub use collectives::{
    MeshAxisNames, all_gather, all_reduce, all_to_all, axis_index, axis_size, broadcast, pmean,
    ppermute, reduce_scatter,
};
pub use context::with_mesh;
pub(crate) use context::{MeshInForce, mesh_in_force};
pub use gradloom_ir::sharding::{
    AxisRef, DimSharding, Link, Mesh, MeshAxis, Part, Reduction, ShardingError, ShardingSpec,
};
pub use gradloom_ir::spmd::{Collective, Explanation, Speed};
pub use shard_map::{ShardMap, shard_map};
#[cfg(feature = "view")]
pub use sharded::sharding_page;
pub use sharded::{explain_sharding, sharded};
pub use specs::Specs;
pub use tensor::with_sharding;
