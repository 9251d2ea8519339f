//! From a lowered function to tokens. Expansion takes what has been checked and cannot fail.

mod companions;
mod emit;
pub(crate) mod paths;
mod staged;

pub(crate) use companions::companions;
pub(crate) use staged::programs;
