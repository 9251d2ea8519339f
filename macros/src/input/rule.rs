//! `vjp = ..` and `jvp = ..`: a derivative that the user wrote.

use super::text;
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Path;
use syn::meta::ParseNestedMeta;

/// Direction of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// From the arguments, the result and its cotangent to the cotangents of the differentiated arguments.
    Reverse,
    /// From the arguments, the result and the tangents of the differentiated arguments to the tangent of the result.
    Forward,
}

/// Parsed value of `vjp = path` or `jvp = path`.
#[derive(Clone, Debug)]
pub(crate) struct RuleOption {
    pub(crate) mode: Mode,
    pub(crate) path: Path,
}

impl RuleOption {
    /// Parses the text after `vjp` or `jvp`.
    pub(crate) fn parse(meta: &ParseNestedMeta, name: &str) -> syn::Result<RuleOption> {
        let path = meta.value().and_then(|v| v.parse::<Path>());
        let path = path.map_err(|_| {
            meta.error(format!(
                "`{name}` takes the path of a function, as in `{name} = my_{name}`"
            ))
        })?;
        let mode = match name {
            "vjp" => Mode::Reverse,
            _ => Mode::Forward,
        };
        Ok(RuleOption { mode, path })
    }

    /// Returns the option as text that identifies it.
    pub(crate) fn text(&self) -> String {
        format!(", {:?}: {}", self.mode, text(&self.path))
    }
}

/// Takes a rule out of the options of an impl block or of a method, and reports it.
pub(crate) fn refuse(rule: &mut Option<RuleOption>, errors: &mut Errors) {
    if let Some(rule) = &rule.take() {
        errors.push(
            rule,
            "a rule belongs to a function outside of an impl block; call it from the method",
        );
    }
}

/// Prints the path, so that an error can point at it.
impl ToTokens for RuleOption {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.path.to_tokens(tokens);
    }
}
