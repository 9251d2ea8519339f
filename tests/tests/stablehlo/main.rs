//! Exported programs give the results of gradloom when XLA runs them.
//!
//! `GRADLOOM_PYTHON` names a Python with the package `jax`, as `.ci/outside` installs it. Without the variable, only the
//! tests that need no XLA run. `GRADLOOM_PROGRAMS=5000` tests more random programs.

mod cases;
mod errors;
mod partition;
mod random;
mod table;
