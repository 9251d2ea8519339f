//! `order = 2`: selects the functions that get a second-order companion.

use super::{Func, OutShape, text};
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::LitInt;
use syn::meta::ParseNestedMeta;

/// Parsed value of `order = ..`.
#[derive(Clone, Debug)]
pub(crate) struct OrderOption {
    wants_hvp: bool,
    /// The option's tokens, for error spans.
    at: TokenStream,
}

impl OrderOption {
    /// Parses the text after `order`.
    pub(crate) fn parse(meta: &ParseNestedMeta) -> syn::Result<OrderOption> {
        let missing = "`order` takes a number, 1 or 2, as in `order = 2`";
        let value = meta.value().map_err(|_| meta.error(missing))?;
        let number: LitInt = value
            .parse()
            .map_err(|e| syn::Error::new(e.span(), missing))?;
        let wants_hvp = match number.base10_parse::<u64>() {
            Ok(1) => false,
            Ok(2) => true,
            _ => {
                let message = format!(
                    "`order` must be 1 or 2, found {number}; for higher orders use `gradloom::jvp` or \
                     `gradloom::grad` of a closure that calls a companion such as `f::grad`"
                );
                return Err(syn::Error::new(number.span(), message));
            }
        };
        let name = meta.path.to_token_stream();
        Ok(OrderOption {
            wants_hvp,
            at: quote::quote!(#name = #number),
        })
    }
}

/// Prints the option's tokens, so that an error can point at them.
impl ToTokens for OrderOption {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.at.to_tokens(tokens);
    }
}

/// Applies the option of a function, which must have a second derivative if the option requests it.
pub(crate) fn apply_to_function(func: &mut Func, order: Option<&OrderOption>, errors: &mut Errors) {
    apply_to_method(func, order);
    let has_none = func.has_derivative() && !func.wants_hvp;
    if let Some(order) = order.filter(|order| order.wants_hvp && has_none) {
        let (name, ty) = (&func.sig.ident, text(&func.output.ty));
        errors.push(
            order,
            format!(
                "a second derivative needs a single tensor as result, and `{name}` returns `{ty}`; return one `Tensor`, or \
                 remove `order = 2`"
            ),
        );
    }
}

/// Applies the option of an impl block to a method; only methods that return one tensor have a
/// second derivative.
pub(crate) fn apply_to_method(func: &mut Func, order: Option<&OrderOption>) {
    func.wants_hvp = func.output.shape == OutShape::Tensor
        && func.has_derivative()
        && order.is_some_and(|order| order.wants_hvp);
}

/// Reports an impl block that requests a second derivative and has no method with one.
pub(crate) fn check_block(funcs: &[Func], order: Option<&OrderOption>, errors: &mut Errors) {
    if let Some(order) = order.filter(|order| order.wants_hvp)
        && !funcs.is_empty()
        && !funcs.iter().any(|func| func.wants_hvp)
    {
        errors.push(
            order,
            "a second derivative needs a single tensor as result, and no method here returns one; remove `order = 2`",
        );
    }
}
