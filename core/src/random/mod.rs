//! Random numbers from keys.
//!
//! The generator has no state. A [`Key`] says which numbers come out, using a key consumes it, and [`Key::split`]
//! makes as many independent keys of one as are needed. So a program gives the same numbers on every machine, for any
//! number of threads and in any order of evaluation, and the same key cannot be used twice by mistake: that does
//! not compile.
//!
//! The numbers are those of `jax.random` (the default, partitionable Threefry-2x32 with 20 rounds): bits, uniform
//! numbers, coin flips, permutations and the keys of a split are equal bit for bit. Normal numbers go through
//! a logarithm and agree to a few units in the last place; see [`Key::normal`].

mod erf_inv;
mod key;
#[cfg(test)]
mod tests;
pub mod threefry;

pub use key::Key;
