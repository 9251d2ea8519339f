//! Vectors for each level of the CPU, and loops over slices written with them.

pub(crate) mod bytes;
pub(crate) mod lanes;
pub(crate) mod level;
pub(crate) mod leveled;
pub(crate) mod number;
pub(crate) mod vector;
