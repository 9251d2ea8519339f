//! Warns about functions whose calls are always recorded.

use super::{Lint, Warning};
use crate::parse::{Func, text};
use proc_macro2::{Span, TokenStream};

/// Cause of recorded calls of a function.
pub(crate) struct Cause {
    /// The reason, which ends with a remedy.
    pub(crate) why: String,
    /// The user's token that is the cause.
    pub(crate) span: Span,
    /// Constant that is true if the cause does not apply, if it depends on types that only rustc
    /// knows.
    pub(crate) unless: Option<TokenStream>,
}

/// Returns a warning for each cause.
pub(crate) fn recorded_calls(func: &Func, causes: &[Cause]) -> impl Iterator<Item = Warning> {
    let name = text(&func.sig.ident);
    causes.iter().map(move |cause| Warning {
        lint: Lint::RecordedCall,
        span: cause.span,
        text: format!("each call of `{name}` is recorded, because {}", cause.why),
        unless: cause.unless.clone(),
    })
}
