//! Lowers the value of a branch: the common kind of its arms' values, and the locals that hold it.

use super::slots::join;
use crate::input::View;
use crate::lower::{Abort, Base, Content, Cx, Host, LowerResult, Place, Value};
use crate::program::{Declaration, Store};
use gradloom_ir::{Aval, Var};
use proc_macro2::{Ident, Span};
use quote::{ToTokens, quote};

/// Destination for the values of a branch's arms, or of a loop's `break`s.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Join {
    /// Reserved declarations in front of the branch.
    declarations: Vec<usize>,
    kind: Option<JoinKind>,
    /// Aval of each tensor after the branch.
    avals: Vec<(Var, Aval)>,
    hint: Option<Ident>,
}

#[derive(Clone, Debug)]
enum JoinKind {
    /// The variable, and whether the value is a reference.
    Tensor(Var, bool),
    Host {
        ident: Ident,
        content: Content,
    },
    Place {
        base: Base,
        ident: Ident,
    },
    Tuple(Vec<JoinKind>),
}

impl JoinKind {
    /// Notes what is known of the host values of another arm.
    fn widen(&mut self, value: &Value) {
        match (self, value) {
            (JoinKind::Host { content, .. }, Value::Host(host)) => {
                *content = host.content.max(*content);
            }
            (JoinKind::Tuple(kinds), Value::Tuple(values)) => {
                kinds.iter_mut().zip(values).for_each(|(k, v)| k.widen(v));
            }
            _ => {}
        }
    }
}

/// Maximum number of tensors and host values in the value of a branch.
const MOST_VALUES: usize = 8;

impl Cx<'_> {
    /// Creates a destination for the value of the code that follows.
    pub(in crate::lower) fn join(&mut self) -> Join {
        let hint = self.host.flow.hint.take();
        Join {
            declarations: (0..MOST_VALUES).map(|_| self.declaration()).rev().collect(),
            kind: None,
            avals: Vec::new(),
            hint,
        }
    }

    /// Stores the value of one arm in the destination.
    pub(in crate::lower) fn give(&mut self, join: &mut Join, value: Value) -> LowerResult<()> {
        match value {
            Value::Never => return Ok(()),
            Value::Poison => return Err(Abort::Error),
            _ => {}
        }
        let mut kind = join.kind.take();
        if kind.is_none() {
            kind = Some(self.kind_of(join, &value)?);
        }
        let mut kind = kind.expect("the kind has just been set");
        kind.widen(&value);
        let given = self.put(&kind, value, &mut join.avals);
        join.kind = Some(kind);
        given
    }

    /// Returns the value after the branch.
    pub(in crate::lower) fn joined(&mut self, join: Join) -> Value {
        self.builder.set_slot_avals(&join.avals);
        join.kind.map_or(Value::Never, value_of)
    }

    fn kind_of(&mut self, join: &mut Join, value: &Value) -> LowerResult<JoinKind> {
        let name = join.hint.clone();
        let mut next = || {
            let found = join.declarations.pop();
            found.ok_or_else(|| Abort::Recorded("a branch has too many values".to_owned()))
        };
        match value {
            Value::Tensor { var, by_ref } => {
                let id = next()?;
                let slot = self.new_slot(name.as_ref(), *var);
                self.host.declare(id, Declaration::Tensor(slot));
                Ok(JoinKind::Tensor(slot, *by_ref))
            }
            Value::Place(place) if self.host.flow.as_tensors || !place.by_ref => {
                let id = next()?;
                let var = match place.by_ref {
                    true => self.leaf(place, None)?,
                    false => self.owned(place)?,
                };
                let slot = self.new_slot(name.as_ref(), var);
                self.host.declare(id, Declaration::Tensor(slot));
                Ok(JoinKind::Tensor(slot, place.by_ref))
            }
            Value::Host(host) => {
                let id = next()?;
                let ident = self.local_for(name);
                self.host.declare(id, Declaration::Host(ident.clone()));
                Ok(JoinKind::Host {
                    ident,
                    content: host.content,
                })
            }
            Value::Place(place) => {
                let id = next()?;
                let ident = self.local_for(name);
                self.host.declare(id, Declaration::Host(ident.clone()));
                Ok(JoinKind::Place {
                    base: place.base,
                    ident,
                })
            }
            Value::Tuple(values) => {
                join.hint = None;
                let kinds = values.iter().map(|v| self.kind_of(join, v));
                Ok(JoinKind::Tuple(kinds.collect::<LowerResult<_>>()?))
            }
            _ => Err(Abort::Recorded(
                "a branch has a value that is neither a tensor nor static".to_owned(),
            )),
        }
    }

    fn local_for(&mut self, name: Option<Ident>) -> Ident {
        let name = name.unwrap_or_else(|| Ident::new("value", Span::mixed_site()));
        self.host_ident(&name)
    }

    fn put(
        &mut self,
        kind: &JoinKind,
        value: Value,
        avals: &mut Vec<(Var, Aval)>,
    ) -> LowerResult<()> {
        match (kind, value) {
            (_, Value::Poison) => Err(Abort::Error),
            (JoinKind::Tensor(slot, _), value @ (Value::Tensor { .. } | Value::Place(_))) => {
                let var = match value {
                    Value::Place(place) if !place.by_ref => self.owned(&place)?,
                    value => self.tensor(value, None)?,
                };
                self.store(*slot, var, Store::Assign);
                let aval = self.builder.b.aval(*slot).clone();
                match avals.iter_mut().find(|(v, _)| v == slot) {
                    Some((_, known)) => *known = join(known, &aval),
                    None => avals.push((*slot, aval)),
                }
                Ok(())
            }
            (JoinKind::Host { ident, .. }, Value::Host(Host { expr, reads, .. })) => {
                self.builder.push_host(reads, quote!(#ident = #expr;));
                Ok(())
            }
            (JoinKind::Place { base, ident }, Value::Place(place))
                if place.base == *base && place.by_ref =>
            {
                let (reads, place) = (place.reads(), self.reference(&place));
                self.builder.push_host(reads, quote!(#ident = #place;));
                Ok(())
            }
            (JoinKind::Tuple(kinds), Value::Tuple(values)) if kinds.len() == values.len() => {
                let mut parts = kinds.iter().zip(values);
                parts.try_for_each(|(k, v)| self.put(k, v, avals))
            }
            (JoinKind::Place { .. }, Value::Tensor { .. } | Value::Place(_)) => Err(Abort::Mixed),
            _ => Err(Abort::Recorded(
                "the arms of a branch have values of different kinds".to_owned(),
            )),
        }
    }

    /// Returns whether the emitted local of a tree is a reference.
    pub(in crate::lower) fn is_reference(&self, base: Base) -> bool {
        match base {
            Base::Param(i) => self.func.params[i].by_ref,
            Base::Local(_) => false,
        }
    }

    /// Returns an expression for a reference to a place that a pattern takes apart: a list that the
    /// user passes as a slice is a slice.
    pub(in crate::lower) fn whole(&self, place: &Place) -> proc_macro2::TokenStream {
        let view = self.view(place.base);
        let reference = self.reference(place);
        match place.root && view.is_some_and(View::is_slice) {
            true => quote!(&(#reference)[..]),
            false => reference,
        }
    }

    /// Returns an expression for a reference to a place.
    pub(in crate::lower) fn reference(&self, place: &Place) -> proc_macro2::TokenStream {
        let expr = place.expr.to_token_stream();
        // Patterns and branches bind references.
        if !place.root && matches!(place.expr, syn::Expr::Path(_)) {
            return expr;
        }
        match place.root && self.is_reference(place.base) {
            true => quote!(&*#expr),
            false => quote!(&#expr),
        }
    }
}

fn value_of(kind: JoinKind) -> Value {
    match kind {
        JoinKind::Tensor(var, by_ref) => Value::Tensor { var, by_ref },
        JoinKind::Host { ident, content } => Value::Host(Host {
            expr: syn::parse_quote!(#ident),
            reads: Vec::new(),
            content,
        }),
        JoinKind::Place { base, ident } => Value::Place(Place {
            base,
            expr: syn::parse_quote!(#ident),
            by_ref: true,
            root: false,
            owned: false,
            lent: None,
        }),
        JoinKind::Tuple(kinds) => Value::Tuple(kinds.into_iter().map(value_of).collect()),
    }
}
