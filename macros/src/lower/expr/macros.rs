//! Lowers macros that are statements, and renames locals in format strings.

use crate::input::format_names;
use crate::input::unraw;
use crate::lower::{Cx, LowerResult, Value};
use gradloom_ir::Var;
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;
use syn::Macro;
use syn::spanned::Spanned;

/// Macros that are emitted, with the position of their format string.
const EMITTED: [(&str, usize); 14] = [
    ("assert", 1),
    ("assert_eq", 2),
    ("assert_ne", 2),
    ("debug_assert", 1),
    ("debug_assert_eq", 2),
    ("debug_assert_ne", 2),
    ("print", 0),
    ("println", 0),
    ("eprint", 0),
    ("eprintln", 0),
    ("panic", 0),
    ("unreachable", 0),
    ("unimplemented", 0),
    ("todo", 0),
];

/// Other macros that take a format string, with its position.
const FORMATS: [(&str, usize); 3] = [("format", 0), ("write", 1), ("writeln", 1)];

impl Cx<'_> {
    /// Lowers a macro statement: assertions and prints are emitted as host code.
    pub(in crate::lower) fn host_macro(&mut self, mac: &Macro) -> LowerResult<()> {
        let (reads, tokens) = self.emitted_macro(mac)?;
        self.builder.push_host(reads, quote!(#tokens;));
        Ok(())
    }

    /// Returns the emitted form of a macro, and the variables that it reads.
    pub(in crate::lower) fn emitted_macro(
        &mut self,
        mac: &Macro,
    ) -> LowerResult<(Vec<Var>, TokenStream)> {
        let name = name_of(mac);
        if !EMITTED.iter().any(|(kept, _)| *kept == name) {
            return self.recorded(&format!("`{name}!`"), mac.span());
        }
        let (mut reads, mut names) = (Vec::new(), BTreeMap::new());
        let mut mentioned = Vec::new();
        crate::lower::host::in_tokens(mac.tokens.clone(), &mut |ident| {
            mentioned.push(unraw(ident))
        });
        for key in mentioned {
            let tokens = match self.names.lookup(&key).cloned() {
                Some(Value::Tensor { var, .. }) => {
                    reads.push(var);
                    self.named_by_host(var).to_token_stream()
                }
                Some(Value::Place(place)) if place.root => continue,
                Some(Value::Place(place)) => {
                    let place = self.reference(&place);
                    // Other expressions are parenthesised.
                    match syn::parse2::<Ident>(place.clone()) {
                        Ok(ident) => ident.to_token_stream(),
                        Err(_) => quote!((#place)),
                    }
                }
                Some(Value::Host(host)) => {
                    match syn::parse2::<Ident>(host.expr.to_token_stream()) {
                        Ok(ident) => ident.to_token_stream(),
                        Err(_) => continue,
                    }
                }
                Some(_) => return self.recorded(&format!("`{name}!`"), mac.span()),
                None => continue,
            };
            names.insert(key, tokens);
        }
        let mut mac = mac.clone();
        rename(&mut mac, &names);
        Ok((reads, mac.to_token_stream()))
    }
}

/// Renames the locals in a macro, including those in its format string.
pub(in crate::lower) fn rename(mac: &mut Macro, names: &BTreeMap<String, TokenStream>) {
    let name = name_of(mac);
    let place = EMITTED.iter().chain(&FORMATS).find(|(n, _)| *n == name);
    let format = place.and_then(|(_, place)| format_string(&mac.tokens, *place));
    let given = arguments(&mac.tokens);
    mac.tokens = renamed(std::mem::take(&mut mac.tokens), names, format.is_some());
    let Some(format) = format else { return };
    let mut ends_in_comma = matches!(
        mac.tokens.clone().into_iter().last(),
        Some(TokenTree::Punct(p)) if p.as_char() == ','
    );
    for key in format_names(&format) {
        let Some(new) = names.get(&key).filter(|_| !given.contains(&key)) else {
            continue;
        };
        // A format string cannot name hygienic locals, so they are passed as named arguments.
        let key = syn::parse_str::<Ident>(&key).expect("the key is the name of a local");
        let comma = (!ends_in_comma).then(|| quote!(,));
        ends_in_comma = false;
        mac.tokens.extend(quote!(#comma #key = #new));
    }
}

fn name_of(mac: &Macro) -> String {
    let last = mac.path.segments.last();
    last.map(|s| s.ident.to_string()).unwrap_or_default()
}

/// Renames identifiers in tokens. If `formats`, `name = ..` is a named argument and keeps its name.
fn renamed(
    tokens: TokenStream,
    names: &BTreeMap<String, TokenStream>,
    formats: bool,
) -> TokenStream {
    let mut dot = false;
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let after_dot = std::mem::replace(&mut dot, false);
        match token {
            TokenTree::Ident(ident) if !after_dot => {
                let names_argument = formats && is_single_equals(tokens.peek());
                match names.get(&unraw(&ident)).filter(|_| !names_argument) {
                    Some(new) => out.extend(new.clone()),
                    None => out.extend([TokenTree::Ident(ident)]),
                }
            }
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), renamed(group.stream(), names, false));
                new.set_span(group.span());
                out.extend([TokenTree::Group(new)]);
            }
            other => {
                dot = matches!(&other, TokenTree::Punct(p) if p.as_char() == '.');
                out.extend([other]);
            }
        }
    }
    out
}

fn is_single_equals(token: Option<&TokenTree>) -> bool {
    let alone = proc_macro2::Spacing::Alone;
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == '=' && p.spacing() == alone)
}

/// Returns the argument at position `place`, if it is a string literal.
fn format_string(tokens: &TokenStream, place: usize) -> Option<String> {
    let mut n_commas = 0;
    let mut tokens = tokens.clone().into_iter().skip_while(|token| {
        let found = n_commas == place;
        if matches!(token, TokenTree::Punct(p) if p.as_char() == ',') {
            n_commas += 1;
        }
        !found
    });
    let literal: syn::LitStr = syn::parse2(tokens.next()?.into()).ok()?;
    Some(literal.value())
}

/// Returns the names of the named arguments.
fn arguments(tokens: &TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let named = tokens.windows(2).filter_map(|pair| match &pair[0] {
        TokenTree::Ident(ident) if is_single_equals(pair.get(1)) => Some(unraw(ident)),
        _ => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_format_string_becomes_an_argument() {
        let mut mac: Macro = syn::parse_quote!(assert!(i < n, "{i} of {n}, {k}", k = i));
        let names = [("i", quote!(i_1)), ("k", quote!(k_1))];
        rename(&mut mac, &names.map(|(n, t)| (n.to_owned(), t)).into());
        let text = crate::input::text(&mac);
        assert_eq!(
            text,
            "assert!(i_1<n, \"{i} of {n}, {k}\", k = i_1, i = i_1)"
        );
    }
}
