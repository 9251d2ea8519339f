//! Groups of elementwise ops that run over the elements together, a tile at a time.

pub mod builtin_loops;
pub(crate) mod by_row;
mod bytecode;
pub mod compile;
pub mod compiled_loops;
pub mod epilogue;
pub mod group;
pub(crate) mod piece;
pub mod quotient;
pub(crate) mod tile;
mod walk;

pub use bytecode::CompiledLoop;
pub use group::{Group, Source};
pub use tile::{CHUNK, FusedSum, Matrices, gcd};
pub use walk::copied;
