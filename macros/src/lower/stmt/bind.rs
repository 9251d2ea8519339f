//! Lowers patterns of `let`, which bind names to the parts of a value.
//!
//! The pattern also determines the structure that is expected of the value.

use crate::input::{OutShape, unraw};
use crate::lower::expr::by_ref;
use crate::lower::host::held::is_plain_type;
use crate::lower::stmt::pattern::Item;
use crate::lower::{Base, Content, Cx, Expected, Host, LowerResult, Place, Value};
use proc_macro2::Ident;
use quote::quote;
use std::collections::BTreeMap;
use syn::Pat;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;

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
            // `ref x`
            (Pat::Ident(p), value @ (Value::Tensor { .. } | Value::Place(_)))
                if p.subpat.is_none() && p.mutability.is_none() =>
            {
                let plain = Pat::Ident(syn::PatIdent {
                    by_ref: None,
                    ..p.clone()
                });
                let value = by_ref(value, true, |expr| expr);
                self.bind(&plain, value)
            }
            (Pat::Reference(p), value @ (Value::Tensor { .. } | Value::Place(_))) => {
                self.bind(&p.pat, by_ref(value, false, |expr| expr))
            }
            (
                Pat::Tuple(syn::PatTuple { elems, .. }) | Pat::Slice(syn::PatSlice { elems, .. }),
                Value::Tuple(values),
            ) if elems.len() == values.len()
                && !elems.iter().any(|p| matches!(p, Pat::Rest(_))) =>
            {
                elems.iter().zip(values).try_for_each(|(p, v)| match v {
                    Value::Host(host) => self.bind_host(p, None, &host, host.is_number()),
                    v => self.bind(p, v),
                })
            }
            (
                Pat::Struct(_) | Pat::TupleStruct(_) | Pat::Tuple(_) | Pat::Slice(_),
                value @ (Value::Place(_) | Value::Tensor { .. }),
            ) => match self.as_place(value) {
                Value::Place(place) => {
                    let place = self.kept(place)?;
                    self.bind_parts(pat, &place)
                }
                _ => self.recorded("a pattern", pat.span()),
            },
            (pat, _) => self.recorded("a pattern", pat.span()),
        }
    }

    /// Returns a tree of which references to parts stay valid if its local is assigned to.
    fn kept(&mut self, place: Place) -> LowerResult<Place> {
        let is_local = matches!(place.base, Base::Local(_));
        if !is_local || place.by_ref || self.slot_avals().is_empty() {
            return Ok(place);
        }
        // References to parts would be in the way of later assignments.
        self.recorded("a pattern of a local that changes", place.expr.span())
    }

    /// Binds the names of a pattern to parts of a tree, by reference: the parts are located by their
    /// addresses in the tree.
    fn bind_parts(&mut self, pat: &Pat, place: &Place) -> LowerResult<()> {
        let mut pat = pat.clone();
        let Some(borrowed) = take_modes(&mut pat) else {
            return self.recorded("a pattern", pat.span());
        };
        // The elements of a list of references are references.
        let by_ref = place.by_ref || place.root && self.is_list_of_references(place.base);
        let pat = self.bind_item(
            &pat,
            &Item::Place {
                base: place.base,
                owned: false,
            },
        )?;
        let tokens = self.whole(place);
        let is_moved = place.owned || !self.is_reference(place.base);
        self.builder
            .push_host(place.reads(), quote!(let #pat = #tokens;));
        let scope = self.names.scopes.last_mut().expect("there is a scope");
        for (name, local) in scope {
            if let Value::Place(part) = &mut local.value
                && let (Some(borrowed), false) = (borrowed.get(name), by_ref)
                && !borrowed
            {
                let expr = &part.expr;
                part.expr = syn::parse_quote_spanned!(expr.span()=> (*#expr));
                part.by_ref = false;
                part.owned = is_moved;
            }
        }
        Ok(())
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
        if self.names.is_key(&host.expr) {
            let keys = bound.iter().map(|(_, fresh)| unraw(fresh));
            self.names.host_keys.extend(keys);
        }
        let is_plain = ty.is_some_and(is_plain_type);
        if is_plain {
            let plain = bound.iter().map(|(_, fresh)| unraw(fresh));
            self.names.host_plain.extend(plain);
        }
        let written = ty.map(|t| quote!(: #t));
        let expr = &self.unborrowed(host);
        self.builder
            .push_host(host.reads.clone(), quote!(let #pat #written = #expr;));
        let content = match host.content {
            _ if number => Content::Number,
            _ if is_plain => Content::Plain,
            Content::Number if !matches!(pat, Pat::Ident(_)) => Content::Plain,
            content => content,
        };
        for (user, fresh) in bound {
            self.note_declared(&user, &fresh, &host.expr);
            let value = Value::Host(Host {
                expr: syn::parse_quote!(#fresh),
                reads: Vec::new(),
                content,
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

/// Removes `ref` from the bindings of a pattern.
///
/// Returns the names with whether they are bound by `ref`, or `None` if the pattern contains `&` or
/// `mut`.
fn take_modes(pat: &mut Pat) -> Option<BTreeMap<String, bool>> {
    #[derive(Default)]
    struct ModeTaker {
        modes: BTreeMap<String, bool>,
        is_other: bool,
    }
    impl VisitMut for ModeTaker {
        fn visit_pat_ident_mut(&mut self, p: &mut syn::PatIdent) {
            let borrowed = p.by_ref.take().is_some();
            self.is_other |= p.mutability.is_some();
            self.modes.insert(unraw(&p.ident), borrowed);
            syn::visit_mut::visit_pat_ident_mut(self, p);
        }
        fn visit_pat_reference_mut(&mut self, _: &mut syn::PatReference) {
            self.is_other = true;
        }
    }
    let mut taker = ModeTaker::default();
    taker.visit_pat_mut(pat);
    (!taker.is_other).then_some(taker.modes)
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
