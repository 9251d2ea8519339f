//! Optional features, one file or folder for each.

pub(crate) mod closures;
pub(crate) mod compiled_loops;
pub(crate) mod cost;
mod debug_points;
pub(crate) mod dump;
mod guessed_shapes;
pub(crate) mod hvp;
pub(crate) mod lint;
pub(crate) mod selftest;
pub(crate) mod trace_points;
mod turns;
