//! Ops: laws over the op table, reference results, shapes, messages, random graphs.

mod bits;
mod convolution;
mod goldens;
mod growth;
mod laws;
mod messages;
mod random_graphs;
mod shapes;
