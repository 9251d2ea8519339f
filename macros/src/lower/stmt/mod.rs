//! Lowers statements.

pub(in crate::lower) mod assign;
pub(in crate::lower) mod bind;
pub(in crate::lower) mod pattern;
pub(in crate::lower) mod remat_hints;
pub(in crate::lower) mod returns;

use super::expr::inline::inline_at;
use super::expr::syntax::{exits, is_control, is_panic};
use super::flow::control::Use;
use super::state::block_builder::Unclear;
use super::{Abort, Content, Cx, Expected, Host, LowerResult, Place, Value, host};
use crate::input::text;
use crate::input::{Kind, classify, unraw};
use crate::report::Errors;
use bind::{want_of, want_of_type};
use gradloom_ir::Op;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::{Block, Expr, Pat, Stmt};

impl Cx<'_> {
    /// Lowers a block inside the body.
    ///
    /// Its locals go out of scope, but the emitted code has no nested block.
    pub(super) fn block(&mut self, block: &Block, want: &Expected) -> LowerResult<Value> {
        self.names.scopes.push(BTreeMap::new());
        let value = match block.stmts.split_last() {
            Some((Stmt::Expr(tail, None), rest)) => {
                self.stmts(rest).and_then(|()| self.eval(tail, want))
            }
            _ => self.recorded("a block without a value", block.span()),
        };
        self.names.scopes.pop();
        value
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> LowerResult<()> {
        for stmt in stmts {
            // Code after an exit is unreachable.
            if self.host.flow.left {
                break;
            }
            match self.stmt(stmt) {
                // Lowering continues after an error, so that all errors are reported at once.
                Ok(()) | Err(Abort::Error) => {}
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> LowerResult<()> {
        if self.choices.contains(&inline_at(stmt.span())) && !matches!(stmt, Stmt::Local(_)) {
            return self.inline_statement(stmt);
        }
        match (self.plain_stmt(stmt), stmt) {
            (Err(Abort::Recorded(_)), Stmt::Expr(..)) if self.may_inline_statement(stmt) => {
                Err(Abort::Again(inline_at(stmt.span())))
            }
            (done, _) => done,
        }
    }

    fn plain_stmt(&mut self, stmt: &Stmt) -> LowerResult<()> {
        if let Stmt::Expr(expr, _) = stmt {
            self.flush_old_values(expr);
        }
        match stmt {
            Stmt::Local(local) => self.local(local),
            Stmt::Item(item) => {
                self.builder.push_host(Vec::new(), item.to_token_stream());
                Ok(())
            }
            Stmt::Macro(m) if is_panic(&m.mac) => {
                let panic = Expr::Macro(syn::ExprMacro {
                    attrs: Vec::new(),
                    mac: m.mac.clone(),
                });
                self.control(&panic, &Expected::tensor(), Use::Unused)
                    .map(drop)
            }
            Stmt::Macro(m) => self.host_macro(&m.mac),
            Stmt::Expr(Expr::MethodCall(m), _) if self.changes_tree(m) => self.change(m),
            Stmt::Expr(e, _) if is_control(e) && self.names.is_traced_control(e) => {
                self.control(e, &Expected::tensor(), Use::Unused).map(drop)
            }
            Stmt::Expr(Expr::Macro(m), _) => self.host_macro(&m.mac),
            Stmt::Expr(Expr::Assign(a), _) => self.assignment(a),
            Stmt::Expr(Expr::Binary(b), _) if is_compound(&b.op) && self.names.is_host(&b.left) => {
                if let Some(host) = self.assigned_host(&b.left, &b.right)? {
                    let (left, op, right) = (self.rename(&b.left), &b.op, host.expr);
                    self.builder
                        .push_host(host.reads, quote!(#left #op #right;));
                }
                Ok(())
            }
            // A part of a local tree may be a number.
            Stmt::Expr(Expr::Binary(b), _)
                if is_compound(&b.op) && self.is_part_of_tree(&b.left) =>
            {
                self.recorded("an assignment to a part of a tree", b.left.span())
            }
            Stmt::Expr(Expr::Binary(b), _) if compound(&b.op).is_some() => {
                self.compound(b, compound(&b.op).expect("compound operator"))
            }
            Stmt::Expr(Expr::Block(b), _) if b.label.is_none() => {
                self.names.scopes.push(BTreeMap::new());
                let done = self.stmts(&b.block.stmts);
                self.names.scopes.pop();
                done
            }
            Stmt::Expr(e, _)
                if !self.names.mentions_traced(e) && !host::leaves_function(e) && !exits(e) =>
            {
                let e = self.rename(e);
                self.builder.push_host(Vec::new(), quote!(#e;));
                Ok(())
            }
            Stmt::Expr(e, _) => match self.eval(e, &Expected::tensor())? {
                // Host code may have side effects.
                Value::Host(host) if !self.names.keeps_its_value(&host.expr) => {
                    let expr = &host.expr;
                    self.builder.push_host(host.reads, quote!(#expr;));
                    Ok(())
                }
                // The value is not used: its equations are removed as dead, but its errors are
                // reported.
                _ => Ok(()),
            },
        }
    }

    fn assignment(&mut self, assign: &syn::ExprAssign) -> LowerResult<()> {
        let (left, right) = (&assign.left, &assign.right);
        if self.is_part_of_tree(left) && self.computes_parts(right) {
            return self.recorded("an assignment to a part of a tree", left.span());
        }
        let value = |cx: &mut Self| {
            cx.host.hint(left);
            let want = cx.names.want_of_target(left);
            let value = cx.top(right, &want);
            cx.host.flow.hint = None;
            value
        };
        self.assign(left, value, right, None)
    }

    /// Lowers `x += y`, for which `op` is `Add`.
    fn compound(&mut self, assign: &syn::ExprBinary, op: Op) -> LowerResult<()> {
        let value = |cx: &mut Self| {
            let left = cx.eval(&assign.left, &Expected::tensor())?;
            let right = cx.eval(&assign.right, &Expected::tensor())?;
            if let (Value::Host(left), Value::Host(right)) = (&left, &right) {
                return Ok(cx.operated(op, left, right));
            }
            let span = assign.op.span();
            if cx.is_own_operator(&[&left, &right], span) {
                if matches!(
                    &left,
                    Value::Place(Place { by_ref: true, .. }) | Value::Tensor { by_ref: true, .. }
                ) {
                    return cx.recorded("an assignment through a reference", span);
                }
                let op = &assign.op;
                let make = |parts: &[TokenStream]| {
                    let (left, right) = (&parts[0], &parts[1]);
                    ours!({ let mut value = #left; value #op (#right); value })
                };
                let operands = vec![(&*assign.left, left), (&*assign.right, right)];
                return cx.own_operator(operands, make, (text(assign), span));
            }
            cx.arithmetic(op, left, right, span)
        };
        self.assign(&assign.left, value, &assign.right, Some(&assign.op))
    }

    fn local(&mut self, local: &syn::Local) -> LowerResult<()> {
        let Some(init) = &local.init else {
            return self.uninit(local);
        };
        if let Some((_, other)) = &init.diverge {
            return self.let_else(local, &init.expr, other);
        }
        let (pat, ty) = match &local.pat {
            Pat::Type(t) => (&*t.pat, Some(&*t.ty)),
            other => (other, None),
        };
        for binding in super::stmt::pattern::take_bindings(&mut pat.clone()) {
            if binding.mutability.is_some() {
                self.names.mutable.insert(unraw(&binding.ident));
            }
        }
        let kind = ty
            .filter(|t| !matches!(t, syn::Type::Infer(_)))
            .map(|t| classify(t, &mut Errors::default()));
        let static_kind = matches!(kind, Some(Kind::Static { .. }));
        let want = match (pat, ty) {
            (Pat::Ident(_), Some(ty)) => want_of_type(ty),
            _ => Expected {
                ty: ty.cloned(),
                ..want_of(pat)
            },
        };
        let outer = self.host.reads_places;
        self.host.reads_places |= static_kind;
        if let Pat::Ident(p) = pat {
            self.host.flow.hint = Some(p.ident.clone());
        }
        let value = match &*init.expr {
            Expr::Closure(c) => self.closure(c),
            init => self.top(init, &want),
        };
        self.host.reads_places = outer;
        self.host.flow.hint = None;
        let value = match value {
            Ok(value) => value,
            Err(Abort::Error) => {
                self.names.poison(pat);
                return Err(Abort::Error);
            }
            Err(stop) => return Err(stop),
        };
        if static_kind {
            self.keep_number(&value)?;
        }
        if let (Value::Tensor { .. }, Some(Kind::Static { number: true })) = (&value, kind) {
            let ty = ty.map(text).unwrap_or_default();
            self.diagnostics.errors.push(
                &init.expr,
                format!("this is a tensor, not a `{ty}`; remove the type, or read a single value with `.item::<{ty}>()`"),
            );
            self.names.poison(pat);
            return Err(Abort::Error);
        }
        if let Some(ty) = ty {
            self.keep_type(&value, ty)?;
        }
        if let (Value::Tensor { var, .. }, Some(Kind::Tree)) = (&value, kind) {
            self.operator_on_trees(*var, &[Unclear::Result, Unclear::Part])?;
        }
        let value = match value {
            Value::Host(host) if self.is_tree_local(pat, ty, &init.expr) => self.made(host, ty)?,
            Value::Place(place) if static_kind => Value::Host(Host {
                reads: place.reads(),
                expr: place.expr,
                content: Content::Plain,
            }),
            Value::Host(host) if kind == Some(Kind::Tensor) => Value::Tensor {
                var: self.constant(&host, None)?,
                by_ref: false,
            },
            other => other,
        };
        self.remat_hint(local, &value);
        match value {
            Value::Host(host) => self.bind_host(
                pat,
                ty,
                &host,
                matches!(kind, Some(Kind::Static { number: true })),
            ),
            value => self.bind(pat, value),
        }
    }

    /// Lowers `let .. else` as a `match`.
    ///
    /// `let Some(x) = y else { .. }` becomes `let x = match y { Some(x) => x, _ => .. }`.
    fn let_else(&mut self, local: &syn::Local, value: &Expr, other: &Expr) -> LowerResult<()> {
        if matches!(local.pat, Pat::Type(_)) {
            return self.recorded("`let .. else`", local.span());
        }
        let mut pat = local.pat.clone();
        let bound = super::stmt::pattern::take_bindings(&mut pat);
        let names = bound.iter().map(|p| &p.ident);
        let names = match &*Vec::from_iter(names) {
            [one] => quote!(#one),
            names => quote!((#(#names),*)),
        };
        let mutable = match &*bound {
            [one] => quote!(#one),
            bound => quote!((#(#bound),*)),
        };
        let span = local.span();
        let statement: Stmt = syn::parse2(quote_spanned!(span=>
            let #mutable = match #value {
                #pat => #names,
                #[allow(unreachable_patterns)]
                _ => #other,
            };
        ))
        .expect("the parts are a pattern and expressions");
        self.stmt(&statement)
    }

    /// Declares a local without a value; its kind is known at the first assignment.
    fn uninit(&mut self, local: &syn::Local) -> LowerResult<()> {
        let pat = match &local.pat {
            Pat::Type(t) => &*t.pat,
            other => other,
        };
        let Pat::Ident(p) = pat else {
            return self.recorded("`let` without a value", local.span());
        };
        let id = self.declaration();
        let scope = self.names.scopes.last_mut().expect("there is a scope");
        scope.insert(unraw(&p.ident), Value::Uninit(id).into());
        Ok(())
    }
}

pub(super) fn is_path(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == name))
}

/// Returns whether an operator assigns.
pub(super) fn is_compound(op: &syn::BinOp) -> bool {
    use syn::BinOp::*;
    compound(op).is_some() || matches!(op, RemAssign(_))
}

fn compound(op: &syn::BinOp) -> Option<Op> {
    Some(match op {
        syn::BinOp::AddAssign(_) => Op::Add,
        syn::BinOp::SubAssign(_) => Op::Sub,
        syn::BinOp::MulAssign(_) => Op::Mul,
        syn::BinOp::DivAssign(_) => Op::Div,
        syn::BinOp::BitAndAssign(_) => Op::BitAnd,
        syn::BinOp::BitOrAssign(_) => Op::BitOr,
        syn::BinOp::BitXorAssign(_) => Op::BitXor,
        syn::BinOp::ShlAssign(_) => Op::ShiftLeft,
        syn::BinOp::ShrAssign(_) => Op::ShiftRight,
        _ => return None,
    })
}
