//! Lowers patterns of `let`, which bind names to the parts of a value.
//!
//! The pattern also determines the structure that is expected of the value.

use crate::input::{OutShape, unraw};
use crate::lower::{Cx, Expected, Host, LowerResult, Place, Value};
use proc_macro2::{Ident, Span};
use quote::quote;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Pat, PatTuple, PatTupleStruct};

impl Cx<'_> {
    /// Binds the names of a pattern to the parts of a value.
    pub(in crate::lower) fn bind(&mut self, pat: &Pat, value: Value) -> LowerResult<()> {
        match (pat, value) {
            (Pat::Wild(_), _) => Ok(()),
            (Pat::Paren(p), value) => self.bind(&p.pat, value),
            (Pat::Type(t), value) => self.bind(&t.pat, value),
            (pat, Value::Poison) => {
                self.names.poison(pat);
                Ok(())
            }
            (Pat::Ident(p), value) if p.subpat.is_none() && p.by_ref.is_none() => {
                if let Value::Tensor { var, .. } = value {
                    self.name(var, &p.ident);
                }
                let mut value = self.hoisted_value(value, &unraw(&p.ident));
                if p.mutability.is_some() {
                    self.mutable_parts(&p.ident, &mut value);
                }
                let scope = self.names.scopes.last_mut().expect("there is a scope");
                scope.insert(unraw(&p.ident), value.into());
                Ok(())
            }
            (
                Pat::Tuple(syn::PatTuple { elems, .. }) | Pat::Slice(syn::PatSlice { elems, .. }),
                Value::Tuple(values),
            ) if elems.len() == values.len()
                && !elems.iter().any(|p| matches!(p, Pat::Rest(_))) =>
            {
                elems.iter().zip(values).try_for_each(|(p, v)| match v {
                    Value::Host(host) => self.bind_host(p, None, &host, host.number),
                    v => self.bind(p, v),
                })
            }
            (Pat::Struct(s), value @ (Value::Place(_) | Value::Tensor { .. })) => {
                let place = self.whole(value, s.span())?;
                s.fields
                    .iter()
                    .try_for_each(|f| self.bind_part(&f.pat, &place, &f.member))
            }
            (
                Pat::TupleStruct(PatTupleStruct { elems, .. }) | Pat::Tuple(PatTuple { elems, .. }),
                value @ (Value::Place(_) | Value::Tensor { .. }),
            ) if !elems.iter().any(|p| matches!(p, Pat::Rest(_))) => {
                let place = self.whole(value, pat.span())?;
                let mut elems = elems.iter().enumerate();
                elems.try_for_each(|(i, p)| {
                    self.bind_part(p, &place, &syn::Member::Unnamed(i.into()))
                })
            }
            (pat, _) => self.recorded("a pattern", pat.span()),
        }
    }

    /// Returns a value that a pattern takes apart as a tree.
    fn whole(&mut self, value: Value, span: Span) -> LowerResult<Place> {
        match self.as_place(value) {
            Value::Place(place) => Ok(place),
            _ => self.recorded("a pattern", span),
        }
    }

    /// Binds a part of a tree.
    fn bind_part(&mut self, pat: &Pat, tree: &Place, member: &syn::Member) -> LowerResult<()> {
        let mut part = self.field(tree, member);
        // A pattern matched against a reference binds references.
        if let Value::Place(part) = &mut part {
            part.by_ref = tree.by_ref;
        }
        self.bind(pat, part)
    }

    /// Emits a `let` of host values under names that are unique in the emitted code.
    pub(in crate::lower) fn bind_host(
        &mut self,
        pat: &Pat,
        ty: Option<&syn::Type>,
        host: &Host,
        number: bool,
    ) -> LowerResult<()> {
        struct BindingRenamer<'a, 'b> {
            cx: &'a mut Cx<'b>,
            bound: Vec<(Ident, Ident)>,
        }
        impl VisitMut for BindingRenamer<'_, '_> {
            fn visit_pat_ident_mut(&mut self, p: &mut syn::PatIdent) {
                let fresh = self.cx.host_ident(&p.ident);
                if p.mutability.is_some() {
                    self.cx.names.host_mut.insert(unraw(&fresh));
                }
                self.bound.push((p.ident.clone(), fresh.clone()));
                p.ident = fresh;
            }
        }
        let mut pat = pat.clone();
        let mut fresh = BindingRenamer {
            cx: self,
            bound: Vec::new(),
        };
        fresh.visit_pat_mut(&mut pat);
        let bound = fresh.bound;
        self.note_dims(&pat, &host.expr, &host.reads);
        let ty = ty.map(|t| quote!(: #t));
        let expr = &self.unborrowed(host);
        self.builder
            .push_host(host.reads.clone(), quote!(let #pat #ty = #expr;));
        let number = number || (host.number && matches!(pat, Pat::Ident(_)));
        for (user, fresh) in bound {
            self.note_declared(&user, &fresh);
            let value = Value::Host(Host {
                expr: syn::parse_quote!(#fresh),
                reads: Vec::new(),
                number,
            });
            self.names
                .scopes
                .last_mut()
                .expect("there is a scope")
                .insert(unraw(&user), value.into());
        }
        Ok(())
    }
}

/// Returns what a pattern expects of the value that it is bound to.
pub(in crate::lower) fn want_of(pat: &Pat) -> Expected {
    fn shape(pat: &Pat) -> OutShape {
        match pat {
            Pat::Tuple(t) => OutShape::Tuple(t.elems.iter().map(shape).collect()),
            Pat::Paren(p) => shape(&p.pat),
            Pat::Type(t) => shape(&t.pat),
            _ => OutShape::Tensor,
        }
    }
    let count = match pat {
        Pat::Slice(s) => Some(s.elems.len()),
        _ => None,
    };
    Expected {
        shape: shape(pat),
        count,
        ty: None,
    }
}

/// Returns the length of an array type, if it is a literal.
fn array_length(ty: &syn::Type) -> Option<usize> {
    let syn::Type::Array(array) = ty else {
        return None;
    };
    let length = crate::lower::host::literal(&array.len)?.int()?;
    usize::try_from(length).ok()
}

/// Returns what a type annotation of a local expects of its value.
pub(in crate::lower) fn want_of_type(ty: &syn::Type) -> Expected {
    fn shape(ty: &syn::Type) -> OutShape {
        match ty {
            syn::Type::Tuple(t) => OutShape::Tuple(t.elems.iter().map(shape).collect()),
            syn::Type::Paren(t) => shape(&t.elem),
            _ => OutShape::Tensor,
        }
    }
    Expected {
        shape: shape(ty),
        count: array_length(ty),
        ty: Some(ty.clone()),
    }
}
