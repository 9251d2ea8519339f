//! Names of the body: its locals, and the names that the emitted code uses.

use super::names::HostNames;
use super::value::Local;
use super::value::{Content, Expected, Value};
use crate::input::{OutShape, unraw};
use crate::lower::Choice;
use crate::lower::expr::syntax::exits;
use crate::lower::flow::slots::changes;
use crate::lower::host::names;
use crate::lower::stmt::assign::shape_of;
use gradloom_ir::{Dim, Var};
use proc_macro2::Ident;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Expr, Pat};

/// Names in scope, and names that are taken.
#[derive(Clone)]
pub(in crate::lower) struct Scope {
    /// Locals by name, the innermost scope last.
    pub(in crate::lower) scopes: Vec<BTreeMap<String, Local>>,
    /// The user's identifiers, by their names in the program.
    pub(in crate::lower) idents: BTreeMap<String, Ident>,
    /// Names of the host locals in the emitted code so far.
    pub(in crate::lower) host_names: HostNames,
    /// Mutable host locals.
    pub(in crate::lower) host_mut: BTreeSet<String>,
    /// Locals that the user declares with `mut`.
    pub(in crate::lower) mutable: BTreeSet<String>,
    /// Declarations of host locals, by their emitted names.
    pub(in crate::lower) declared: BTreeMap<String, Choice>,
    /// Host locals that are random keys, or hold some.
    pub(in crate::lower) host_keys: BTreeSet<String>,
    /// Host locals whose types, as written, have no tensors.
    pub(in crate::lower) host_plain: BTreeSet<String>,
    /// Lengths known of host numbers.
    pub(in crate::lower) host_dims: BTreeMap<String, Dim>,
    /// Variables mentioned by host code, which must keep their names.
    pub(in crate::lower) named_by_host_code: BTreeSet<Var>,
}

impl Scope {
    pub(in crate::lower) fn new() -> Scope {
        Scope {
            scopes: vec![BTreeMap::new()],
            idents: BTreeMap::new(),
            host_names: HostNames::default(),
            host_mut: BTreeSet::new(),
            mutable: BTreeSet::new(),
            declared: BTreeMap::new(),
            host_keys: BTreeSet::new(),
            host_plain: BTreeSet::new(),
            host_dims: BTreeMap::new(),
            named_by_host_code: BTreeSet::new(),
        }
    }

    /// Returns whether a host expression is known to be a random key, or to hold some.
    pub(in crate::lower) fn is_key(&self, expr: &Expr) -> bool {
        const KEEP: [&str; 8] = [
            "duplicate",
            "split",
            "split_n",
            "split_many",
            "fold_in",
            "unwrap",
            "remove",
            "swap_remove",
        ];
        match expr {
            Expr::Paren(e) => self.is_key(&e.expr),
            Expr::Field(e) => self.is_key(&e.base),
            Expr::Index(e) => self.is_key(&e.expr),
            Expr::Path(p) => {
                let ident = p.path.get_ident();
                ident.is_some_and(|i| self.host_keys.contains(&unraw(i)))
            }
            Expr::MethodCall(m) => {
                KEEP.contains(&&*m.method.to_string()) && self.is_key(&m.receiver)
            }
            Expr::Call(call) => match &*call.func {
                Expr::Path(p) => {
                    let mut path = p.path.segments.iter().rev().map(|s| s.ident.to_string());
                    let (last, owner) = (path.next(), path.next());
                    last.as_deref() == Some("key_of")
                        || owner.as_deref() == Some("Key")
                            && matches!(last.as_deref(), Some("new" | "from_words"))
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether the target of an assignment is host code.
    pub(in crate::lower) fn is_host(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(p) => p.path.get_ident().is_some_and(|i| !self.is_traced(i)),
            Expr::Field(_) | Expr::Index(_) | Expr::Unary(_) | Expr::Paren(_) => {
                !self.mentions_traced(expr)
            }
            _ => false,
        }
    }

    /// Returns what an assignment expects of its right side.
    pub(in crate::lower) fn want_of_target(&self, left: &Expr) -> Expected {
        Expected {
            shape: self.shape_of_target(left),
            count: None,
            ty: None,
        }
    }

    pub(in crate::lower) fn shape_of_target(&self, left: &Expr) -> OutShape {
        match left {
            Expr::Tuple(t) => {
                let shapes = t.elems.iter().map(|e| self.shape_of_target(e));
                OutShape::Tuple(shapes.collect())
            }
            Expr::Path(p) => {
                let value = p.path.get_ident().and_then(|i| self.lookup(&unraw(i)));
                value.map_or(OutShape::Tensor, shape_of)
            }
            _ => OutShape::Tensor,
        }
    }

    pub(in crate::lower) fn is_uninit(&self, expr: &Expr) -> bool {
        let ident = match expr {
            Expr::Path(p) => p.path.get_ident(),
            _ => None,
        };
        ident.is_some_and(|i| matches!(self.lookup(&unraw(i)), Some(Value::Uninit(_))))
    }

    /// Binds the names of a pattern to the error value, so that uses of them are not reported
    /// again.
    pub(in crate::lower) fn poison(&mut self, pat: &Pat) {
        match pat {
            Pat::Ident(p) => {
                self.scopes
                    .last_mut()
                    .expect("there is a scope")
                    .insert(unraw(&p.ident), Value::Poison.into());
            }
            Pat::Tuple(t) => t.elems.iter().for_each(|p| self.poison(p)),
            Pat::Slice(s) => s.elems.iter().for_each(|p| self.poison(p)),
            Pat::Type(t) => self.poison(&t.pat),
            Pat::Paren(p) => self.poison(&p.pat),
            _ => {}
        }
    }

    /// Returns whether branches and loops must be lowered because they are not only host code.
    pub(in crate::lower) fn is_traced_control(&self, expr: &Expr) -> bool {
        self.mentions_traced(expr) || exits(expr) || crate::lower::expr::makes_tensor_inside(expr)
    }

    /// Returns whether a host expression is known to be a number.
    pub(in crate::lower) fn is_number(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(p) => self.is_number(&p.expr),
            Expr::Lit(l) => matches!(l.lit, syn::Lit::Int(_) | syn::Lit::Float(_)),
            Expr::Unary(u) => matches!(u.op, syn::UnOp::Neg(_)) && self.is_number(&u.expr),
            Expr::Binary(b) => self.is_number(&b.left) && self.is_number(&b.right),
            Expr::Cast(c) => matches!(
                crate::input::classify(&c.ty, &mut Default::default()),
                crate::input::Kind::Static { number: true }
            ),
            Expr::Path(p) => p.path.get_ident().is_some_and(|i| {
                matches!(
                    self.lookup(&crate::input::unraw(i)),
                    Some(Value::Host(host)) if host.is_number()
                )
            }),
            _ => false,
        }
    }

    /// Returns what is known of a host expression.
    pub(in crate::lower) fn content(&self, expr: &Expr) -> Content {
        let mut content = Content::number(self.is_number(expr));
        names(expr, &mut |ident| {
            if let Some(Value::Host(host)) = self.lookup(&unraw(ident))
                && host.content == Content::Parts
            {
                content = Content::Parts;
            }
        });
        content
    }

    /// Returns whether an expression has no side effects, and no later code changes its value.
    pub(in crate::lower) fn keeps_its_value(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Lit(_) => true,
            Expr::Path(p) => {
                let ident = p.path.get_ident();
                ident.is_none_or(|i| !self.host_mut.contains(&unraw(i)))
            }
            Expr::Paren(e) => self.keeps_its_value(&e.expr),
            Expr::Group(e) => self.keeps_its_value(&e.expr),
            Expr::Cast(e) => self.keeps_its_value(&e.expr),
            Expr::Unary(e) => self.keeps_its_value(&e.expr),
            Expr::Field(e) => self.keeps_its_value(&e.base),
            Expr::Reference(e) => e.mutability.is_none() && self.keeps_its_value(&e.expr),
            Expr::Binary(e) => {
                let assigns = crate::lower::stmt::is_compound(&e.op);
                !assigns && self.keeps_its_value(&e.left) && self.keeps_its_value(&e.right)
            }
            Expr::Tuple(e) => e.elems.iter().all(|e| self.keeps_its_value(e)),
            _ => false,
        }
    }

    pub(in crate::lower) fn lookup(&self, name: &str) -> Option<&Value> {
        let local = self.scopes.iter().rev().find_map(|s| s.get(name));
        local.map(|l| &l.value)
    }

    /// Returns whether an expression mentions a tensor or a tree.
    pub(in crate::lower) fn mentions_traced(&self, expr: &Expr) -> bool {
        let mut found = false;
        names(expr, &mut |ident| found |= self.is_traced(ident));
        found
    }

    pub(in crate::lower) fn is_traced(&self, ident: &Ident) -> bool {
        self.lookup(&unraw(ident))
            .is_some_and(|v| !matches!(v, Value::Host(_)))
    }

    /// Returns whether an expression may be a number, if the fields in it are.
    pub(in crate::lower) fn may_be_number(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(p) => self.may_be_number(&p.expr),
            Expr::Reference(r) => self.may_be_number(&r.expr),
            Expr::Unary(u) => self.may_be_number(&u.expr),
            Expr::Field(f) => self.may_be_number(&f.base),
            Expr::Index(i) => self.may_be_number(&i.expr),
            Expr::MethodCall(m) => self.may_be_number(&m.receiver),
            Expr::Path(p) => p.path.get_ident().is_none_or(|i| {
                let value = self.lookup(&crate::input::unraw(i));
                !matches!(value, Some(Value::Tensor { .. } | Value::Tuple(_)))
            }),
            expr => !self.mentions_traced(expr),
        }
    }

    /// Returns whether an expression contains branches or loops, or calls of closures, which may
    /// contain them.
    pub(in crate::lower) fn ends_blocks(&self, expr: &Expr) -> bool {
        let mut found = crate::lower::expr::syntax::has_control(expr);
        crate::lower::host::names(expr, &mut |ident| {
            let value = self.lookup(&crate::input::unraw(ident));
            found |= matches!(value, Some(Value::Closure(_)));
        });
        found
    }

    /// Returns whether an expression assigns to locals outside of it.
    pub(in crate::lower) fn assigns(&self, expr: &Expr) -> bool {
        let assigned = crate::lower::expr::syntax::assigned(expr);
        let mut names = assigned.iter().map(crate::input::unraw);
        names.any(|name| self.lookup(&name).is_some())
    }

    /// Returns the slots whose values change at the end of the block.
    pub(in crate::lower) fn changing(&self) -> BTreeSet<Var> {
        let mut changing = BTreeSet::new();
        for local in self.scopes.iter().flat_map(BTreeMap::values) {
            if let Some(slot) = &local.slot {
                changes(slot, &local.value, &mut changing);
            }
        }
        changing
    }
}
