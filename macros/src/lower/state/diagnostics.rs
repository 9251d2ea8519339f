//! Errors of the body, and the tokens that they point at.

use crate::lower::{Abort, LowerResult};
use crate::report::Errors;
use quote::ToTokens;
use syn::Expr;

/// Errors so far.
#[derive(Clone)]
pub(in crate::lower) struct Diagnostics<'a> {
    pub(in crate::lower) errors: Errors,
    /// The body as the user wrote it, for messages.
    pub(in crate::lower) source: &'a syn::Block,
}

impl<'a> Diagnostics<'a> {
    pub(in crate::lower) fn new(source: &'a syn::Block) -> Diagnostics<'a> {
        Diagnostics {
            errors: Errors::default(),
            source,
        }
    }

    /// Reports a condition on the values of a tensor.
    pub(in crate::lower) fn refuse_condition<T>(
        &mut self,
        cond: &Expr,
        keyword: &str,
    ) -> LowerResult<T> {
        self.errors.push(
            cond,
            format!("`{keyword}` on the values of a tensor cannot be traced, because they are not computed yet; choose between two tensors with `condition.select(&x, &y)`"),
        );
        Err(Abort::Error)
    }

    /// Reports an iteration over a tensor.
    pub(in crate::lower) fn refuse_iteration<T>(&mut self, at: &impl ToTokens) -> LowerResult<T> {
        self.errors.push(
            at,
            "a tensor cannot be iterated over; write `for row in x.rows()`, or take it apart with `.unbind::<N>(axis)`",
        );
        Err(Abort::Error)
    }
}
