//! Cached calls of traced functions.
//!
//! A [`CallSite`] caches the plans of one traced function, keyed by the shapes, tree structure and
//! static values of the arguments. A call that finds its plan records nothing. Its results are
//! promises of one [`CallNode`](crate::graph::call_node::CallNode), which computes all of them when one is needed.

mod cached_call;
mod checks;
pub(crate) mod companion_pullback;
pub(crate) mod facts;
pub(crate) mod hash;
pub(crate) mod known;
pub(crate) mod leaf;
pub(crate) mod leaf_range;
pub(crate) mod leaves;
pub(crate) mod marks;
mod opaque_result;
mod pullback;
mod site;
pub(crate) mod traits;

pub use checks::{check_every_call, check_no_call};
pub use opaque_result::{
    NoResultShape, NonTreeResult, OpaqueResult, TreeResult, TreeResultShape, why_not_cached,
    why_not_keyed,
};
pub use pullback::{CallPullback, Cotangents};
pub use site::{CallRecording, CallResults, CallSite, begin, recorded, recorded_impure};

#[cfg(test)]
mod tests;
