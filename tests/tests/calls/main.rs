//! Calls of traced functions: keys, purity, hashes, pending arguments, donated buffers.

mod call_checks;
mod donation;
mod generic_calls;
mod hashes;
mod keys;
mod numbers;
mod purity;
mod purity_holes;
mod purity_natural;
mod random;
mod skipped_results;
mod static_calls;
