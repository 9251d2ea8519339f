//! Collects the errors of one expansion, which are reported together.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Collection of errors.
///
/// A message says what is wrong, then what to do. Its span is the smallest token that is wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    errors: Vec<syn::Error>,
}

impl Errors {
    /// Adds an error that points at `tokens` as a whole.
    pub(crate) fn push(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error that points at one span.
    pub(crate) fn push_at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new(span, message));
    }

    /// Adds an error of the parser.
    pub(crate) fn push_error(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Moves the errors of another collection into this one.
    pub(crate) fn append(&mut self, other: Errors) {
        self.errors.extend(other.errors);
    }

    /// Returns whether no error has been reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the messages, for tests.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }

    /// Returns one `compile_error!` for each error.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.errors
            .into_iter()
            .map(|e| e.to_compile_error())
            .collect()
    }
}

/// Returns the name most similar to `given`, if it is similar enough.
pub(crate) fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let best = names.iter().min_by_key(|name| distance(given, name))?;
    (distance(given, best) <= given.len().max(best.len()) / 2).then_some(best)
}

/// Returns the edit distance: the number of letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
