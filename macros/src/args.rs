//! The options of `#[traced(..)]`.

use crate::annotation::Returns;
use crate::check::Check;
use crate::order::Order;
use crate::report::{Errors, nearest};
use crate::warn::Lint;
use quote::ToTokens;

/// The options of `#[traced(..)]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    /// Where the run time is, if its dependency has been renamed.
    pub(crate) krate: Option<syn::Path>,
    /// Whether the body is run and recorded even if it is straight-line.
    pub(crate) record: bool,
    /// Whether the user says that the body only computes.
    pub(crate) pure: bool,
    /// The tests to emit.
    pub(crate) check: Option<Check>,
    /// The warnings that are silenced.
    pub(crate) allow: Vec<Lint>,
    /// The shapes of the result.
    pub(crate) returns: Option<Returns>,
    /// How often to differentiate.
    pub(crate) order: Option<Order>,
}

impl Args {
    pub(crate) fn parse(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Args {
        let mut args = Args::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                if args.krate.is_some() {
                    return Err(meta.error("`crate` is given twice; remove one"));
                }
                let path = meta
                    .value()
                    .and_then(|value| value.call(syn::Path::parse_mod_style));
                let path = path
                    .map_err(|_| meta.error("`crate` takes a path, as in `crate = my_gradloom`"))?;
                args.krate = Some(path);
                return Ok(());
            }
            if meta.path.is_ident("record") {
                if !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
                    return Err(meta.error("`record` takes no value; write `#[traced(record)]`"));
                }
                args.record = true;
                return Ok(());
            }
            if meta.path.is_ident("pure") {
                if !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
                    return Err(meta.error("`pure` takes no value; write `#[traced(pure)]`"));
                }
                args.pure = true;
                return Ok(());
            }
            if meta.path.is_ident("check") {
                if args.check.is_some() {
                    return Err(meta.error("`check` is given twice; remove one"));
                }
                args.check = Some(Check::parse(&meta)?);
                return Ok(());
            }
            if meta.path.is_ident("allow") {
                return meta.parse_nested_meta(|lint| {
                    args.allow.push(allowed(&lint)?);
                    Ok(())
                });
            }
            if meta.path.is_ident("returns") {
                if args.returns.is_some() {
                    return Err(meta.error("`returns` is given twice; remove one"));
                }
                if !meta.input.peek(syn::token::Paren) {
                    return Err(meta
                        .error("`returns` takes the dims of the result, as in `returns(B, 10)`"));
                }
                let tokens;
                syn::parenthesized!(tokens in meta.input);
                args.returns = Some(Returns::parse(
                    tokens.parse()?,
                    meta.path.to_token_stream(),
                )?);
                return Ok(());
            }
            if meta.path.is_ident("order") {
                if args.order.is_some() {
                    return Err(meta.error("`order` is given twice; remove one"));
                }
                args.order = Some(Order::parse(&meta)?);
                return Ok(());
            }
            let name = meta
                .path
                .get_ident()
                .map(ToString::to_string)
                .unwrap_or_default();
            let options = [
                "crate", "record", "pure", "check", "allow", "returns", "order",
            ];
            let hint = match nearest(&name, &options) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "it takes `check`, `record`, `pure`, `returns(..)` for the shape of the result, `allow(..)`, `order = 2`, and `crate = path` for a renamed dependency".to_owned(),
            };
            Err(meta.error(format!("`{name}` is not an option of `#[traced]`; {hint}")))
        });
        if let Err(error) = syn::parse::Parser::parse2(parser, tokens) {
            errors.push_error(error);
        }
        args
    }
}

/// A warning in `allow(..)`.
fn allowed(meta: &syn::meta::ParseNestedMeta) -> syn::Result<Lint> {
    let name = meta.path.get_ident().map(ToString::to_string);
    let name = name.unwrap_or_default();
    let names = Lint::ALL.map(Lint::name);
    let lint = Lint::ALL.into_iter().find(|lint| lint.name() == name);
    lint.ok_or_else(|| {
        let hint = match nearest(&name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it warns of {}", names.map(|n| format!("`{n}`")).join(", ")),
        };
        meta.error(format!("`{name}` is not a warning of `#[traced]`; {hint}"))
    })
}
