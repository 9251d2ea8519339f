//! Binds host values that are read after their evaluation: in an index, or in a tuple.

use crate::input::unraw;
use crate::lower::{Cx, Host, Place, Value, Var, host};
use proc_macro2::{Ident, Span};
use quote::quote;
use std::collections::BTreeSet;
use syn::Expr;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;

impl Cx<'_> {
    /// Returns a host value that can be read later and more than once.
    ///
    /// It is bound to a local here, unless the expression keeps its value.
    pub(in crate::lower) fn hoisted(&mut self, host: Host, name: &str) -> Host {
        if host.reads.is_empty() && self.names.keeps_its_value(&host.expr) {
            return host;
        }
        let expr = self.bound(&host.expr, &host.reads, name);
        Host {
            expr,
            reads: Vec::new(),
            content: host.content,
        }
    }

    /// Returns a value that can be read later; see [`Cx::hoisted`].
    pub(in crate::lower) fn hoisted_value(&mut self, value: Value, name: &str) -> Value {
        match value {
            Value::Host(host) => Value::Host(self.hoisted(host, name)),
            Value::Place(place) => Value::Place(self.hoisted_place(&place)),
            Value::Tuple(values) => {
                let values = values.into_iter().map(|v| self.hoisted_value(v, name));
                Value::Tuple(values.collect())
            }
            value => value,
        }
    }

    /// Binds the host values in a tuple to mutable locals.
    pub(in crate::lower) fn mutable_parts(&mut self, name: &Ident, value: &mut Value) {
        let Value::Tuple(parts) = value else { return };
        for part in parts {
            match part {
                Value::Host(host) => {
                    let (local, expr) = (self.host_slot(name), &host.expr);
                    self.builder
                        .push_host(Vec::new(), quote!(let mut #local = #expr;));
                    host.expr = syn::parse_quote!(#local);
                }
                part => self.mutable_parts(name, part),
            }
        }
    }

    /// Returns a host expression that does not borrow from a slot, because slots change.
    ///
    /// For example, `h.shape()` becomes the shape of a copy of `h`.
    pub(in crate::lower) fn unborrowed(&mut self, host: &Host) -> Expr {
        let mut expr = host.expr.clone();
        if !borrows(&expr) {
            return expr;
        }
        for (slot, _) in self.slot_avals() {
            if host.reads.contains(&slot) {
                let local = self.ident(slot);
                let copy = self.host_ident(&Ident::new("part", Span::mixed_site()));
                let bind = quote!(let #copy = ::core::clone::Clone::clone(&#local););
                self.builder.push_host(vec![slot], bind);
                expr = renamed(expr, &local, &copy);
            }
        }
        expr
    }

    /// Returns the value of an operand, bound to a local if later operands may change it.
    ///
    /// `after` are these operands; only host code in them can change the value.
    pub(in crate::lower) fn fixed_before<'e>(
        &mut self,
        value: Value,
        after: impl Iterator<Item = &'e Expr>,
    ) -> Value {
        let Value::Host(host) = value else {
            return value;
        };
        let mut read = BTreeSet::new();
        super::names(&host.expr, &mut |ident| {
            read.insert(unraw(ident));
        });
        read.retain(|name| self.names.host_mut.contains(name));
        if read.is_empty() {
            return Value::Host(host);
        }
        let changes =
            |expr: &Expr| self.names.mentions_traced(expr) && may_change(&self.rename(expr), &read);
        match Vec::from_iter(after).into_iter().any(changes) {
            true => Value::Host(self.hoisted(host, "value")),
            false => Value::Host(host),
        }
    }

    /// Returns an index that is evaluated once and can be read later.
    pub(in crate::lower) fn fixed_index(&mut self, index: Expr, reads: &[Var]) -> Expr {
        match index {
            // A range is consumed when read; its ends can be read again.
            Expr::Range(mut range) => {
                for end in [&mut range.start, &mut range.end].into_iter().flatten() {
                    **end = self.fixed_index((**end).clone(), reads);
                }
                Expr::Range(range)
            }
            Expr::Paren(inner) => self.fixed_index(*inner.expr, reads),
            index if host::literal(&index).is_some() => index,
            Expr::Path(path) if self.names.keeps_its_value(&Expr::Path(path.clone())) => {
                Expr::Path(path)
            }
            index => self.bound(&index, reads, "index"),
        }
    }

    /// Returns a place that later changes to the locals in its indices do not affect.
    pub(in crate::lower) fn hoisted_place(&mut self, place: &Place) -> Place {
        Place {
            expr: self.fixed_path(place.expr.clone()),
            ..place.clone()
        }
    }

    fn fixed_path(&mut self, expr: Expr) -> Expr {
        match expr {
            Expr::Field(mut e) => {
                *e.base = self.fixed_path(*e.base);
                Expr::Field(e)
            }
            Expr::Paren(mut e) => {
                *e.expr = self.fixed_path(*e.expr);
                Expr::Paren(e)
            }
            Expr::Unary(mut e) => {
                *e.expr = self.fixed_path(*e.expr);
                Expr::Unary(e)
            }
            // A local that may be assigned another reference.
            Expr::Path(e) if !self.names.keeps_its_value(&Expr::Path(e.clone())) => {
                self.bound(&Expr::Path(e), &[], "part")
            }
            Expr::Index(mut e) => {
                *e.expr = self.fixed_path(*e.expr);
                *e.index = self.fixed_index(*e.index, &[]);
                Expr::Index(e)
            }
            other => other,
        }
    }

    fn bound(&mut self, expr: &Expr, reads: &[Var], name: &str) -> Expr {
        let ident = self.host_ident(&Ident::new(name, Span::mixed_site()));
        self.note_dims(&syn::parse_quote!(#ident), expr, reads);
        self.builder
            .push_host(reads.to_vec(), quote!(let #ident = #expr;));
        syn::parse_quote!(#ident)
    }
}

/// Returns whether an expression may change one of `locals`.
///
/// It may if it calls a method of the local, borrows it mutably, assigns to it, or mentions it in a
/// macro.
fn may_change(expr: &Expr, locals: &BTreeSet<String>) -> bool {
    struct ChangeFinder<'a> {
        locals: &'a BTreeSet<String>,
        found: bool,
    }
    impl ChangeFinder<'_> {
        fn note_change_of(&mut self, expr: &Expr) {
            match expr {
                Expr::Path(p) => {
                    let ident = p.path.get_ident();
                    self.found |= ident.is_some_and(|i| self.locals.contains(&unraw(i)));
                }
                Expr::Paren(e) => self.note_change_of(&e.expr),
                Expr::Field(e) => self.note_change_of(&e.base),
                Expr::Index(e) => self.note_change_of(&e.expr),
                _ => {}
            }
        }
    }
    impl<'ast> Visit<'ast> for ChangeFinder<'_> {
        fn visit_expr(&mut self, expr: &'ast Expr) {
            match expr {
                Expr::MethodCall(e) => self.note_change_of(&e.receiver),
                Expr::Reference(e) if e.mutability.is_some() => self.note_change_of(&e.expr),
                Expr::Assign(e) => self.note_change_of(&e.left),
                Expr::Binary(e) if crate::lower::stmt::is_compound(&e.op) => {
                    self.note_change_of(&e.left)
                }
                _ => {}
            }
            syn::visit::visit_expr(self, expr);
        }
        fn visit_macro(&mut self, m: &'ast syn::Macro) {
            host::in_tokens(m.tokens.clone(), &mut |ident| {
                self.found |= self.locals.contains(&unraw(ident));
            });
        }
    }
    let mut changes = ChangeFinder {
        locals,
        found: false,
    };
    changes.visit_expr(expr);
    changes.found
}

/// Returns whether an expression reads the shape of a tensor by reference.
fn borrows(expr: &Expr) -> bool {
    struct BorrowFinder(bool);
    impl<'ast> Visit<'ast> for BorrowFinder {
        fn visit_expr_method_call(&mut self, e: &'ast syn::ExprMethodCall) {
            self.0 |= ["aval", "shape", "batch_shape", "physical_shape"]
                .iter()
                .any(|name| e.method == name);
            syn::visit::visit_expr_method_call(self, e);
        }
    }
    let mut found = BorrowFinder(false);
    found.visit_expr(expr);
    found.0
}

/// Returns an expression with the local `from` renamed to `to`.
pub(in crate::lower) fn renamed(mut expr: Expr, from: &Ident, to: &Ident) -> Expr {
    struct LocalRenamer<'a>(&'a Ident, &'a Ident);
    impl VisitMut for LocalRenamer<'_> {
        fn visit_expr_path_mut(&mut self, p: &mut syn::ExprPath) {
            if p.path.is_ident(self.0) {
                p.path = self.1.clone().into();
            }
        }
    }
    LocalRenamer(from, to).visit_expr_mut(&mut expr);
    expr
}
