//! The run time, tested through its public interface.

mod chains;
mod deep;
mod derivatives;
mod epilogues;
mod errors;
mod fused;
mod lazy;
mod methods;
mod random_graphs;
mod rng;
mod rows;
