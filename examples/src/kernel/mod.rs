//! Loops with vectors of the CPU, to compare kernels with.

pub mod loops;
