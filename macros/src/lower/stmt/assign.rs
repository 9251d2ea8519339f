//! Lowers assignments, which bind a local to another variable within its block.

use crate::input::{OutShape, unraw};
use crate::lower::expr::syntax::exits;
use crate::lower::flow::slots::Slot;
use crate::lower::{Abort, Content, Cx, Expected, Host, Local, LowerResult, Value, host};
use crate::program::Declaration;
use proc_macro2::Ident;
use quote::quote;
use syn::Expr;
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Lowers the right side of an assignment to a host variable; `None` if its evaluation
    /// diverges.
    pub(in crate::lower) fn assigned_host(
        &mut self,
        left: &Expr,
        right: &Expr,
    ) -> LowerResult<Option<Host>> {
        if !self.names.mentions_traced(right) && !exits(right) {
            let host = Host {
                expr: self.rename(right),
                reads: Vec::new(),
                content: self.names.content(right),
            };
            self.keep_assigned(left, right, &host)?;
            return Ok(Some(host));
        }
        let outer = std::mem::replace(&mut self.host.reads_places, true);
        let value = self.top(right, &Expected::tensor());
        self.host.reads_places = outer;
        match value? {
            Value::Never => Ok(None),
            Value::Tensor { .. } | Value::Tuple(_) => {
                self.promote(&self.rename(left))?;
                self.recorded("an assignment of a tensor to a host value", left.span())
            }
            value => {
                let host = self.host_of(value, right)?;
                self.keep_assigned(left, right, &host)?;
                Ok(Some(host))
            }
        }
    }

    pub(in crate::lower) fn assign(
        &mut self,
        left: &Expr,
        value: impl FnOnce(&mut Self) -> LowerResult<Value>,
        right: &Expr,
        compound: Option<&syn::BinOp>,
    ) -> LowerResult<()> {
        if let (Expr::Tuple(targets), None) = (left, compound) {
            let values = match value(self)? {
                Value::Tuple(values) => values,
                Value::Never => return Ok(()),
                Value::Host(host) if targets.elems.iter().all(|t| self.names.is_host(t)) => {
                    self.keep_plain(&host)?;
                    let (left, expr) = (self.rename(left), host.expr);
                    self.builder.push_host(host.reads, quote!(#left = #expr;));
                    return Ok(());
                }
                _ => return self.recorded("an assignment to several locals", left.span()),
            };
            if values.len() != targets.elems.len() {
                return self.recorded("an assignment to several locals", left.span());
            }
            let mut targets = targets.elems.iter().zip(values);
            return targets.try_for_each(|(target, value)| self.assign_value(target, value));
        }
        if compound.is_none() && self.names.is_host(left) && !self.names.is_uninit(left) {
            if let Some(host) = self.assigned_host(left, right)? {
                let (left, expr) = (self.rename(left), host.expr);
                self.builder.push_host(host.reads, quote!(#left = #expr;));
            }
            return Ok(());
        }
        let value = value(self);
        match value {
            Ok(Value::Never) => Ok(()),
            Ok(value) => self.assign_value(left, value),
            Err(Abort::Error) => self.assign_value(left, Value::Poison),
            Err(stop) => Err(stop),
        }
    }

    /// Assigns a value to a local.
    pub(in crate::lower) fn assign_value(&mut self, left: &Expr, value: Value) -> LowerResult<()> {
        let ident = match left {
            Expr::Path(p) => p.path.get_ident(),
            Expr::Infer(_) => return Ok(()),
            _ => None,
        };
        let Some(ident) = ident else {
            return self.assign_part(left, value);
        };
        let name = unraw(ident);
        let Some(local) = self
            .names
            .scopes
            .iter()
            .rev()
            .find_map(|s| s.get(&name))
            .cloned()
        else {
            return self.recorded("an assignment to a place that is not a local", left.span());
        };
        let Local { value: old, slot } = local;
        let Some((value, slot)) = self.replacing(left, ident, value, &old, slot)? else {
            return Ok(());
        };
        if let Value::Tensor { var, .. } = value {
            self.name(var, ident);
        }
        let value = match &slot {
            Some(slot) => self.fitted(slot, value)?,
            None => value,
        };
        if let Some(slot) = &slot
            && !slot.fits(&value)
        {
            return self.recorded(
                "an assignment of a value with another structure",
                left.span(),
            );
        }
        let mut value = value;
        if let Some(slot) = &slot {
            self.assign_hosts(slot, &old, &mut value)?;
        }
        let poisoned = matches!(value, Value::Poison);
        if let Some(local) = self
            .names
            .scopes
            .iter_mut()
            .rev()
            .find_map(|s| s.get_mut(&name))
        {
            *local = Local { value, slot };
        }
        if poisoned { Err(Abort::Error) } else { Ok(()) }
    }

    /// Returns the value and the slot of a local when `value` replaces `old`.
    ///
    /// Returns `None` if both are host values, which the emitted code assigns itself.
    fn replacing(
        &mut self,
        left: &Expr,
        ident: &Ident,
        value: Value,
        old: &Value,
        mut slot: Option<Slot>,
    ) -> LowerResult<Option<(Value, Option<Slot>)>> {
        let value = match (value, old) {
            (Value::Host(host), Value::Uninit(id)) => {
                let fresh = self.host_ident(ident);
                self.host.declare(*id, Declaration::Host(fresh.clone()));
                self.names.host_mut.insert(unraw(&fresh));
                let expr = &host.expr;
                self.builder.push_host(host.reads, quote!(#fresh = #expr;));
                Value::Host(Host {
                    expr: syn::parse_quote!(#fresh),
                    reads: Vec::new(),
                    content: host.content.max(Content::Plain),
                })
            }
            (Value::Place(place), Value::Uninit(_)) if place.by_ref => {
                return self.recorded("a reference that is bound later", left.span());
            }
            (value @ (Value::Tensor { .. } | Value::Place(_)), Value::Uninit(id)) => {
                let var = match value {
                    Value::Place(place) => self.owned(&place)?,
                    value => self.tensor(value, None)?,
                };
                let new = self.new_slot(Some(ident), var);
                self.host.declare(*id, Declaration::Tensor(new));
                slot = Some(Slot::One(new));
                Value::Tensor { var, by_ref: false }
            }
            (_, Value::Uninit(_)) => {
                return self.recorded("a value that is bound later", left.span());
            }
            (Value::Host(host), Value::Host(old)) => {
                self.keep_plain(&host)?;
                let (left, expr) = (&old.expr, &host.expr);
                self.builder.push_host(host.reads, quote!(#left = #expr;));
                return Ok(None);
            }
            (Value::Host(_), _) => {
                return self.recorded("an assignment of a host value to a tensor", left.span());
            }
            (Value::Place(place), _) if slot.is_some() && !matches!(slot, Some(Slot::Host(_))) => {
                if place.by_ref {
                    return self.recorded("an assignment of a reference", left.span());
                }
                let var = self.owned(&place)?;
                Value::Tensor { var, by_ref: false }
            }
            (Value::Closure(_) | Value::Uninit(_) | Value::Never, _) => {
                return self.recorded("an assignment", left.span());
            }
            (value, _) => value,
        };
        Ok(Some((value, slot)))
    }

    /// Lowers `pair.0 = v` and `list[1] = v` for a local tuple or array of tensors.
    fn assign_part(&mut self, left: &Expr, value: Value) -> LowerResult<()> {
        if self.tree_behind(left).is_some() {
            return self.change_part(left, value);
        }
        let (base, index) = match left {
            Expr::Field(syn::ExprField {
                base,
                member: syn::Member::Unnamed(i),
                ..
            }) => (base, Some(i.index as usize)),
            Expr::Index(i) => (
                &i.expr,
                host::literal(&i.index)
                    .and_then(|s| s.int())
                    .map(|n| n as usize),
            ),
            _ => return self.recorded("an assignment to a part of a value", left.span()),
        };
        let parts = self.eval(base, &Expected::tensor())?;
        if let (Value::Tensor { .. }, Expr::Index(_)) = (&parts, left) {
            self.diagnostics.errors.push(
                left,
                "the elements of a tensor cannot be assigned; write `x = x.set(index, &y)`, which returns a copy with other elements, or choose elements with `condition.select(&x, &y)`",
            );
            return Err(Abort::Error);
        }
        let (Some(index), Value::Tuple(mut parts)) = (index, parts) else {
            return self.recorded("an assignment to a part of a value", left.span());
        };
        let Some(part) = parts.get_mut(index) else {
            return self.recorded("an assignment to a part that does not exist", left.span());
        };
        *part = match (value, &*part) {
            (Value::Poison, _) => return Err(Abort::Error),
            (value @ Value::Tuple(_), Value::Tuple(_)) => value,
            (Value::Host(host), Value::Host(old)) if !self.names.keeps_its_value(&old.expr) => {
                self.keep_plain(&host)?;
                let (left, expr) = (&old.expr, &host.expr);
                self.builder.push_host(host.reads, quote!(#left = #expr;));
                Value::Host(old.clone())
            }
            (Value::Host(host), Value::Host(_)) => Value::Host(self.hoisted(host, "part")),
            (value, _) => Value::Tensor {
                var: self.tensor(value, None)?,
                by_ref: false,
            },
        };
        self.assign_value(base, Value::Tuple(parts))
    }
}

/// Returns the structure of a value.
pub(in crate::lower) fn shape_of(value: &Value) -> OutShape {
    match value {
        Value::Tuple(values) => OutShape::Tuple(values.iter().map(shape_of).collect()),
        _ => OutShape::Tensor,
    }
}
