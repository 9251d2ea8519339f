//! Random numbers from keys.
//!
//! The generator has no state. A [`Key`] determines the numbers, using a key consumes it, and
//! [`Key::split`] makes independent keys. A program therefore gives the same numbers on every
//! machine, for any number of threads and in any order of evaluation. Using a key twice by mistake
//! does not compile.
//!
//! A key is either two words or a tensor of words, which is an argument of a call or the result of
//! an op on another key. Words are used immediately. Uses of a tensor are recorded as ops and run
//! by the plan of the call. Both use the same kernels.
//!
//! The numbers are those of `jax.random` with its default generator, partitionable Threefry-2x32
//! with 20 rounds. Bits, uniform numbers, coin flips, permutations and split keys are equal bit for
//! bit. Normal numbers agree up to a few units in the last place, because they involve a logarithm;
//! see [`Key::normal`].

mod key;
#[cfg(test)]
mod tests;

pub use gradloom_kernels::random::threefry;
pub use key::{FoldIn, Key};
