//! Meshes of devices, and how tensors are sharded over them.
//!
//! A [`Mesh`] arranges devices in a grid with named axes. A [`ShardingSpec`] says which axes of the
//! mesh split each dim of a tensor, and over which axes the tensor is still to be reduced. The module
//! [`spmd`](crate::spmd) derives the specs of all values of a program.

mod axis;
mod error;
mod mesh;
mod parse;
mod spec;

pub(crate) use axis::Position;
pub use axis::{AxisRef, Part};
pub use error::ShardingError;
pub use mesh::{Link, Mesh, MeshAxis};
pub use spec::{DimSharding, Reduction, ShardingSpec};
