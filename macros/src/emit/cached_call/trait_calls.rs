//! Adds to a body the code that notes its calls of functions of traits.
//!
//! Only the instance of a generic function determines the impl that a call runs, so the recording
//! of the body decides whether this impl is traced.

use super::unmarked;
use crate::purity::TraitCall;
use proc_macro2::{Ident, TokenStream};
use std::collections::BTreeSet;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Stmt};

/// Adds a note before each of the calls.
pub(super) fn note_calls(block: &mut Block, noted: &[TraitCall], rt: &TokenStream) {
    if noted.is_empty() {
        return;
    }
    let mut visitor = CallVisitor { noted, rt };
    visitor.visit_block_mut(block);
    let marks: BTreeSet<&Ident> = noted.iter().flat_map(|call| &call.marks).collect();
    let unmarked = unmarked(marks, rt);
    // The traits are in scope in the inner block only.
    let stmts = &block.stmts;
    let body = quote::quote!({ #unmarked #(#stmts)* });
    block.stmts = vec![Stmt::Expr(Expr::Verbatim(body), None)];
}

struct CallVisitor<'a> {
    noted: &'a [TraitCall],
    rt: &'a TokenStream,
}

impl VisitMut for CallVisitor<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        let Some(at) = TraitCall::position(expr) else {
            return;
        };
        let Some(call) = self.noted.iter().find(|call| call.at == at) else {
            return;
        };
        let note = call.note(self.rt);
        // The temporaries of a tuple live as long as those of the call itself would.
        *expr = Expr::Verbatim(ours!((#note, #expr).1));
    }
}
