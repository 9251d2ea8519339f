//! Code shared by the examples: the command line, the data set, the model, the chart of a training
//! run, and the benchmarks.

pub mod bench;
pub mod book;
pub mod chart;
pub mod command;
pub mod data;
pub mod gpt;
pub mod minilm;
pub mod model;
pub mod step;
pub mod xla;
