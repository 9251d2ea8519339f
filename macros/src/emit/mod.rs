//! Expands a lowered function to tokens. Its input has been checked, so expansion cannot fail.

pub(crate) mod annotations;
pub(crate) mod cached_call;
pub(crate) mod call;
pub(crate) mod cx;
pub(crate) mod docs;
pub(crate) mod facts;
pub(crate) mod flow;
mod gradients;
mod inline;
pub(crate) mod internal_items;
pub(crate) mod jvp;
pub(crate) mod names;
mod optional_tangents;
pub(crate) mod paths;
pub(crate) mod program_text;
mod residuals;
pub(crate) mod rule;
pub(crate) mod shadow;
pub(crate) mod statements;
mod vjp;
pub(crate) mod vmap;

pub(crate) use cached_call::{Borrowing, CachedCallEmitter, static_arg, static_key};
