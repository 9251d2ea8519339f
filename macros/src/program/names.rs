//! Identifiers and spans in the emitted code.

use proc_macro2::{Ident, Span, TokenStream};
use std::collections::BTreeMap;

/// Returns the identifier of a name.
///
/// A name from the user has the user's identifier, so that host code that the macro cannot analyse
/// finds it. Other names are hygienic.
pub(crate) fn ident_of(name: &str, idents: &BTreeMap<String, Ident>) -> Ident {
    idents.get(name).cloned().unwrap_or_else(|| ours(name))
}

/// Returns a hygienic identifier; a keyword becomes a raw identifier again.
pub(crate) fn ours(name: &str) -> Ident {
    // Parsing takes long, and most names have a digit or an underscore, which no keyword has.
    let is_word = name.bytes().all(|b| b.is_ascii_alphabetic());
    match is_word && syn::parse_str::<Ident>(name).is_err() {
        false => Ident::new(name, Span::mixed_site()),
        true => Ident::new_raw(name, Span::mixed_site()),
    }
}

/// Returns tokens with the given span.
pub(crate) fn at(tokens: &TokenStream, span: Span) -> TokenStream {
    // A path written by the user keeps its span, so that rustc reports errors in it there, and
    // once.
    let ours = matches!(
        tokens.clone().into_iter().next(),
        Some(proc_macro2::TokenTree::Punct(_))
    );
    if !ours {
        return tokens.clone();
    }
    let placed = tokens.clone().into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    placed.collect()
}
