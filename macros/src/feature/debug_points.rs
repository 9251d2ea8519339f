//! Emits the table of a function's named values and their source positions.

use crate::emit::cx::EmitCx;
use crate::program::{Body, LoweredProgram};
use gradloom_ir::Var;
use proc_macro2::{Literal, TokenStream};
use quote::quote_spanned;
use std::collections::BTreeSet;

impl EmitCx<'_> {
    /// Returns the table of named values; `residuals` are the residuals.
    pub(crate) fn debug_points(&self, body: &Body, residuals: &[Var]) -> TokenStream {
        let residuals: BTreeSet<Var> = residuals.iter().copied().collect();
        let points = body
            .programs()
            .flat_map(|low| self.points_of(low, &residuals));
        let points: Vec<TokenStream> = points.collect();
        if points.is_empty() {
            return ours!(&[]);
        }
        // `file!` returns the file of its call site, so the call has the user's span.
        let file = quote_spanned!(self.func.sig.ident.span()=> ::core::file!());
        let rt = self.rt;
        ours!(&#rt::points(#file, [#(#points),*]))
    }

    fn points_of(&self, low: &LoweredProgram, residuals: &BTreeSet<Var>) -> Vec<TokenStream> {
        let outs = low.program.eqns.iter().flat_map(|e| &e.outs);
        let named = outs.filter_map(|v| Some((*v, low.program.names.get(*v)?)));
        let points = named.map(|(var, name)| {
            let ident = low.idents.get(name).map(|ident| ident.span());
            let span = ident.or_else(|| low.spans.get(var).copied());
            let at = span.unwrap_or_else(|| self.func.sig.ident.span()).start();
            let line = Literal::usize_unsuffixed(at.line);
            let column = Literal::usize_unsuffixed(at.column + 1);
            let saved = residuals.contains(&var);
            ours!((#name, #line, #column, #saved))
        });
        points.collect()
    }
}
