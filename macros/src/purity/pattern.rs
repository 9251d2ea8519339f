//! Binds the names in patterns to types.

use super::ty::{Fidelity, Probe, Ty, Val, written};
use super::{Asked, PurityVisitor, Remedy};
use crate::input::generic::without_lifetimes;
use crate::input::{text, unraw};
use crate::method_table::class;
use proc_macro2::{Ident, Span, TokenStream};
use syn::visit::Visit;
use syn::{Pat, PatTuple};

impl PurityVisitor<'_> {
    /// Binds the names of a pattern to parts of a value.
    pub(super) fn pattern(&mut self, pat: &Pat, val: &Val) {
        match pat {
            Pat::Ident(ident) => {
                let name = unraw(&ident.ident);
                if let Some((_, inner)) = &ident.subpat {
                    self.pattern(inner, val);
                }
                // Upper-case names are constants or variants.
                if !name.starts_with(char::is_uppercase) {
                    self.bind(name, val.clone());
                }
            }
            Pat::Paren(p) => self.pattern(&p.pat, val),
            Pat::Reference(r) => self.pattern(&r.pat, &behind(val)),
            Pat::Type(t) => {
                let (mut val, written) = (val.clone(), self.of_type(&t.ty));
                // Items that are collected may become a map.
                match (&val.ty, &written.ty) {
                    (Ty::List(_), Ty::Map(..) | Ty::Opaque) if written.probe.is_some() => {
                        val = written;
                    }
                    _ => {
                        val.unify(&written);
                        // The elements may be converted, as to trait objects.
                        val.probe = written.probe.or(val.probe);
                    }
                }
                if matches!(&*t.ty, syn::Type::Reference(_)) {
                    borrow_parts(&mut val);
                }
                self.pattern(&t.pat, &val);
            }
            Pat::Tuple(_) if matches!(val.ty, Ty::Opaque) && val.exact().is_some() => {
                self.taken(pat, val)
            }
            Pat::Tuple(t) => {
                self.tuple(t, val);
                if matches!(val.ty, Ty::Tuple(_)) {
                    self.sharpen(pat, val);
                }
            }
            Pat::TupleStruct(t) => {
                let last = t.path.segments.last().map(|s| unraw(&s.ident));
                let last = last.unwrap_or_default();
                match (&*last, t.elems.first()) {
                    ("Some" | "Ok", Some(inner))
                        if val.exact().is_none() || !matches!(val.ty, Ty::Opaque) =>
                    {
                        let held = self.held(val);
                        self.pattern(inner, &held);
                        if matches!(val.ty, Ty::Option(_)) {
                            self.sharpen(pat, val);
                        }
                    }
                    _ => self.taken(pat, val),
                }
            }
            Pat::Slice(_) if matches!(val.ty, Ty::Opaque) && val.exact().is_some() => {
                self.taken(pat, val)
            }
            Pat::Slice(s) => {
                let elem = self.held(val);
                for pat in &s.elems {
                    match pat {
                        Pat::Ident(rest) if rest.subpat.is_some() => {
                            self.bind(unraw(&rest.ident), Val::list(elem.clone()));
                        }
                        pat => self.pattern(pat, &elem),
                    }
                }
            }
            Pat::Guard(guarded) => {
                self.pattern(&guarded.pat, val);
                self.expr(&guarded.guard);
            }
            Pat::Or(or) => or.cases.iter().for_each(|pat| self.pattern(pat, val)),
            Pat::Struct(_) => self.taken(pat, val),
            Pat::Wild(_)
            | Pat::Rest(_)
            | Pat::Lit(_)
            | Pat::Range(_)
            | Pat::Path(_)
            | Pat::Const(_) => {}
            other => {
                let span = syn::spanned::Spanned::span(other);
                self.found("a pattern", span, "it is not known", Remedy::Promise);
            }
        }
    }

    /// Returns a value of a type written in the body.
    pub(super) fn of_type(&mut self, ty: &syn::Type) -> Val {
        let val = Val::from(written(ty));
        let text = text(ty);
        let whole = !text.contains("impl ") && !text.contains('_') && !self.is_hidden(ty);
        if !whole {
            return val;
        }
        if matches!(val.ty, Ty::Opaque) {
            let text = text.trim_start_matches('&').trim();
            self.written.insert(text.to_owned());
        }
        let (rt, ty) = (self.rt, without_lifetimes(ty));
        val.with(Probe::exact(ours!(#rt::some::<#ty>())))
    }

    fn tuple(&mut self, t: &PatTuple, val: &Val) {
        let rest = t.elems.iter().position(|pat| matches!(pat, Pat::Rest(_)));
        for (i, pat) in t.elems.iter().enumerate() {
            let from_end = t.elems.len() - 1 - i;
            let after_rest = rest.is_some_and(|rest| i > rest);
            let part = match &val.ty {
                Ty::Tuple(parts) if after_rest => parts
                    .len()
                    .checked_sub(from_end + 1)
                    .map(|i| parts[i].clone()),
                Ty::Tuple(parts) => parts.get(i).cloned(),
                _ if after_rest => None,
                Ty::Tensor | Ty::Scalar | Ty::Key => None,
                _ => val.firm().map(|e| {
                    let index = syn::Index::from(i);
                    behind(&Val::unknown().with(Probe::exact(ours!((#e).#index))))
                }),
            };
            self.pattern(pat, &part.unwrap_or_else(Val::unknown));
        }
    }

    /// Binds the names of a pattern that the macro does not analyse; rustc derives their types.
    fn taken(&mut self, pat: &Pat, val: &Val) {
        for name in names_in(pat) {
            let probe = self.taken_by(pat, &name, val);
            self.bind(unraw(&name), Val::unknown().with(probe));
        }
    }

    /// Adds rustc's knowledge about the locals of a pattern to the macro's.
    fn sharpen(&mut self, pat: &Pat, val: &Val) {
        for name in names_in(pat) {
            let probe = self.taken_by(pat, &name, val);
            if let Some(local) = self.local_mut(&unraw(&name))
                && matches!(local.ty, Ty::Opaque | Ty::Tensor)
                && local.exact().is_none()
                && probe.is_some()
            {
                local.probe = probe;
            }
        }
    }

    /// Returns an expression with the type of one name in a pattern.
    fn taken_by(&self, pat: &Pat, name: &Ident, val: &Val) -> Option<Probe> {
        let e = val.exact().filter(|_| !self.is_hidden(pat))?;
        let rt = self.rt;
        Probe::exact(ours!(match #e { #pat => #name, _ => #rt::some() }))
    }

    /// Returns the element of a value.
    pub(super) fn held(&mut self, val: &Val) -> Val {
        match &val.ty {
            Ty::Iter(elem) => (**elem).clone(),
            // rustc knows more of an element than a written type such as `Option<&Layer>` tells.
            Ty::List(elem) | Ty::Option(elem)
                if matches!(elem.ty, Ty::Opaque) && elem.probe.is_none() =>
            {
                self.held(&Val::unknown().with(val.probe.clone()))
            }
            // The element may be borrowed.
            Ty::List(elem) | Ty::Option(elem) | Ty::Map(_, elem) => behind(elem),
            Ty::Range => {
                let rt = self.rt;
                let probe = val.exact().and_then(|e| Probe::exact(ours!(#rt::item(#e))));
                Val::from(Ty::Scalar).with(probe)
            }
            _ => match val.tokens() {
                Some(e) => {
                    let rt = self.rt;
                    let tokens = ours!((&&#rt::Probe(&#e)).elem());
                    let probe = Probe {
                        tokens,
                        fidelity: Fidelity::Soft,
                        depth: 9,
                    };
                    Val::unknown().with(Some(probe))
                }
                None => Val::unknown(),
            },
        }
    }

    /// Returns the item that `for` and iterators take from a value, whose type must be known.
    pub(super) fn items(&mut self, val: &Val, what: &str, span: Span) -> Val {
        match &val.ty {
            Ty::Map(k, v) => Ty::Tuple(vec![(**k).clone(), (**v).clone()]).into(),
            Ty::List(_) | Ty::Option(_) => {
                let item = self.held(val);
                match val.exact() {
                    Some(e) => self.item_of(item, e),
                    None => item,
                }
            }
            Ty::Iter(_) | Ty::Range => self.held(val),
            Ty::Tensor | Ty::Scalar | Ty::Key => {
                self.found(what, span, "it is not a list", Remedy::Move)
            }
            _ => {
                // A key contains the order of a hash map only if the map is a parameter or a field
                // of one.
                let near = val.probe.as_ref().is_some_and(|probe| probe.depth < 2);
                let mask = class::ORDERED | if near { class::HASH } else { 0 };
                if !self.ask_class(val, mask, Asked::Class, what, span) {
                    return self.found(
                        what,
                        span,
                        "the type that it iterates over is not known",
                        Remedy::Move,
                    );
                }
                match val.exact() {
                    Some(e) => self.item_of(Val::unknown(), e),
                    None => self.held(val),
                }
            }
        }
    }

    /// Returns the item of an iterator or of an `IntoIterator` value.
    pub(super) fn item_of(&self, known: Val, e: &TokenStream) -> Val {
        let rt = self.rt;
        known.with(Probe::exact(ours!(#rt::item(#e))))
    }
}

/// Returns the value, which may be behind a reference.
pub(super) fn behind(val: &Val) -> Val {
    let mut val = Val {
        at: None,
        ..val.clone()
    };
    if let Some(probe) = &mut val.probe
        && probe.fidelity == Fidelity::Exact
    {
        probe.fidelity = Fidelity::Behind;
    }
    val
}

/// Notes that a pattern binds the parts of a tuple as references.
fn borrow_parts(val: &mut Val) {
    if let Ty::Tuple(parts) = &mut val.ty {
        for part in parts {
            *part = behind(part);
            borrow_parts(part);
        }
    }
}

fn names_in(pat: &Pat) -> Vec<Ident> {
    let mut names = BoundNames(Vec::new());
    names.visit_pat(pat);
    names.0
}

/// Collects the names that a pattern binds.
struct BoundNames(Vec<Ident>);

impl<'ast> Visit<'ast> for BoundNames {
    fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
        if !unraw(&p.ident).starts_with(char::is_uppercase) {
            self.0.push(p.ident.clone());
        }
        syn::visit::visit_pat_ident(self, p);
    }
}
