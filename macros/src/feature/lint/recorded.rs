//! Warns about functions whose calls are always recorded.

use super::Warning;
use crate::emit::cached_call::Cause;
use crate::input::Lint;
use crate::input::{Func, text};

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
