//! Lowers `break`, `return`, and the end of the function.

use super::control::Use;
use crate::lower::expr::syntax::is_control;
use crate::lower::{Abort, Cx, Expected, LowerResult, Value};
use crate::program::{HostCode, Store};
use gradloom_ir::Aval;
use gradloom_ir::flow::Node;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Block, Expr, Stmt};

impl Cx<'_> {
    pub(in crate::lower) fn break_out(&mut self, e: &syn::ExprBreak) -> LowerResult<Value> {
        let Some(enclosing) = self.host.broken_by(e) else {
            return self.recorded("`break`", e.span());
        };
        let want = enclosing.want.clone();
        let value = match &e.expr {
            Some(expr) => Some(self.top(expr, &want)?),
            None => None,
        };
        if self.host.flow.left {
            return Ok(Value::Never);
        }
        let enclosing = self
            .host
            .broken_by(e)
            .expect("the loop or block has just been found");
        enclosing.broken = true;
        let mut join = enclosing.join.take();
        if let (Some(join), Some(value)) = (&mut join, value) {
            self.give(join, value)?;
        }
        let enclosing = self.host.broken_by(e);
        enclosing
            .expect("the loop or block has just been found")
            .join = join;
        let (keyword, label) = (&e.break_token, &e.label);
        self.leave(quote!(#keyword #label;));
        Ok(Value::Never)
    }

    /// Lowers `return`, and the end of the body.
    pub(in crate::lower) fn return_value(
        &mut self,
        value: Option<&Expr>,
        at: &Expr,
    ) -> LowerResult<Value> {
        let Some(value) = value else {
            return self.recorded("`return` without a value", at.span());
        };
        self.flush_old_values(value);
        let shape = self.func.output.shape.clone();
        let want = Expected {
            shape: shape.clone(),
            count: None,
            ty: Some(self.func.output.ty.clone()),
        };
        let written = value;
        let value = match &self.func.output.result {
            None => self.top(value, &want)?,
            Some(_) => match value {
                Expr::Call(call)
                    if crate::lower::stmt::is_path(&call.func, "Ok") && call.args.len() == 1 =>
                {
                    self.top(&call.args[0], &want)?
                }
                Expr::Call(call)
                    if crate::lower::stmt::is_path(&call.func, "Err")
                        && !self.names.mentions_traced(value) =>
                {
                    let value = self.rename(value);
                    self.flush();
                    self.host
                        .push_node(Node::Host(HostCode::Fail(quote!(return #value;))));
                    self.host.flow.left = true;
                    return Ok(Value::Never);
                }
                Expr::If(_) | Expr::Match(_) => {
                    return self.control(value, &want, Use::Returned);
                }
                Expr::Call(_) | Expr::MethodCall(_) => self.eval_fallible(value, &want)?,
                other => return self.recorded("a `Result` that is not `Ok(..)`", other.span()),
            },
        };
        if self.host.flow.left {
            return Ok(Value::Never);
        }
        let mut outs = Vec::new();
        self.outs(value, &shape, &mut outs)?;
        self.check_returns(&outs, Some(written));
        while let Some(out) = outs.get(self.host.flow.results.len()) {
            let result = self.builder.b.param(Aval::UNKNOWN);
            self.builder.kinds.copy(*out, result);
            self.host.flow.results.push(result);
        }
        let results = self.host.flow.results.clone();
        for (result, out) in results.iter().zip(&outs) {
            self.store(*result, *out, Store::Result);
        }
        self.flush();
        self.host.push_node(Node::Return(outs));
        self.host.flow.left = true;
        Ok(Value::Never)
    }

    /// Lowers the body of the function, which returns its last expression.
    pub(in crate::lower) fn function_body(&mut self, block: &Block) -> LowerResult<()> {
        let Some((last, rest)) = block.stmts.split_last() else {
            return Err(Abort::Recorded("its body is empty".to_owned()));
        };
        self.stmts(rest)?;
        match last {
            Stmt::Expr(tail, None) => self.tail(tail),
            other => self.stmts(std::slice::from_ref(other)),
        }
    }

    /// Lowers the last expression of the function. Each of its branches returns.
    pub(in crate::lower) fn tail(&mut self, tail: &Expr) -> LowerResult<()> {
        if self.host.flow.left {
            return Ok(());
        }
        self.flush_old_values(tail);
        match tail {
            Expr::Paren(p) => self.tail(&p.expr),
            Expr::Return(_) | Expr::If(_) | Expr::Match(_) => self
                .control(tail, &Expected::tensor(), Use::Returned)
                .map(drop),
            tail if is_control(tail) && self.func.output.result.is_some() => {
                self.control(tail, &Expected::tensor(), Use::Unused)?;
                match self.host.flow.left {
                    true => Ok(()),
                    false => self.recorded("a `Result` that is the value of a loop", tail.span()),
                }
            }
            tail => self.return_value(Some(tail), tail).map(drop),
        }
    }
}
