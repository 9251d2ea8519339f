//! Host values that are read later than they stand: in an index, in a tuple.

use super::{Cx, Host, Place, Var, host};
use crate::parse::unraw;
use proc_macro2::{Ident, Span};
use quote::quote;
use syn::Expr;

impl Cx<'_> {
    /// A host value that can be read later, and more than once: it is bound here, unless it stays what it is.
    pub(super) fn fixed(&mut self, host: Host, name: &str) -> Host {
        if host.reads.is_empty() && self.is_fixed(&host.expr) {
            return host;
        }
        let expr = self.bound(&host.expr, &host.reads, name);
        Host {
            expr,
            reads: Vec::new(),
            number: host.number,
        }
    }

    /// Whether nothing that runs later changes the value of a host expression, and computing it changes nothing.
    pub(super) fn is_fixed(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Lit(_) => true,
            Expr::Path(p) => {
                let ident = p.path.get_ident();
                ident.is_none_or(|i| !self.host_mut.contains(&unraw(i)))
            }
            Expr::Paren(e) => self.is_fixed(&e.expr),
            Expr::Group(e) => self.is_fixed(&e.expr),
            Expr::Cast(e) => self.is_fixed(&e.expr),
            Expr::Unary(e) => self.is_fixed(&e.expr),
            Expr::Field(e) => self.is_fixed(&e.base),
            Expr::Reference(e) => e.mutability.is_none() && self.is_fixed(&e.expr),
            Expr::Binary(e) => {
                let assigns = super::stmt::is_compound(&e.op);
                !assigns && self.is_fixed(&e.left) && self.is_fixed(&e.right)
            }
            Expr::Tuple(e) => e.elems.iter().all(|e| self.is_fixed(e)),
            _ => false,
        }
    }

    /// An index that can be read later, and is computed once.
    pub(super) fn fixed_index(&mut self, index: Expr, reads: &[Var]) -> Expr {
        match index {
            // A range cannot be read twice, and its ends can.
            Expr::Range(mut range) => {
                for end in [&mut range.start, &mut range.end].into_iter().flatten() {
                    **end = self.fixed_index((**end).clone(), reads);
                }
                Expr::Range(range)
            }
            Expr::Paren(inner) => self.fixed_index(*inner.expr, reads),
            index if host::literal(&index).is_some() => index,
            Expr::Path(path) if self.is_fixed(&Expr::Path(path.clone())) => Expr::Path(path),
            index => self.bound(&index, reads, "index"),
        }
    }

    /// A place that stays where it is, whatever becomes of the locals in its indices.
    pub(super) fn fixed_place(&mut self, place: &Place) -> Place {
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
        self.push_host(reads.to_vec(), quote!(let #ident = #expr;));
        syn::parse_quote!(#ident)
    }
}
