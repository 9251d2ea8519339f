//! Loops with `#[checkpoint]`.

use proc_macro2::{Ident, Span, TokenStream};

/// Loop whose iterations are recomputed.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) turns: LoopHead,
    /// Number of iterations between two saved states.
    pub(crate) every: TokenStream,
    /// Host locals that the loop reads; each is cloned.
    pub(crate) hosts: Vec<Ident>,
    /// Locals in `hosts` that may change.
    pub(crate) changing: Vec<Ident>,
}

/// Head of a loop, which decides how often it runs.
#[derive(Clone, Debug)]
pub(crate) struct LoopHead {
    /// Code before the brace, as the user wrote it.
    pub(crate) shown: TokenStream,
    /// Code before the brace of a loop that starts at iteration `start`.
    pub(crate) head: TokenStream,
    /// Condition evaluated once at the start of each iteration that runs: it may have side effects.
    pub(crate) condition: Option<TokenStream>,
    /// Copies of host locals that the loop changes and whose initial values its head reads.
    pub(crate) copies: Vec<Ident>,
}

/// Returns the local that holds the first iteration to run.
pub(crate) fn start() -> Ident {
    Ident::new("start", Span::mixed_site())
}
