//! Analyses host expressions: what is known of them at compile time, and the names that they
//! mention.

pub(in crate::lower) mod held;
pub(in crate::lower) mod hoisted;
pub(in crate::lower) mod host_dims;
pub(in crate::lower) mod inputs;
pub(in crate::lower) mod items;

use super::{Cx, Value};
use crate::input::is_checkpoint;
use crate::input::unraw;
use gradloom_ir::{DType, MAX_RANK, Static};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeMap;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, Lit, UnOp};

/// Returns the value of a literal static argument.
pub(super) fn literal(expr: &Expr) -> Option<Static> {
    match expr {
        Expr::Paren(p) => literal(&p.expr),
        Expr::Group(g) => literal(&g.expr),
        Expr::Reference(r) => literal(&r.expr),
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(n) if n.suffix() == "f32" || n.suffix() == "f64" => {
                n.base10_digits().parse().ok().map(Static::Float)
            }
            Lit::Int(n) => n.base10_parse().ok().map(Static::Int),
            // A single-precision literal is rounded to `f32` first, as in the user's function.
            Lit::Float(x) if x.suffix() == "f32" => x
                .base10_parse::<f32>()
                .ok()
                .map(|x| Static::Float(x.into())),
            Lit::Float(x) => x.base10_parse().ok().map(Static::Float),
            Lit::Bool(b) => Some(Static::Bool(b.value)),
            _ => None,
        },
        Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => match literal(&u.expr)? {
            Static::Int(n) => n.checked_neg().map(Static::Int),
            Static::Float(x) => Some(Static::Float(-x)),
            _ => None,
        },
        Expr::Array(a) => ints(&a.elems),
        Expr::Range(r) if r.start.is_none() && r.end.is_none() => Some(Static::All),
        Expr::Path(p) if p.qself.is_none() => {
            let mut segments = p.path.segments.iter().rev().map(|s| s.ident.to_string());
            let (last, before) = (segments.next()?, segments.next()?);
            let dtype = DType::ALL.into_iter().find(|d| format!("{d:?}") == last)?;
            (before == "DType").then_some(Static::DType(dtype))
        }
        _ => None,
    }
}

/// Returns the axes or the shape of a literal that is a list, a tuple or a range.
pub(super) fn literal_static(expr: &Expr) -> Option<Static> {
    match expr {
        Expr::Paren(p) => literal_static(&p.expr),
        Expr::Tuple(t) => ints(&t.elems),
        Expr::Range(r) => match (r.start.as_deref(), r.end.as_deref(), r.limits) {
            (Some(start), Some(end), limits) => {
                let (start, end) = (literal(start)?.int()?, literal(end)?.int()?);
                let n = match limits {
                    syn::RangeLimits::HalfOpen(_) => start..end,
                    syn::RangeLimits::Closed(_) => start..end.checked_add(1)?,
                };
                // The run time limits longer ranges.
                (n.end.checked_sub(n.start)? <= MAX_RANK as i64).then(|| Static::Ints(n.collect()))
            }
            _ => literal(expr),
        },
        _ => literal(expr),
    }
}

fn ints<'e>(elems: impl IntoIterator<Item = &'e Expr>) -> Option<Static> {
    let ints = elems.into_iter().map(|e| match literal(e) {
        Some(Static::Int(n)) => Some(n),
        _ => None,
    });
    ints.collect::<Option<Vec<i64>>>().map(Static::Ints)
}

/// Calls `f` with each variable that an expression mentions. All names in macros count.
pub(super) fn names(expr: &Expr, f: &mut dyn FnMut(&Ident)) {
    struct HostNames<'a>(&'a mut dyn FnMut(&Ident));
    impl<'ast> Visit<'ast> for HostNames<'_> {
        fn visit_expr_path(&mut self, p: &'ast syn::ExprPath) {
            if let Some(ident) = p.path.get_ident() {
                (self.0)(ident);
            }
        }
        fn visit_macro(&mut self, m: &'ast syn::Macro) {
            in_tokens(m.tokens.clone(), self.0);
        }
    }
    HostNames(f).visit_expr(expr);
}

/// Calls `f` with each identifier in `tokens` that does not follow a dot.
pub(super) fn in_tokens(tokens: TokenStream, f: &mut dyn FnMut(&Ident)) {
    let mut dot = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if !dot => f(ident),
            TokenTree::Group(g) => in_tokens(g.stream(), f),
            // The literal may be a format string, which mentions variables in braces.
            TokenTree::Literal(l) => {
                let literal = l.to_string();
                for part in literal.split('{').skip(1) {
                    let name: String = part
                        .chars()
                        .take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect();
                    if let Ok(ident) = syn::parse_str::<Ident>(&name) {
                        f(&ident);
                    }
                }
            }
            _ => {}
        }
        dot = matches!(&token, TokenTree::Punct(p) if p.as_char() == '.');
    }
}

impl Cx<'_> {
    /// Returns a host expression with its variables renamed to their names in the emitted code.
    pub(super) fn rename(&self, expr: &Expr) -> Expr {
        struct LocalRenamer<'a, 'b>(&'a Cx<'b>);
        impl LocalRenamer<'_, '_> {
            fn renamed(&self, ident: &Ident) -> Option<Ident> {
                match self.0.names.lookup(&unraw(ident))? {
                    Value::Host(h) => match &h.expr {
                        Expr::Path(p) => p.path.get_ident().cloned(),
                        _ => None,
                    },
                    _ => None,
                }
            }
        }
        impl VisitMut for LocalRenamer<'_, '_> {
            fn visit_expr_path_mut(&mut self, p: &mut syn::ExprPath) {
                if let Some(new) = p.path.get_ident().and_then(|i| self.renamed(i)) {
                    p.path = new.into();
                }
            }
            fn visit_pat_ident_mut(&mut self, p: &mut syn::PatIdent) {
                // Locals of the expression that shadow a renamed variable are renamed with it.
                if let Some(new) = self.renamed(&p.ident) {
                    p.ident = new;
                }
            }
            // A loop without tensors has no residuals.
            fn visit_expr_for_loop_mut(&mut self, e: &mut syn::ExprForLoop) {
                e.attrs.retain(|a| !is_checkpoint(a));
                syn::visit_mut::visit_expr_for_loop_mut(self, e);
            }
            fn visit_expr_while_mut(&mut self, e: &mut syn::ExprWhile) {
                e.attrs.retain(|a| !is_checkpoint(a));
                syn::visit_mut::visit_expr_while_mut(self, e);
            }
            fn visit_expr_loop_mut(&mut self, e: &mut syn::ExprLoop) {
                e.attrs.retain(|a| !is_checkpoint(a));
                syn::visit_mut::visit_expr_loop_mut(self, e);
            }
            fn visit_field_value_mut(&mut self, f: &mut syn::FieldValue) {
                if f.colon_token.is_none() {
                    f.colon_token = Some(Default::default());
                }
                syn::visit_mut::visit_field_value_mut(self, f);
            }
            fn visit_macro_mut(&mut self, m: &mut syn::Macro) {
                let mut names = BTreeMap::new();
                in_tokens(m.tokens.clone(), &mut |ident| {
                    if let Some(new) = self.renamed(ident).filter(|new| new != ident) {
                        names.insert(unraw(ident), new.to_token_stream());
                    }
                });
                super::expr::macros::rename(m, &names);
            }
        }
        let mut expr = expr.clone();
        LocalRenamer(self).visit_expr_mut(&mut expr);
        expr
    }
}

/// Returns whether an expression contains `return` or `.await`, outside of closures and items.
pub(super) fn leaves_function(expr: &Expr) -> bool {
    struct Exits(bool);
    impl<'ast> Visit<'ast> for Exits {
        fn visit_expr_return(&mut self, _: &'ast syn::ExprReturn) {
            self.0 = true;
        }
        fn visit_expr_await(&mut self, _: &'ast syn::ExprAwait) {
            self.0 = true;
        }
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_item(&mut self, _: &'ast syn::Item) {}
    }
    let mut exits = Exits(false);
    exits.visit_expr(expr);
    exits.0
}
