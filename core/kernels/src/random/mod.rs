//! Random arrays, drawn from the words of a key.

mod erf_inv;
mod fill;
#[cfg(test)]
mod tests;
pub mod threefry;

pub use fill::{Distribution, fold_in, order, permutation};
