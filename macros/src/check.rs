//! The option `check` of `#[traced]`: what the emitted tests sample as arguments.
//!
//! The signature says most of it: a shape in `#[shape(B, 784)]`, a type that implements `Sample`. The option says the rest,
//! and what is said nowhere is an error that names the parameter and the option to write.

use crate::parse::{Func, Kind, Param, unraw};
use crate::report::{Errors, nearest};
use gradloom_ir::{DType, Dim};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Expr, GenericParam, LitInt};

/// What `check(..)` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Check {
    /// What is said of a parameter.
    given: Vec<(Ident, Given)>,
    /// The lengths of named dims.
    dims: Vec<(Ident, usize)>,
    /// The tests that are not emitted.
    skipped: Vec<String>,
}

/// What the tests prove; each is named after it.
pub(crate) const LAWS: [&str; 4] = [
    "lazy_equals_op_by_op",
    "companions_equal_run_time_derivatives",
    "adjoint_identity",
    "finite_differences",
];

#[derive(Clone, Debug)]
enum Given {
    /// `range(x = 0.5..2.0)`
    Range(Box<Expr>, Box<Expr>),
    /// `classes(labels = 10)`
    Classes(Expr),
    /// `value(n = 3)`
    Value(Expr),
}

impl Given {
    fn option(&self) -> &'static str {
        match self {
            Given::Range(..) => "range",
            Given::Classes(_) => "classes",
            Given::Value(_) => "value",
        }
    }
}

/// How the tests of one function come to their arguments.
pub(crate) struct Sampling {
    /// For each parameter.
    pub(crate) draws: Vec<Draw>,
    /// Named dims that the user's expressions mention.
    pub(crate) mentioned: Vec<Ident>,
    /// The dims that the user has fixed.
    pub(crate) fixed: Vec<(String, usize)>,
    /// The tests to emit.
    pub(crate) laws: Vec<&'static str>,
}

/// Where an argument comes from.
pub(crate) enum Draw {
    /// The user's expression.
    Value(Expr),
    /// The user's `impl Sample`.
    Sample,
    /// Numbers in a shape.
    Numbers {
        dims: Vec<Dim>,
        numbers: Numbers,
        /// `f64` where nothing is said, `i64` for classes.
        dtype: Option<DType>,
    },
}

pub(crate) enum Numbers {
    Normal,
    Uniform(Box<Expr>, Box<Expr>),
    Classes(Box<Expr>),
    Flags,
}

/// The parts of the option, each with an example.
const PARTS: [(&str, &str); 5] = [
    ("range", "range(x = 0.5..2.0)"),
    ("classes", "classes(labels = 10)"),
    ("value", "value(n = 3)"),
    ("dims", "dims(T = 4)"),
    ("skip", "skip(finite_differences)"),
];

impl Check {
    /// Parses what follows the word `check`.
    pub(crate) fn parse(meta: &ParseNestedMeta) -> syn::Result<Check> {
        let mut check = Check::default();
        if meta.input.is_empty() || meta.input.peek(syn::Token![,]) {
            return Ok(check);
        }
        if !meta.input.peek(syn::token::Paren) {
            return Err(
                meta.error("`check` takes its options in parentheses, as in `check(value(n = 3))`")
            );
        }
        meta.parse_nested_meta(|part| check.part(&part))?;
        Ok(check)
    }

    fn part(&mut self, meta: &ParseNestedMeta) -> syn::Result<()> {
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
            "classes" => Given::Classes(value),
            "value" => Given::Value(value),
            _ => match value {
                Expr::Range(syn::ExprRange {
                    start: Some(start),
                    end: Some(end),
                    limits: syn::RangeLimits::HalfOpen(_),
                    ..
                }) => Given::Range(start, end),
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

    /// How to come to the arguments of `func`; what is missing is an error.
    pub(crate) fn sampling(&self, func: &Func, errors: &mut Errors) -> Option<Sampling> {
        let mut wrong = Errors::default();
        let owner = func.owner.iter().flat_map(|o| &o.generics.params);
        for param in owner.chain(&func.sig.generics.params) {
            let ident = match param {
                GenericParam::Type(t) => &t.ident,
                GenericParam::Const(c) => &c.ident,
                GenericParam::Lifetime(_) => continue,
            };
            let function = &func.sig.ident;
            wrong.push(
                ident,
                format!("`check` cannot choose `{ident}`; check a function without type parameters that calls `{function}`"),
            );
        }
        let draws: Vec<Option<Draw>> = func
            .params
            .iter()
            .map(|param| self.draw(param, &mut wrong))
            .collect();
        let complete = wrong.is_empty();
        errors.append(wrong);
        let draws = draws.into_iter().collect::<Option<Vec<Draw>>>()?;
        complete.then(|| Sampling {
            mentioned: self.mentioned(func),
            fixed: self.dims.iter().map(|(dim, n)| (unraw(dim), *n)).collect(),
            laws: LAWS
                .into_iter()
                .filter(|law| !self.skipped.iter().any(|skipped| skipped == law))
                .collect(),
            draws,
        })
    }

    fn given(&self, param: &Param) -> Option<&(Ident, Given)> {
        let name = unraw(&param.ident);
        self.given.iter().find(|(ident, _)| unraw(ident) == name)
    }

    fn draw(&self, param: &Param, errors: &mut Errors) -> Option<Draw> {
        let name = unraw(&param.ident);
        let given = self.given(param);
        if let Some((_, Given::Value(value))) = given {
            return Some(Draw::Value(value.clone()));
        }
        if let (Some((ident, given)), true) = (given, param.kind != Kind::Tensor) {
            let option = given.option();
            errors.push(
                ident,
                format!("`{option}` belongs to a `Tensor`, and `{name}` is none; write `value({name} = ..)`"),
            );
            return None;
        }
        match param.kind {
            Kind::Tree => return Some(Draw::Sample),
            Kind::Static { .. } => {
                errors.push(
                    &param.ident,
                    format!(
                        "`check` does not know what `{name}` is; write `check(value({name} = ..))`"
                    ),
                );
                return None;
            }
            Kind::Tensor => {}
        }
        let dtype = param.aval.dtype;
        let numbers = match given {
            Some((ident, Given::Classes(_))) if param.diff => {
                errors.push(
                    ident,
                    format!(
                        "classes are integers, which have no derivative; mark `{name}` `#[nodiff]`"
                    ),
                );
                return None;
            }
            Some((_, Given::Classes(classes))) => Numbers::Classes(Box::new(classes.clone())),
            Some((_, Given::Range(start, end))) => Numbers::Uniform(start.clone(), end.clone()),
            _ => match dtype {
                Some(DType::Bool) => Numbers::Flags,
                Some(DType::I32 | DType::I64) => {
                    errors.push(
                        &param.ident,
                        format!("`check` does not know which integers `{name}` holds; write `check(classes({name} = 10))` for those below 10"),
                    );
                    return None;
                }
                _ => Numbers::Normal,
            },
        };
        let Some(dims) = param.aval.shape.dims() else {
            errors.push(
                &param.ident,
                format!("`check` does not know the shape of `{name}`; put `#[shape(..)]` on it, as in `#[shape(B, 3)]`"),
            );
            return None;
        };
        Some(Draw::Numbers {
            dims: dims.to_vec(),
            numbers,
            dtype,
        })
    }

    /// The named dims that the expressions for `func` mention.
    fn mentioned(&self, func: &Func) -> Vec<Ident> {
        let mut idents = Vec::new();
        for param in &func.params {
            match self.given(param) {
                Some((_, Given::Classes(e) | Given::Value(e))) => {
                    idents_of(e.to_token_stream(), &mut idents);
                }
                Some((_, Given::Range(a, b))) => {
                    idents_of(a.to_token_stream(), &mut idents);
                    idents_of(b.to_token_stream(), &mut idents);
                }
                None => {}
            }
        }
        let dims = self.known_dims(&[func]);
        let mut mentioned: Vec<Ident> = Vec::new();
        for ident in idents {
            if dims.contains(&ident.to_string()) && !mentioned.contains(&ident) {
                mentioned.push(ident);
            }
        }
        mentioned
    }

    /// The dims that annotations name, and those that are fixed.
    fn known_dims(&self, funcs: &[&Func]) -> Vec<String> {
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

    /// Refuses names that none of the functions has.
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
                    format!("`{name}` in `{option}` is no parameter; {hint}"),
                );
            }
        }
        // A type that is sampled may ask for any dim.
        let sampled = funcs.iter().flat_map(|f| &f.params);
        if sampled
            .filter(|p| p.kind == Kind::Tree)
            .any(|p| self.given(p).is_none())
        {
            return;
        }
        let all = Check::default().known_dims(funcs);
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

/// The nearest of some names, or all of them.
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

fn idents_of(tokens: TokenStream, out: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => out.push(ident),
            TokenTree::Group(group) => idents_of(group.stream(), out),
            _ => {}
        }
    }
}
