//! Decides how each argument of a test is sampled, from the signature and the option `check`.

use crate::input::selftest::{DrawRule, LAWS, SelftestOption};
use crate::input::{Func, Kind, Param, unraw};
use crate::report::Errors;
use gradloom_ir::{DType, Dim};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::format_ident;
use syn::GenericParam;

/// Sampling of the arguments for the tests of one function.
pub(crate) struct Sampling {
    /// One entry for each parameter.
    pub(crate) draws: Vec<Draw>,
    /// Named dims that the user's expressions mention, with the variables that hold them.
    pub(crate) mentioned: Vec<(String, Ident)>,
    /// Dims whose lengths the user has fixed.
    pub(crate) fixed: Vec<(String, usize)>,
    /// Names of the tests to emit.
    pub(crate) laws: Vec<&'static str>,
}

/// Origin of an argument: an expression, or a sample.
pub(crate) enum Draw {
    /// The user's expression.
    Value(TokenStream),
    /// The `Sample` impl of the parameter's type.
    Sample,
    /// Tensor of sampled numbers.
    Numbers {
        dims: Vec<Dim>,
        numbers: ElementDistribution,
        /// Annotated dtype. `None` stands for `i64` for classes, and for `f64` otherwise.
        dtype: Option<DType>,
    },
}

pub(crate) enum ElementDistribution {
    Normal,
    Uniform(TokenStream, TokenStream),
    Classes(TokenStream),
    Flags,
}

impl SelftestOption {
    /// Returns how to sample the arguments of `func`.
    ///
    /// Reports an error for each argument that cannot be sampled.
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
        let mut dims = MentionedDims {
            known: self.known_dims(&[func]),
            mentioned: Vec::new(),
        };
        let params = func.params.iter();
        let draws: Vec<Option<Draw>> = params
            .map(|param| self.draw(param, &mut dims, &mut wrong))
            .collect();
        let complete = wrong.is_empty();
        errors.append(wrong);
        let draws = draws.into_iter().collect::<Option<Vec<Draw>>>()?;
        complete.then(|| Sampling {
            mentioned: dims.mentioned,
            fixed: self.dims.iter().map(|(dim, n)| (unraw(dim), *n)).collect(),
            laws: LAWS
                .into_iter()
                .filter(|law| !self.skipped.iter().any(|skipped| skipped == law))
                .collect(),
            draws,
        })
    }

    fn draw(&self, param: &Param, dims: &mut MentionedDims, errors: &mut Errors) -> Option<Draw> {
        let name = unraw(&param.ident);
        let given = self.given(param);
        if let Some((_, DrawRule::Value(value))) = given {
            return Some(Draw::Value(dims.replace(value)));
        }
        if let (Some((ident, given)), true) = (given, param.kind != Kind::Tensor) {
            let option = given.option();
            errors.push(
                ident,
                format!("`{option}` is for a `Tensor`, and `{name}` is not one; write `value({name} = ..)`"),
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
            Some((ident, DrawRule::Classes(_))) if param.diff => {
                errors.push(
                    ident,
                    format!(
                        "classes are integers, which have no derivative; mark `{name}` `#[nodiff]`"
                    ),
                );
                return None;
            }
            Some((_, DrawRule::Classes(classes))) => {
                ElementDistribution::Classes(dims.replace(classes))
            }
            Some((_, DrawRule::Range(start, end))) => {
                ElementDistribution::Uniform(dims.replace(start), dims.replace(end))
            }
            _ => match dtype {
                Some(DType::Bool) => ElementDistribution::Flags,
                Some(DType::I32 | DType::I64) => {
                    errors.push(
                        &param.ident,
                        format!("`check` does not know which integers `{name}` holds; write `check(classes({name} = 10))` for those below 10"),
                    );
                    return None;
                }
                _ => ElementDistribution::Normal,
            },
        };
        let Some(shape) = param.aval.shape.dims() else {
            errors.push(
                &param.ident,
                format!("`check` does not know the shape of `{name}`; put `#[shape(..)]` on it, as in `#[shape(B, 3)]`"),
            );
            return None;
        };
        Some(Draw::Numbers {
            dims: shape.to_vec(),
            numbers,
            dtype,
        })
    }
}

/// Named dims that the user's expressions may mention.
///
/// Each mentioned dim becomes a hygienic variable, so a user's constant with the same name (`B`)
/// does not shadow it.
struct MentionedDims {
    known: Vec<String>,
    mentioned: Vec<(String, Ident)>,
}

impl MentionedDims {
    /// Replaces the names of dims by their variables.
    fn replace(&mut self, tokens: &TokenStream) -> TokenStream {
        // Punctuation before the current token: an identifier after `.` or `::` does not name a
        // dim.
        let mut marks = String::new();
        let tokens = tokens.clone().into_iter().map(|token| {
            if let TokenTree::Punct(mark) = &token {
                marks.push(mark.as_char());
                return token;
            }
            let before = std::mem::take(&mut marks);
            let is_part =
                before.ends_with("::") || (before.ends_with('.') && !before.ends_with(".."));
            match token {
                TokenTree::Ident(ident) if !is_part => self.variable(ident).into(),
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), self.replace(&group.stream()));
                    inner.set_span(group.span());
                    inner.into()
                }
                other => other,
            }
        });
        tokens.collect()
    }

    fn variable(&mut self, ident: Ident) -> Ident {
        let name = unraw(&ident);
        if !self.known.contains(&name) {
            return ident;
        }
        let variable = format_ident!("__dim_{name}", span = Span::mixed_site());
        if !self.mentioned.iter().any(|(known, _)| *known == name) {
            self.mentioned.push((name, variable.clone()));
        }
        variable
    }
}
