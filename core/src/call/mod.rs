//! Cached calls of traced functions.
//!
//! A [`Site`] caches the plans of one traced function, keyed by the shapes, tree structure and
//! static values of the arguments. A call that finds its plan records nothing. Its results are
//! promises of one [`CallNode`](crate::graph::call_node::CallNode), which computes all of them when one is needed.

mod cached_call;
mod checks;
pub(crate) mod facts;
pub(crate) mod hash;
pub(crate) mod known;
pub(crate) mod leaf;
pub(crate) mod leaf_range;
pub(crate) mod leaves;
pub(crate) mod marks;
pub(crate) mod pull;
mod pullback;
mod site;
mod whole;

pub use checks::{check_every_call, check_no_call};
pub use pullback::{Cotangents, Pullback};
pub use site::{Recording, Results, Site, begin, recorded, recorded_impure};
pub use whole::{NoShape, NoWhole, OfWhole, ShapeOfTree, Whole, unkept};

#[cfg(test)]
mod tests;
