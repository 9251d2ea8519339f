//! Code shared by the examples: the command line, the data set, the model, the chart of a training
//! run, the benchmarks, and the comparison of all ops with the limits of the machine.

pub mod bench;
pub mod book;
pub mod chart;
pub mod command;
pub mod data;
pub mod gpt;
pub mod kernel;
pub mod memory;
pub mod minilm;
pub mod model;
pub mod roofline;
pub mod step;
pub mod xla;
