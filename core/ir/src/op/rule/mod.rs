//! Parts of rules that several ops share.

pub(super) mod active;
pub mod shape;
pub(super) mod special;
