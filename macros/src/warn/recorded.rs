//! Warnings of functions of which each call is recorded.

use super::{Lint, Warning};
use crate::parse::{Func, text};
use proc_macro2::{Span, TokenStream};

/// What makes each call of a function recorded.
pub(crate) struct Cause {
    /// The reason, which ends with what to write instead.
    pub(crate) why: String,
    /// The user's token that makes it so.
    pub(crate) span: Span,
    /// A constant that is true if it is not so after all, where only rustc knows the types that decide it.
    pub(crate) unless: Option<TokenStream>,
}

/// A warning for each cause.
pub(crate) fn recorded_calls(func: &Func, causes: &[Cause]) -> impl Iterator<Item = Warning> {
    let name = text(&func.sig.ident);
    causes.iter().map(move |cause| Warning {
        lint: Lint::RecordedCall,
        span: cause.span,
        text: format!("each call of `{name}` is recorded, because {}", cause.why),
        unless: cause.unless.clone(),
    })
}
