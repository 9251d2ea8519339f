//! What the examples share: the data set, the model and the picture of a training run, and the benchmarks.

pub mod bench;
pub mod chart;
pub mod data;
pub mod model;
