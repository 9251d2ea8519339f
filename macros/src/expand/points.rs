//! The named values of a function, with where they are named.

use super::companions::Cx;
use crate::lower::{Body, Lowered};
use gradloom_ir::Var;
use proc_macro2::TokenStream;
use quote::quote_spanned;

impl Cx<'_> {
    /// The entries of the table of named values; `kept` are the residuals.
    pub(super) fn points(&self, body: &Body, kept: &[Var]) -> Vec<TokenStream> {
        let programs: Vec<&Lowered> = match body {
            Body::Straight(low) => vec![&**low],
            Body::Flow(flowing) => flowing.pieces.iter().map(|piece| &piece.low).collect(),
            Body::Recorded(_) => Vec::new(),
        };
        let points = programs.into_iter().map(|low| self.points_of(low, kept));
        points.flatten().collect()
    }

    fn points_of(&self, low: &Lowered, kept: &[Var]) -> Vec<TokenStream> {
        let p = self.p;
        let outs = low.program.eqns.iter().flat_map(|e| &e.outs);
        let named = outs.filter_map(|v| Some((*v, low.program.names.get(*v)?)));
        let points = named.map(|(var, name)| {
            let ident = low.idents.get(name).map(|ident| ident.span());
            let span = ident.or_else(|| low.spans.get(var).copied());
            // The macros of `core` say where the tokens stand that call them, so these have the span of the name.
            let at = span.unwrap_or_else(|| self.func.sig.ident.span());
            let place = quote_spanned! {at=>
                file: ::core::file!(), line: ::core::line!(), column: ::core::column!()
            };
            let saved = kept.contains(&var);
            ours!(#p::Point { name: #name, #place, saved: #saved })
        });
        points.collect()
    }
}
