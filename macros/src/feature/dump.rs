//! `GRADLOOM_DUMP=name` prints the program of a function after each step, and the expansion.

use super::hvp;
use crate::derivative::programs;
use crate::input::{Func, text};
use crate::program::Body;
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::Attribute;
use syn::visit_mut::VisitMut;

/// Prints the report to standard error if `GRADLOOM_DUMP` is the function's name, `Type::method` or
/// `all`.
pub(crate) fn dump(func: &Func, body: &Body, expansion: impl FnOnce() -> TokenStream) {
    let asked = asked();
    if !asked.is_empty() && ["all".to_owned(), func.name(), name(func)].contains(&asked) {
        eprintln!("{}", report(func, body, expansion()));
    }
}

/// Says that a traced impl block of the type in `GRADLOOM_DUMP=Type::method` lacks the method.
///
/// A misspelt function or type is not reported, because no expansion knows the others.
pub(crate) fn missed(ty: &syn::Type, traced: &[Func]) {
    if let Some(message) = missing(&asked(), ty, traced) {
        eprintln!("{message}");
    }
}

/// Returns the message of [`missed`] for a value of `GRADLOOM_DUMP`.
pub(crate) fn missing(asked: &str, ty: &syn::Type, traced: &[Func]) -> Option<String> {
    let (owner, _) = asked.split_once("::")?;
    if owner != self::owner(ty) || traced.iter().any(|func| name(func) == asked) {
        return None;
    }
    let names: Vec<String> = traced.iter().map(|f| format!("`{}`", name(f))).collect();
    let names = match names.is_empty() {
        true => "nothing".to_owned(),
        false => names.join(", "),
    };
    Some(format!(
        "GRADLOOM_DUMP: a traced impl block of `{owner}` does not trace `{asked}`; it traces {names}"
    ))
}

fn asked() -> String {
    std::env::var("GRADLOOM_DUMP").unwrap_or_default()
}

/// Returns the name of a function, or `Type::method`.
fn name(func: &Func) -> String {
    match &func.owner {
        Some(imp) => format!("{}::{}", owner(&imp.self_ty), func.name()),
        None => func.name(),
    }
}

/// Returns the last name of a type, without generic arguments.
fn owner(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        _ => None,
    }
    .unwrap_or_else(|| text(ty))
}

/// Returns the text of the dump.
pub(crate) fn report(func: &Func, body: &Body, expansion: TokenStream) -> String {
    let (mut out, name) = (String::new(), name(func));
    match body {
        Body::Compiled(flow) => match flow.straight() {
            Some(low) => {
                let hvp = hvp::program(func, low).map(|hvp| ("hvp", hvp.program));
                for (step, program) in programs(low).into_iter().chain(hvp) {
                    out += &format!("// {name}: {step}\n{program}\n\n");
                }
            }
            None => out += &format!("// {name}: lowered\n{}\n\n", flow.flow),
        },
        Body::Recorded(reason) => out += &format!("// {name}: recorded at run time: {reason}\n\n"),
    }
    let file = syn::parse2::<syn::File>(expansion.clone());
    let expansion = match file {
        Ok(mut file) => {
            Shortener::default().visit_file_mut(&mut file);
            prettyplease::unparse(&file)
        }
        Err(_) => expansion.to_string(),
    };
    out + &format!("// {name}: expansion\n{expansion}")
}

/// Keeps the first of equal `allow` attributes, and the first line of each documentation.
#[derive(Default)]
struct Shortener {
    seen: BTreeSet<String>,
}

impl VisitMut for Shortener {
    fn visit_attributes_mut(&mut self, attrs: &mut Vec<Attribute>) {
        let mut documented = false;
        attrs.retain_mut(|attr| {
            if attr.path().is_ident("allow") {
                return self.seen.insert(attr.to_token_stream().to_string());
            }
            let syn::Meta::NameValue(syn::MetaNameValue { path, value, .. }) = &mut attr.meta
            else {
                return true;
            };
            if !path.is_ident("doc") {
                return true;
            }
            if let syn::Expr::Lit(syn::ExprLit { lit, .. }) = value
                && let syn::Lit::Str(doc) = lit
                && let Some((first, _)) = doc.value().split_once('\n')
            {
                *lit = syn::Lit::Str(syn::LitStr::new(first, doc.span()));
            }
            !std::mem::replace(&mut documented, true)
        });
    }
}
