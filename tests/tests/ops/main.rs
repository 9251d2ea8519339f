//! Ops: laws over the op table, shapes, messages, random graphs.

mod bits;
mod bools;
mod composites;
mod contractions;
mod convolution;
mod growth;
mod higher_orders;
mod indexing;
mod kernels;
mod laws;
mod linalg;
mod messages;
mod modes;
mod numpy_methods;
mod parts;
mod promotion;
mod random_programs;
mod shapes;
mod small_dtypes;
