//! Lowers patterns of `for`, `match` and `if let`, which bind parts of trees and host values.

use crate::input::unraw;
use crate::lower::{Base, Content, Cx, Host, LowerResult, Place, Value};
use proc_macro2::{Ident, Span};
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, Pat};

/// Value that host code matches against a pattern.
#[derive(Clone, Debug)]
pub(in crate::lower) enum Item {
    /// Host value.
    Host(Content),
    /// Reference to a part of a tree; `owned` is true if the user's code has the part itself.
    Place {
        base: Base,
        owned: bool,
    },
    /// Part of a tree behind a reference: what a pattern binds by value is a copy, and no tensor.
    Copied {
        base: Base,
    },
    /// Key and value of a map that is a tree parameter: the key is a host value.
    Entry {
        base: Base,
    },
    Tuple(Vec<Item>),
}

/// How a pattern binds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Without `ref`: a reference, if the pattern matches one.
    Value,
    /// Without `ref`, within `&`.
    Dereferenced,
    /// With `ref`.
    Reference,
}

/// Returns the value of a local that is a copy of a part of a tree: no tensor, as tensors are not
/// `Copy`.
fn copy_of(local: Expr) -> Value {
    Value::Host(Host {
        expr: local,
        reads: Vec::new(),
        content: Content::Plain,
    })
}

impl Cx<'_> {
    /// Binds the names of a pattern in the innermost scope.
    ///
    /// Returns the pattern with the names of the emitted code, in which no two host locals share a
    /// name.
    pub(in crate::lower) fn bind_item(&mut self, pat: &Pat, item: &Item) -> LowerResult<Pat> {
        match (pat, item) {
            (Pat::Paren(p), item) => self.bind_item(&p.pat, item),
            (Pat::Tuple(t), Item::Tuple(items)) if t.elems.len() == items.len() => {
                let mut t = t.clone();
                for (elem, item) in t.elems.iter_mut().zip(items) {
                    if matches!(elem, Pat::Rest(_)) {
                        return self.recorded("a pattern", elem.span());
                    }
                    *elem = self.bind_item(elem, item)?;
                }
                Ok(Pat::Tuple(t))
            }
            (Pat::Wild(_), _) => Ok(pat.clone()),
            (Pat::Tuple(t), Item::Entry { base }) if t.elems.len() == 2 => {
                let (key, value) = (
                    Item::Host(Content::Plain),
                    Item::Place {
                        base: *base,
                        owned: false,
                    },
                );
                self.bind_item(pat, &Item::Tuple(vec![key, value]))
            }
            (Pat::Or(or), Item::Tuple(_)) if take_bindings(&mut pat.clone()).is_empty() => {
                let mut or = or.clone();
                for case in &mut or.cases {
                    *case = self.bind_item(case, item)?;
                }
                Ok(Pat::Or(or))
            }
            (_, Item::Tuple(_)) => self.recorded("a pattern", pat.span()),
            (_, Item::Host(content)) => {
                let whole = matches!(pat, Pat::Ident(_));
                let content = match content {
                    Content::Number if !whole => Content::Plain,
                    content => *content,
                };
                Ok(self.rename_pattern(pat, &mut |ident, _| {
                    Value::Host(Host {
                        expr: ident,
                        reads: Vec::new(),
                        content,
                    })
                }))
            }
            (_, Item::Place { base, .. } | Item::Copied { base } | Item::Entry { base }) => {
                let owned = matches!(item, Item::Place { owned: true, .. });
                let copied = matches!(item, Item::Copied { .. });
                let is_mutable = |p: &syn::PatIdent| p.mutability.is_some();
                if owned && take_bindings(&mut pat.clone()).iter().any(is_mutable) {
                    return self.recorded("`mut` in a pattern of a tree", pat.span());
                }
                let (base, by_value) = (*base, owned && !has_modes(pat));
                // The companion's list of references owns its trees.
                let has_view = self.view(base).is_some();
                Ok(self.rename_pattern(pat, &mut |expr, mode| match mode {
                    Mode::Value if copied => copy_of(expr),
                    Mode::Dereferenced if !has_view && !owned => copy_of(expr),
                    _ => Value::Place(Place {
                        base,
                        expr: match by_value {
                            true => syn::parse_quote_spanned!(expr.span()=> (*#expr)),
                            false => expr,
                        },
                        by_ref: !by_value,
                        root: false,
                        owned: owned && mode == Mode::Value,
                        lent: None,
                    }),
                }))
            }
        }
    }

    fn rename_pattern(&mut self, pat: &Pat, value: &mut dyn FnMut(Expr, Mode) -> Value) -> Pat {
        struct BindingRenamer<'a, 'b> {
            cx: &'a mut Cx<'b>,
            /// Emitted names of the bindings so far; alternatives bind the same names.
            seen: BTreeMap<String, (Ident, Mode)>,
            /// Mode of a binding without `ref`.
            mode: Mode,
        }
        impl BindingRenamer<'_, '_> {
            fn fresh(&mut self, p: &syn::PatIdent) -> Ident {
                let key = unraw(&p.ident);
                if let Some((fresh, _)) = self.seen.get(&key) {
                    return fresh.clone();
                }
                let fresh = self.cx.host_ident(&p.ident);
                let mode = match p.by_ref.is_some() {
                    true => Mode::Reference,
                    false => self.mode,
                };
                self.seen.insert(key, (fresh.clone(), mode));
                fresh
            }
        }
        impl VisitMut for BindingRenamer<'_, '_> {
            fn visit_pat_ident_mut(&mut self, p: &mut syn::PatIdent) {
                if is_binding(p) {
                    p.ident = self.fresh(p);
                    if p.mutability.is_some() {
                        self.cx.names.host_mut.insert(unraw(&p.ident));
                    }
                }
                if let Some((_, inner)) = &mut p.subpat {
                    self.visit_pat_mut(inner);
                }
            }
            fn visit_pat_reference_mut(&mut self, p: &mut syn::PatReference) {
                let outer = std::mem::replace(&mut self.mode, Mode::Dereferenced);
                self.visit_pat_mut(&mut p.pat);
                self.mode = outer;
            }
            fn visit_field_pat_mut(&mut self, f: &mut syn::FieldPat) {
                self.visit_pat_mut(&mut f.pat);
                // `Layer { w }` becomes `Layer { w: w_1 }`.
                let same = match (&f.member, &*f.pat) {
                    (syn::Member::Named(field), Pat::Ident(p)) => *field == p.ident,
                    _ => false,
                };
                if f.colon_token.is_none() && !same {
                    f.colon_token = Some(Default::default());
                }
            }
            fn visit_expr_mut(&mut self, _: &mut Expr) {}
        }
        let mut pat = pat.clone();
        let mut rename = BindingRenamer {
            cx: self,
            seen: BTreeMap::new(),
            mode: Mode::Value,
        };
        rename.visit_pat_mut(&mut pat);
        for (name, (fresh, mode)) in rename.seen {
            let value = value(syn::parse_quote!(#fresh), mode);
            let scope = self.names.scopes.last_mut().expect("there is a scope");
            scope.insert(name, value.into());
        }
        pat
    }
}

/// Returns the bindings of a pattern, each once, and makes them immutable in `pat`.
///
/// The returned bindings keep their `mut`, for the pattern that binds the values again.
pub(in crate::lower) fn take_bindings(pat: &mut Pat) -> Vec<syn::PatIdent> {
    struct BindingTaker(Vec<syn::PatIdent>);
    impl VisitMut for BindingTaker {
        fn visit_pat_ident_mut(&mut self, p: &mut syn::PatIdent) {
            if is_binding(p) && self.0.iter().all(|q| q.ident != p.ident) {
                self.0.push(syn::PatIdent {
                    attrs: Vec::new(),
                    by_ref: None,
                    mutability: p.mutability,
                    ident: p.ident.clone(),
                    subpat: None,
                });
            }
            // `ref mut` stays.
            if p.by_ref.is_none() {
                p.mutability = None;
            }
            if let Some((_, inner)) = &mut p.subpat {
                self.visit_pat_mut(inner);
            }
        }
    }
    let mut take = BindingTaker(Vec::new());
    take.visit_pat_mut(pat);
    take.0
}

/// Returns whether a pattern has `ref`, `mut` or `&`.
fn has_modes(pat: &Pat) -> bool {
    struct ModeFinder(bool);
    impl<'ast> Visit<'ast> for ModeFinder {
        fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
            self.0 |= p.by_ref.is_some() || p.mutability.is_some();
            syn::visit::visit_pat_ident(self, p);
        }
        fn visit_pat_reference(&mut self, _: &'ast syn::PatReference) {
            self.0 = true;
        }
    }
    let mut modes = ModeFinder(false);
    modes.visit_pat(pat);
    modes.0
}

/// Returns the span of the first binding by value in a pattern.
pub(in crate::lower) fn takes(pat: &Pat) -> Option<Span> {
    struct MoveFinder(Option<Span>);
    impl<'ast> Visit<'ast> for MoveFinder {
        fn visit_pat_ident(&mut self, p: &'ast syn::PatIdent) {
            if is_binding(p) && p.by_ref.is_none() {
                self.0.get_or_insert(p.ident.span());
            }
            syn::visit::visit_pat_ident(self, p);
        }
        fn visit_expr(&mut self, _: &'ast Expr) {}
    }
    let mut takes = MoveFinder(None);
    takes.visit_pat(pat);
    takes.0
}

/// Returns whether an identifier in a pattern is a binding, and not a constant or a variant.
fn is_binding(p: &syn::PatIdent) -> bool {
    let upper = p
        .ident
        .to_string()
        .chars()
        .next()
        .is_some_and(char::is_uppercase);
    p.by_ref.is_some() || p.mutability.is_some() || p.subpat.is_some() || !upper
}
