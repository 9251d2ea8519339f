//! Ops: laws over the op table, shapes, messages, random graphs.

mod bits;
mod composites;
mod convolution;
mod growth;
mod indexing;
mod laws;
mod messages;
mod random_graphs;
mod shapes;
