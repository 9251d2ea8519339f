//! Attributes of the macro inside of the user's item.

use syn::Attribute;

/// Returns whether an attribute is `#[traced]`, under any path.
pub(crate) fn is_traced(attr: &Attribute) -> bool {
    let last = attr.path().segments.last();
    last.is_some_and(|segment| segment.ident == "traced")
}

/// Attributes of a `let` that choose residuals.
pub(crate) const REMAT_HINTS: [&str; 2] = ["save", "recompute"];

/// Returns whether an attribute of a `let` chooses residuals.
pub(crate) fn is_remat_hint(attr: &Attribute) -> bool {
    REMAT_HINTS.iter().any(|name| attr.path().is_ident(name))
}

/// Returns whether an attribute is `#[checkpoint]`.
pub(crate) fn is_checkpoint(attr: &Attribute) -> bool {
    attr.path().is_ident("checkpoint")
}
