//! The errors of one expansion: collected, and reported all at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Collects errors. What is wrong is said first, then what to do; the span is the smallest token that is wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    errors: Vec<syn::Error>,
}

impl Errors {
    /// Adds an error that points at `tokens` as a whole.
    pub(crate) fn push(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error that points at one place.
    pub(crate) fn push_at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new(span, message));
    }

    /// Adds an error of the parser.
    pub(crate) fn push_error(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Takes over the errors of another collection.
    pub(crate) fn append(&mut self, other: Errors) {
        self.errors.extend(other.errors);
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The texts, for tests.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }

    /// One `compile_error!` for each error.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.errors
            .into_iter()
            .map(|e| e.to_compile_error())
            .collect()
    }
}

/// The nearest of `names` to `given`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let best = names.iter().min_by_key(|name| distance(given, name))?;
    (distance(given, best) <= given.len().max(best.len()) / 2).then_some(best)
}

/// How many letters have to be inserted, deleted or replaced.
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
