//! Lowers branches, loops, exits, and bodies with a scope of their own.

use crate::lower::expr::syntax::{HostAssignments, is_control};
use crate::lower::{Abort, Cx, Expected, LowerResult, Value};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::{Block, Expr, Stmt};

/// Use of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Use {
    /// The value is dropped.
    Unused,
    /// Other code reads the value.
    Value,
    /// The function returns the value.
    Returned,
}

impl Cx<'_> {
    /// Lowers an expression with branches, loops or exits.
    pub(in crate::lower) fn control(
        &mut self,
        expr: &Expr,
        want: &Expected,
        used: Use,
    ) -> LowerResult<Value> {
        match expr {
            Expr::If(e) => self.branches(used, |cx, join| cx.if_arms(e, want, used, join)),
            Expr::Match(e) => self.branches(used, |cx, join| cx.match_arms(e, want, used, join)),
            Expr::ForLoop(e) => self.for_loop(e, expr),
            Expr::While(e) => self.while_loop(e, expr),
            Expr::Loop(e) => self.endless_loop(e, expr, want, used),
            Expr::Block(b) => self.labelled_block(b, want, used),
            Expr::Return(e) => self.return_value(e.expr.as_deref(), expr),
            Expr::Break(e) => self.break_out(e),
            Expr::Continue(e) => {
                self.leave(quote!(#e;));
                Ok(Value::Never)
            }
            Expr::Macro(m) => {
                self.flush();
                let (reads, tokens) = self.emitted_macro(&m.mac)?;
                self.host.read(&reads);
                self.leave(quote!(#tokens;));
                Ok(Value::Never)
            }
            other => self.recorded("an expression that is not understood", other.span()),
        }
    }

    /// Emits host code that diverges.
    pub(in crate::lower) fn leave(&mut self, tokens: TokenStream) {
        self.flush();
        self.host.push_code(tokens);
        self.host.flow.left = true;
    }

    pub(in crate::lower) fn slots_for(&mut self, expr: &impl HostAssignments) -> LowerResult<()> {
        let assigned = expr.assigned();
        for name in &assigned {
            self.needs_slot(name)?;
        }
        self.flush_before(&assigned);
        Ok(())
    }

    /// Lowers a block as a body.
    pub(in crate::lower) fn block_as(
        &mut self,
        block: &Block,
        want: &Expected,
        used: Use,
    ) -> LowerResult<Value> {
        match (used, block.stmts.split_last()) {
            (Use::Returned, _) => {
                self.function_body(block)?;
                Ok(self.host.unit())
            }
            (Use::Value, Some((Stmt::Expr(tail, None), rest))) => {
                self.stmts(rest)?;
                self.top(tail, want)
            }
            _ => self.statements(block),
        }
    }

    /// Lowers an expression as a body: of an arm, or after `else`.
    pub(in crate::lower) fn body_as(
        &mut self,
        body: &Expr,
        want: &Expected,
        used: Use,
    ) -> LowerResult<Value> {
        match (body, used) {
            (Expr::Block(b), used) if b.label.is_none() => self.block_as(&b.block, want, used),
            (body, Use::Value) => self.top(body, want),
            (body, Use::Returned) => {
                self.tail(body)?;
                Ok(self.host.unit())
            }
            (body, Use::Unused) => {
                self.stmts(std::slice::from_ref(&Stmt::Expr(body.clone(), None)))?;
                Ok(self.host.unit())
            }
        }
    }

    /// Returns how much has been lowered: the numbers of nodes, and of equations and host
    /// statements in the open block.
    pub(in crate::lower) fn n_lowered(&self) -> (usize, usize, usize) {
        let nodes = self.host.flow.open.iter().map(Vec::len).sum();
        (nodes, self.builder.b.n_eqns(), self.builder.hosts.len())
    }

    /// Lowers the statements of a block whose value is not used.
    pub(in crate::lower) fn statements(&mut self, block: &Block) -> LowerResult<Value> {
        self.stmts(&block.stmts)?;
        Ok(self.host.unit())
    }

    /// Lowers an expression that is not an operand of another, and so may assign to locals.
    pub(in crate::lower) fn top(&mut self, expr: &Expr, want: &Expected) -> LowerResult<Value> {
        self.flush_old_values(expr);
        match expr {
            Expr::Paren(p) => self.top(&p.expr, want),
            Expr::Block(b) if b.label.is_none() && self.names.is_traced_control(expr) => {
                self.names.scopes.push(BTreeMap::new());
                let value = self.block_as(&b.block, want, Use::Value);
                self.names.scopes.pop();
                value
            }
            expr if is_control(expr)
                && (self.names.is_traced_control(expr) || matches!(expr, Expr::Macro(_))) =>
            {
                self.control(expr, want, Use::Value)
            }
            Expr::Binary(b)
                if matches!(b.op, syn::BinOp::And(_) | syn::BinOp::Or(_))
                    && self.names.mentions_traced(&b.right) =>
            {
                let before = self.clone();
                match self.eval(expr, want) {
                    Err(Abort::Recorded(_)) => {
                        *self = before;
                        self.lazy(expr, "if").map(Value::Host)
                    }
                    found => found,
                }
            }
            expr => self.eval_or_inline(expr, want),
        }
    }
}
