//! Parses the option `check` of `#[traced]`, which decides how the emitted tests sample their
//! arguments.
//!
//! Most arguments are sampled by the shape in `#[shape(B, 784)]`, or by the `Sample` impl of their
//! type. The option covers the others. A parameter without any of these is an error, which names
//! the parameter and the option to write.

use super::{Func, Kind, Param, unraw};
use crate::report::{Errors, nearest};
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Expr, LitInt};

/// Parsed argument of `check(..)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelftestOption {
    /// Sampling rules for the parameters that the option names.
    pub(crate) given: Vec<(Ident, DrawRule)>,
    /// Lengths of named dims.
    pub(crate) dims: Vec<(Ident, usize)>,
    /// Names of the tests that are not emitted.
    pub(crate) skipped: Vec<String>,
}

/// Properties that the tests check; each test has the name of its property.
pub(crate) const LAWS: [&str; 4] = [
    "lazy_equals_op_by_op",
    "companions_equal_run_time_derivatives",
    "adjoint_identity",
    "finite_differences",
];

#[derive(Clone, Debug)]
pub(crate) enum DrawRule {
    /// `range(x = 0.5..2.0)`
    Range(TokenStream, TokenStream),
    /// `classes(labels = 10)`
    Classes(TokenStream),
    /// `value(n = 3)`
    Value(TokenStream),
}

impl DrawRule {
    pub(crate) fn option(&self) -> &'static str {
        match self {
            DrawRule::Range(..) => "range",
            DrawRule::Classes(_) => "classes",
            DrawRule::Value(_) => "value",
        }
    }
}

/// Parts of the option, each with an example.
const PARTS: [(&str, &str); 5] = [
    ("range", "range(x = 0.5..2.0)"),
    ("classes", "classes(labels = 10)"),
    ("value", "value(n = 3)"),
    ("dims", "dims(T = 4)"),
    ("skip", "skip(finite_differences)"),
];

impl SelftestOption {
    /// Parses the parentheses after the word `check`, if there are any.
    pub(crate) fn parse(meta: &ParseNestedMeta) -> syn::Result<SelftestOption> {
        let mut check = SelftestOption::default();
        if meta.input.is_empty() || meta.input.peek(syn::Token![,]) {
            return Ok(check);
        }
        if !meta.input.peek(syn::token::Paren) {
            return Err(
                meta.error("`check` takes its options in parentheses, as in `check(value(n = 3))`")
            );
        }
        meta.parse_nested_meta(|part| check.parse_part(&part))?;
        Ok(check)
    }

    fn parse_part(&mut self, meta: &ParseNestedMeta) -> syn::Result<()> {
        let name = name_of(meta);
        let Some((option, example)) = PARTS.iter().find(|(option, _)| *option == name) else {
            let hint = match nearest(&name, &PARTS.map(|(option, _)| option)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "it takes `range`, `classes`, `value`, `dims` and `skip`".to_owned(),
            };
            return Err(meta.error(format!("`{name}` is not an option of `check`; {hint}")));
        };
        if !meta.input.peek(syn::token::Paren) {
            return Err(meta.error(format!(
                "`{option}` takes names in parentheses, as in `{example}`"
            )));
        }
        meta.parse_nested_meta(|entry| {
            let Some(ident) = entry.path.get_ident().cloned() else {
                return Err(entry.error(format!("`{option}` takes names, as in `{example}`")));
            };
            let name = unraw(&ident);
            if *option == "skip" {
                return self.skip(&ident);
            }
            let wrong = |_| entry.error(format!("`{name}` needs a value, as in `{example}`"));
            let value: Expr = entry
                .value()
                .and_then(|value| value.parse())
                .map_err(wrong)?;
            self.entry(option, ident, value)
        })
    }

    fn skip(&mut self, ident: &Ident) -> syn::Result<()> {
        let name = unraw(ident);
        if LAWS.contains(&name.as_str()) {
            self.skipped.push(name);
            return Ok(());
        }
        let hint = match nearest(&name, &LAWS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the tests are `{}`", LAWS.join("`, `")),
        };
        Err(error(
            ident,
            format!("`check` has no test `{name}`; {hint}"),
        ))
    }

    fn entry(&mut self, option: &str, ident: Ident, value: Expr) -> syn::Result<()> {
        let name = unraw(&ident);
        if option == "dims" {
            let Ok(n) = syn::parse2::<LitInt>(value.to_token_stream())
                .and_then(|n| n.base10_parse::<usize>())
            else {
                return Err(error(
                    &value,
                    "the length of a dim is a number, as in `dims(T = 4)`",
                ));
            };
            if self.dims.iter().any(|(dim, _)| unraw(dim) == name) {
                return Err(error(
                    &ident,
                    format!("the dim `{name}` is given twice; remove one"),
                ));
            }
            self.dims.push((ident, n));
            return Ok(());
        }
        let given = match option {
            "classes" => DrawRule::Classes(value.into_token_stream()),
            "value" => DrawRule::Value(value.into_token_stream()),
            _ => match value {
                Expr::Range(syn::ExprRange {
                    start: Some(start),
                    end: Some(end),
                    limits: syn::RangeLimits::HalfOpen(_),
                    ..
                }) => DrawRule::Range(start.into_token_stream(), end.into_token_stream()),
                other => {
                    return Err(error(
                        &other,
                        "`range` takes two numbers, as in `range(x = 0.5..2.0)`",
                    ));
                }
            },
        };
        if let Some((_, before)) = self.given.iter().find(|(param, _)| unraw(param) == name) {
            let (before, now) = (before.option(), given.option());
            let message = match before == now {
                true => format!("`{name}` is given twice; remove one"),
                false => {
                    format!("`{name}` is given by `{before}` and by `{now}`; remove one of them")
                }
            };
            return Err(error(&ident, message));
        }
        self.given.push((ident, given));
        Ok(())
    }

    pub(crate) fn given(&self, param: &Param) -> Option<&(Ident, DrawRule)> {
        let name = unraw(&param.ident);
        self.given.iter().find(|(ident, _)| unraw(ident) == name)
    }

    /// Returns the names in the annotated dims, followed by those whose length `dims(..)` fixes.
    pub(crate) fn known_dims(&self, funcs: &[&Func]) -> Vec<String> {
        let params = funcs.iter().flat_map(|f| &f.params);
        let dims = params.flat_map(|p| p.aval.shape.dims().unwrap_or_default());
        let polys = dims.filter_map(|dim| dim.poly());
        let named = polys.flat_map(|poly| {
            let factors = poly.terms().iter().flat_map(|term| &term.names);
            factors.map(ToString::to_string).collect::<Vec<_>>()
        });
        named
            .chain(self.dims.iter().map(|(dim, _)| unraw(dim)))
            .collect()
    }

    /// Reports parameters and dims that none of the functions has.
    pub(crate) fn refuse_unknown(&self, funcs: &[&Func], errors: &mut Errors) {
        let params: Vec<String> = funcs
            .iter()
            .flat_map(|f| &f.params)
            .map(|p| unraw(&p.ident))
            .collect();
        for (ident, given) in &self.given {
            let (name, option) = (unraw(ident), given.option());
            if !params.contains(&name) {
                let hint = hint(&name, &params, "parameters");
                errors.push(
                    ident,
                    format!("`{name}` in `{option}` is not a parameter; {hint}"),
                );
            }
        }
        // A `Sample` impl may ask for any dim, so no dim is unknown.
        let sampled = funcs.iter().flat_map(|f| &f.params);
        if sampled
            .filter(|p| p.kind == Kind::Tree)
            .any(|p| self.given(p).is_none())
        {
            return;
        }
        let all = SelftestOption::default().known_dims(funcs);
        for (ident, _) in &self.dims {
            let name = unraw(ident);
            if !all.contains(&name) {
                let hint = hint(&name, &all, "dims");
                errors.push(
                    ident,
                    format!("no `#[shape(..)]` has a dim `{name}`; {hint}"),
                );
            }
        }
    }
}

fn name_of(meta: &ParseNestedMeta) -> String {
    meta.path
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn error(tokens: &impl ToTokens, message: impl std::fmt::Display) -> syn::Error {
    syn::Error::new_spanned(tokens, message)
}

/// Returns a hint with the most similar name, or with all names if none is similar.
fn hint(name: &str, names: &[String], what: &str) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for name in names {
        if !unique.contains(&name.as_str()) {
            unique.push(name);
        }
    }
    match nearest(name, &unique) {
        Some(near) => format!("did you mean `{near}`?"),
        None if unique.is_empty() => format!("there are no {what}"),
        None => format!("the {what} are `{}`", unique.join("`, `")),
    }
}
