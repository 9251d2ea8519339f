//! Parses the options of `#[traced(..)]`.

use super::Lint;
use super::annotation::ReturnsOption;
use super::order::OrderOption;
use super::rule::RuleOption;
use super::selftest::SelftestOption;
use crate::report::{Errors, nearest};
use quote::ToTokens;
use syn::meta::ParseNestedMeta;

/// Options of `#[traced(..)]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    /// `crate = path`: path of the `gradloom` crate, if the dependency is renamed.
    pub(crate) krate: Option<syn::Path>,
    /// True if the body is traced at run time even if it is straight-line.
    pub(crate) record: bool,
    /// True if the user declares that the body has no side effects.
    pub(crate) pure: bool,
    /// `check`: options of the emitted tests.
    pub(crate) selftest: Option<SelftestOption>,
    /// `allow(..)`: silenced warnings.
    pub(crate) allow: Vec<Lint>,
    /// `returns(..)`: shapes of the result.
    pub(crate) returns: Option<ReturnsOption>,
    /// `order = n`: order of the highest derivative.
    pub(crate) order: Option<OrderOption>,
    /// `vjp = ..` or `jvp = ..`: the derivative.
    pub(crate) rule: Option<RuleOption>,
}

impl Args {
    pub(crate) fn parse(tokens: proc_macro2::TokenStream, errors: &mut Errors) -> Args {
        let mut args = Args::default();
        let parser = syn::meta::parser(|meta| args.option(&meta));
        if let Err(error) = syn::parse::Parser::parse2(parser, tokens) {
            errors.push_error(error);
        }
        args
    }

    fn option(&mut self, meta: &ParseNestedMeta) -> syn::Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string);
        let name = name.unwrap_or_default();
        match name.as_str() {
            "crate" => once(&mut self.krate, meta, &name, || {
                let path = meta
                    .value()
                    .and_then(|v| v.call(syn::Path::parse_mod_style));
                path.map_err(|_| meta.error("`crate` takes a path, as in `crate = my_gradloom`"))
            }),
            "record" => flag(&mut self.record, meta, &name),
            "pure" => flag(&mut self.pure, meta, &name),
            "check" => once(&mut self.selftest, meta, &name, || {
                SelftestOption::parse(meta)
            }),
            "allow" => meta.parse_nested_meta(|lint| {
                self.allow.push(allowed(&lint)?);
                Ok(())
            }),
            "returns" => once(&mut self.returns, meta, &name, || {
                if !meta.input.peek(syn::token::Paren) {
                    return Err(meta
                        .error("`returns` takes the dims of the result, as in `returns(B, 10)`"));
                }
                let tokens;
                syn::parenthesized!(tokens in meta.input);
                ReturnsOption::parse(tokens.parse()?, meta.path.to_token_stream())
            }),
            "order" => once(&mut self.order, meta, &name, || OrderOption::parse(meta)),
            "vjp" | "jvp" => once(&mut self.rule, meta, "rule", || {
                RuleOption::parse(meta, &name)
            }),
            _ => Err(unknown(meta, &name)),
        }
    }
}

/// Parses an option with a value; a second occurrence is an error.
fn once<T>(
    option: &mut Option<T>,
    meta: &ParseNestedMeta,
    name: &str,
    parse: impl FnOnce() -> syn::Result<T>,
) -> syn::Result<()> {
    if option.is_some() {
        let message = match name {
            "rule" => "a function has one rule, `vjp` or `jvp`; remove the other".to_owned(),
            name => format!("`{name}` is given twice; remove one"),
        };
        return Err(meta.error(message));
    }
    *option = Some(parse()?);
    Ok(())
}

/// Sets an option that takes no value.
fn flag(option: &mut bool, meta: &ParseNestedMeta, name: &str) -> syn::Result<()> {
    if !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
        let message = format!("`{name}` takes no value; write `#[traced({name})]`");
        return Err(meta.error(message));
    }
    *option = true;
    Ok(())
}

fn unknown(meta: &ParseNestedMeta, name: &str) -> syn::Error {
    let options = [
        "crate", "record", "pure", "check", "allow", "returns", "order", "vjp", "jvp",
    ];
    let hint = match nearest(name, &options) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "it takes `check`, `record`, `pure`, `returns(..)` for the shape of the result, `allow(..)`, `order = 2`, `vjp = ..` or `jvp = ..` for a derivative of your own, and `crate = path` for a renamed dependency".to_owned(),
    };
    meta.error(format!("`{name}` is not an option of `#[traced]`; {hint}"))
}

/// Parses the name of a warning in `allow(..)`.
fn allowed(meta: &ParseNestedMeta) -> syn::Result<Lint> {
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
