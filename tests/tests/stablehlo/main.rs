//! Exported programs give the results of gradloom when XLA runs them.
//!
//! `GRADLOOM_PYTHON=python-with-jax cargo test --workspace --test stablehlo` runs all tests; without the variable,
//! only those that need no XLA. `GRADLOOM_PROGRAMS=5000` tests more random programs.

mod cases;
mod errors;
mod partition;
mod random;
mod table;
