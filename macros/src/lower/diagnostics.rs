//! Errors of the body, and the tokens that they point at.

use crate::report::Errors;

/// Errors so far.
#[derive(Clone)]
pub(super) struct Diagnostics<'a> {
    pub(super) errors: Errors,
    /// The body as the user wrote it, for messages.
    pub(super) source: &'a syn::Block,
}

impl<'a> Diagnostics<'a> {
    pub(super) fn new(source: &'a syn::Block) -> Diagnostics<'a> {
        Diagnostics {
            errors: Errors::default(),
            source,
        }
    }
}
