//! Parses the shapes and dtypes that users annotate: `#[shape(f32; B, 784)]` on a parameter, and
//! `returns(B, 10)` for the result.

use super::dim::DimArg;
use super::split::check_distinct;
use super::{Func, OutShape, SplitArg, text};
use crate::report::Errors;
use gradloom_ir::{Aval, DType, Dim, Shape};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Ident, Token};

/// Parsed form of `f32; B, 784, _`: an optional dtype, then the dims.
///
/// `..` in place of the dims leaves the rank unknown. A dim may be followed by the mesh axes that split it.
#[derive(Clone, Debug)]
pub(crate) struct AvalArg {
    pub(crate) aval: Aval,
    /// For each dim, how it is split. Empty if no dim says so.
    pub(crate) splits: Vec<SplitArg>,
}

impl Parse for AvalArg {
    fn parse(input: ParseStream) -> syn::Result<AvalArg> {
        let dtype = match input.peek(Ident) && input.peek2(Token![;]) {
            true => Some(dtype(input)?),
            false => None,
        };
        if input.peek(Token![..]) {
            input.parse::<Token![..]>()?;
            return match input.is_empty() {
                true => Ok(AvalArg {
                    aval: Aval { dtype, shape: Shape::UNKNOWN },
                    splits: Vec::new(),
                }),
                false => Err(input.error(
                    "`..` stands for all dims, so it cannot have dims beside it; write `_` for one dim",
                )),
            };
        }
        let dims = Punctuated::<DimArg, Token![,]>::parse_terminated(input)?;
        let (dims, splits): (Vec<Dim>, Vec<_>) = dims.into_iter().map(|d| (d.0, d.1)).unzip();
        check_distinct(&splits)?;
        let splits = match splits.iter().any(Option::is_some) {
            true => splits.into_iter().map(Option::unwrap_or_default).collect(),
            false => Vec::new(),
        };
        let aval = Aval {
            dtype,
            shape: dims.into(),
        };
        Ok(AvalArg { aval, splits })
    }
}

fn dtype(input: ParseStream) -> syn::Result<DType> {
    let name: Ident = input.parse()?;
    input.parse::<Token![;]>()?;
    DType::from_name(&name.to_string()).ok_or_else(|| {
        let names: Vec<String> = DType::ALL.iter().map(|d| format!("`{d}`")).collect();
        let message = format!("`{name}` is not a dtype; write one of {}", names.join(", "));
        syn::Error::new(name.span(), message)
    })
}

/// Parsed argument of `returns(..)`.
#[derive(Clone, Debug)]
pub(crate) struct ReturnsOption {
    what: DeclaredShape,
    /// The annotation's tokens, for error spans.
    at: TokenStream,
}

#[derive(Clone, Debug)]
enum DeclaredShape {
    /// `_`: no annotation.
    Nothing,
    /// `B, 10`: one shape.
    One(AvalArg),
    /// `(B, 10), ()`: one annotation for each part of a tuple.
    Parts(Vec<ReturnsOption>),
}

impl ReturnsOption {
    /// Parses the tokens inside the parentheses.
    ///
    /// Errors point at `at` if the parentheses are empty.
    pub(crate) fn parse(tokens: TokenStream, at: TokenStream) -> syn::Result<ReturnsOption> {
        let at = if tokens.is_empty() {
            at
        } else {
            tokens.clone()
        };
        let items = items(&tokens);
        let is_group = |item: &Vec<TokenTree>| matches!(&**item, [TokenTree::Group(g)] if g.delimiter() == Delimiter::Parenthesis);
        if !items.iter().any(is_group) {
            let aval = AvalArg::parse.parse2(tokens)?;
            return Ok(ReturnsOption {
                what: DeclaredShape::One(aval),
                at,
            });
        }
        let parts = items.into_iter().map(|item| match &*item {
            [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
                ReturnsOption::parse(group.stream(), item.iter().cloned().collect())
            }
            [TokenTree::Ident(i)] if i == "_" => Ok(nothing()),
            _ => Err(syn::Error::new(
                item.first().map_or_else(proc_macro2::Span::call_site, TokenTree::span),
                "for a tuple, parenthesise the dims of each part or write `_`, as in `returns((B, 10), _)`",
            )),
        });
        Ok(ReturnsOption {
            what: DeclaredShape::Parts(parts.collect::<syn::Result<_>>()?),
            at,
        })
    }

    /// Appends the annotation of each tensor of a result with structure `shape` to `found`.
    ///
    /// Returns the tokens of the annotation that does not fit the structure as an error.
    fn declare_results(
        &self,
        shape: &OutShape,
        found: &mut Vec<DeclaredResult>,
    ) -> Result<(), &TokenStream> {
        match (&self.what, shape) {
            (DeclaredShape::Nothing, shape) => {
                let nothing = DeclaredResult {
                    aval: Aval::UNKNOWN,
                    splits: Vec::new(),
                    at: self.at.clone(),
                };
                found.extend(std::iter::repeat_n(nothing, shape.len()));
                Ok(())
            }
            (DeclaredShape::One(AvalArg { aval, splits }), OutShape::Tensor) => {
                found.push(DeclaredResult {
                    aval: aval.clone(),
                    splits: splits.clone(),
                    at: self.at.clone(),
                });
                Ok(())
            }
            // `returns((B, 10))`
            (DeclaredShape::Parts(parts), OutShape::Tensor) if parts.len() == 1 => {
                parts[0].declare_results(shape, found)
            }
            (DeclaredShape::Parts(parts), OutShape::Tuple(shapes))
                if parts.len() == shapes.len() =>
            {
                let mut pairs = parts.iter().zip(shapes);
                pairs.try_for_each(|(part, shape)| part.declare_results(shape, found))
            }
            // `returns(_, _)` is a shape of rank 2 if the result is one tensor; for a pair it
            // annotates neither part.
            (DeclaredShape::One(AvalArg { aval, splits }), OutShape::Tuple(shapes))
                if aval.dtype.is_none()
                    && splits.is_empty()
                    && aval.shape.dims().is_some_and(|dims| {
                        dims.len() == shapes.len() && dims.iter().all(|d| *d == Dim::Unknown)
                    }) =>
            {
                shapes.iter().try_for_each(|shape| {
                    nothing()
                        .declare_results(shape, found)
                        .map_err(|_| &self.at)
                })
            }
            _ => Err(&self.at),
        }
    }
}

/// Prints the tokens inside the parentheses, so that an error can point at them.
impl ToTokens for ReturnsOption {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.at.to_tokens(tokens);
    }
}

/// Annotation of one tensor of the result.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredResult {
    pub(crate) aval: Aval,
    /// For each dim, how it is split. Empty if no dim says so.
    pub(crate) splits: Vec<SplitArg>,
    /// The annotation's tokens, for error spans.
    pub(crate) at: TokenStream,
}

/// Stores the annotations of `returns(..)` in the function that they belong to.
pub(crate) fn declare(func: &mut Func, returns: Option<&ReturnsOption>, errors: &mut Errors) {
    let Some(returns) = returns else { return };
    let mut declared = Vec::new();
    match returns.declare_results(&func.output.shape, &mut declared) {
        Ok(()) => func.declared = declared,
        Err(at) => {
            let ty = text(&func.output.ty);
            let hint = match &func.output.shape {
                OutShape::Tensor => "write its dims, as in `returns(B, 10)`",
                OutShape::Tuple(_) => "write the dims of each part, as in `returns((B, 10), ())`",
                OutShape::Opaque => {
                    "the macro supports only tensors and tuples of them, so remove it"
                }
            };
            let message = format!("this does not fit the result, which is `{ty}`; {hint}");
            errors.push(at, message);
        }
    }
}

fn nothing() -> ReturnsOption {
    ReturnsOption {
        what: DeclaredShape::Nothing,
        at: TokenStream::new(),
    }
}

/// Splits tokens at the top-level commas.
fn items(tokens: &TokenStream) -> Vec<Vec<TokenTree>> {
    let mut items = vec![Vec::new()];
    for token in tokens.clone() {
        match &token {
            TokenTree::Punct(p) if p.as_char() == ',' => items.push(Vec::new()),
            _ => items
                .last_mut()
                .expect("the list is never empty")
                .push(token),
        }
    }
    // A trailing comma adds no item.
    if items.last().is_some_and(Vec::is_empty) {
        items.pop();
    }
    items
}
