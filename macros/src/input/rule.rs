//! `vjp = ..` and `jvp = ..`: a derivative that the user wrote.

use super::{Func, Kind, Param, text};
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident};
use syn::meta::ParseNestedMeta;
use syn::{Block, Path};

/// Direction of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// From the arguments, the result and its cotangent to the cotangents of the differentiated arguments.
    Reverse,
    /// From the arguments, the result and the tangents of the differentiated arguments to the tangent of the result.
    Forward,
}

/// Parsed value of `vjp = path` or `jvp = path`.
#[derive(Clone, Debug)]
pub(crate) struct RuleOption {
    mode: Mode,
    path: Path,
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

    /// Replaces the body by a call of it that has the derivative of the rule.
    pub(crate) fn apply(
        &self,
        func: &Func,
        block: &mut Block,
        rt: &TokenStream,
        errors: &mut Errors,
    ) {
        if let Some(param) = func.params.iter().find(|p| p.pattern) {
            errors.push(
                &param.ty,
                "a function with a rule names each parameter; take the pattern apart in its body",
            );
            return;
        }
        let is_static = |p: &&Param| matches!(p.kind, Kind::Static { .. });
        let trees: Vec<&Param> = func.params.iter().filter(|p| !is_static(p)).collect();
        let (names, types): (Vec<_>, Vec<_>) = trees.iter().map(|p| (&p.ident, &p.owned)).unzip();
        // A parameter by value is its own copy in the body.
        let by_value = trees.iter().filter(|p| !p.by_ref).map(|p| &p.ident);
        let copies = by_value.map(|x| ours!(let #x = ::core::clone::Clone::clone(#x);));
        let arguments: Vec<TokenStream> = func
            .params
            .iter()
            .map(|p| {
                let x = &p.ident;
                match is_static(&p) && !p.by_ref {
                    true => ours!(::core::clone::Clone::clone(&#x)),
                    false => x.to_token_stream(),
                }
            })
            .collect();
        let (result, path) = (&func.sig.output, &self.path);
        let body = ours! {
            |(#(#names,)*): &(#(#types,)*)| #result { #(#copies)* #block }
        };
        let each = |prefix: &str| -> Vec<syn::Ident> {
            let numbers = (0..trees.len()).map(|i| format_ident!("{prefix}{i}"));
            numbers.collect()
        };
        let changes = each("change");
        let of_diff = || trees.iter().zip(&changes).filter(|(p, _)| p.diff);
        let rule = match self.mode {
            Mode::Reverse => {
                let found = of_diff().map(|(_, change)| change);
                let found = match of_diff().count() {
                    1 => ours!(#(#found)*),
                    _ => ours!((#(#found),*)),
                };
                let all = trees.iter().zip(&changes).map(|(p, change)| match p.diff {
                    true => ours!(#change),
                    false => {
                        let x = &p.ident;
                        ours!(#rt::zero_cotangent(#x))
                    }
                });
                ours! {
                    |(#(#names,)*): &(#(#types,)*), y, ct| {
                        let #found = #path(#(#arguments,)* y, ct);
                        (#(#all,)*)
                    }
                }
            }
            Mode::Forward => {
                let given = of_diff().map(|(_, change)| change);
                let all = trees.iter().zip(&changes).map(|(p, change)| match p.diff {
                    true => ours!(#change),
                    false => ours!(_),
                });
                ours! {
                    |(#(#names,)*): &(#(#types,)*), y, (#(#all,)*): &(#(#types,)*)| {
                        #path(#(#arguments,)* y, #(#given),*)
                    }
                }
            }
        };
        let with = match self.mode {
            Mode::Reverse => ours!(#rt::with_vjp),
            Mode::Forward => ours!(#rt::with_jvp),
        };
        let operands = trees.iter().map(|p| {
            let x = &p.ident;
            match p.by_ref {
                true => ours!(::core::clone::Clone::clone(#x)),
                false => ours!(::core::clone::Clone::clone(&#x)),
            }
        });
        *block = syn::parse_quote!({ #with(#body, #rule, &(#(#operands,)*)) });
    }
}

/// Reports a rule in the options of an impl block or of a method.
pub(crate) fn refuse(rule: Option<&RuleOption>, errors: &mut Errors) {
    if let Some(rule) = rule {
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
