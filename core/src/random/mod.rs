//! Random numbers from keys.
//!
//! The generator has no state. A [`Key`] says which numbers come out, using a key consumes it, and [`Key::split`]
//! makes as many independent keys of one as are needed. So a program gives the same numbers on every machine, for any
//! number of threads and in any order of evaluation, and the same key cannot be used twice by mistake: that does
//! not compile.
//!
//! A key is words, or a tensor of words that is an argument of a call, or that an op makes of another. With words all is done
//! at once; what is made of a tensor is ops, which the plan of the call runs. Both use the same kernels (`kernel::random`).
//!
//! The numbers are those of `jax.random` (the default, partitionable Threefry-2x32 with 20 rounds): bits, uniform
//! numbers, coin flips, permutations and the keys of a split are equal bit for bit. Normal numbers go through
//! a logarithm and agree to a few units in the last place; see [`Key::normal`].

pub(crate) mod erf_inv;
mod key;
#[cfg(test)]
mod tests;
pub mod threefry;

pub use key::Key;
