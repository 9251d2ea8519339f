//! Slots: storage for locals that more than one block assigns to.

use crate::lower::host::hoisted::renamed;
use crate::lower::{Abort, Base, Choice, Cx, Local, LowerResult, Place, Value};
use crate::program::Store;
use gradloom_ir::{Aval, Shape, Var};
use proc_macro2::{Ident, Span};
use quote::quote;
use std::collections::{BTreeMap, BTreeSet};
use syn::Expr;
use syn::spanned::Spanned;

/// Storage of a local between blocks.
#[derive(Clone, Debug)]
pub(in crate::lower) enum Slot {
    One(Var),
    Many(Vec<Slot>),
    /// Local of host code, assigned immediately: a host value, or a reference to a part of a tree.
    Host(Ident),
}

impl Slot {
    fn vars(&self, f: &mut dyn FnMut(Var)) {
        match self {
            Slot::One(var) => f(*var),
            Slot::Many(slots) => slots.iter().for_each(|s| s.vars(f)),
            Slot::Host(_) => {}
        }
    }

    /// Returns whether a value has the structure of the slot.
    pub(in crate::lower) fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Poison) | (Slot::One(_), Value::Tensor { .. }) => true,
            (Slot::Host(_), Value::Host(_)) => true,
            (Slot::Host(_), Value::Place(place)) => place.by_ref,
            (Slot::Many(slots), Value::Tuple(values)) => {
                slots.len() == values.len() && slots.iter().zip(values).all(|(s, v)| s.fits(v))
            }
            _ => false,
        }
    }
}

impl Cx<'_> {
    /// Returns a fresh slot with the aval of `value`.
    pub(in crate::lower) fn new_slot(&mut self, name: Option<&Ident>, value: Var) -> Var {
        let aval = self.builder.b.aval(value).clone();
        let slot = self.builder.b.param(aval);
        self.builder.kinds.copy(value, slot);
        match name {
            Some(name) => self.name(slot, name),
            None => self.name(slot, &Ident::new("value", Span::mixed_site())),
        }
        slot
    }

    /// Gives a local a slot because later code assigns to it; locals that are not tensors need
    /// none.
    pub(in crate::lower) fn needs_slot(&mut self, name: &Ident) -> LowerResult<()> {
        let key = crate::input::unraw(name);
        let found = self
            .names
            .scopes
            .iter()
            .rev()
            .find_map(|s| s.get(&key))
            .cloned();
        let Some(Local { value, slot: None }) = found else {
            return Ok(());
        };
        let mut value = match value {
            Value::Place(place) if !place.by_ref => Value::Tensor {
                var: self.owned(&place)?,
                by_ref: false,
            },
            value @ (Value::Tensor { .. } | Value::Tuple(_) | Value::Place(_)) => value,
            _ => return Ok(()),
        };
        let slot = self.slot_for(name, &mut value)?;
        let local = self
            .names
            .scopes
            .iter_mut()
            .rev()
            .find_map(|s| s.get_mut(&key));
        *local.expect("the local has just been found") = Local {
            value,
            slot: Some(slot),
        };
        Ok(())
    }

    fn slot_for(&mut self, name: &Ident, value: &mut Value) -> LowerResult<Slot> {
        match value {
            Value::Tensor { var, .. } => {
                let slot = self.new_slot(Some(name), *var);
                self.host.flow.undeclared.insert(slot);
                Ok(Slot::One(slot))
            }
            Value::Tuple(values) => {
                let slots = values.iter_mut().map(|v| self.slot_for(name, v));
                Ok(Slot::Many(slots.collect::<LowerResult<_>>()?))
            }
            Value::Host(host) => {
                let (local, expr) = (self.host_slot(name), &host.expr);
                self.builder
                    .push_host(host.reads.clone(), quote!(let mut #local = #expr;));
                host.expr = syn::parse_quote!(#local);
                host.reads.clear();
                Ok(Slot::Host(local))
            }
            Value::Place(place) if !place.by_ref => {
                let var = self.owned(place)?;
                *value = Value::Tensor { var, by_ref: false };
                self.slot_for(name, value)
            }
            Value::Place(place) => {
                let (local, reference) = (self.host_slot(name), self.reference(place));
                self.builder
                    .push_host(place.reads(), quote!(let mut #local = #reference;));
                place.expr = syn::parse_quote!(#local);
                place.root = false;
                Ok(Slot::Host(local))
            }
            _ => Err(Abort::Recorded(format!(
                "an assignment to `{name}`, which holds more than tensors"
            ))),
        }
    }

    /// Returns a variable for a place that is taken by value.
    ///
    /// A part of a parameter is read as a tensor, and the body is lowered again if no use of the
    /// value shows that it is one.
    pub(in crate::lower) fn owned(&mut self, place: &Place) -> LowerResult<Var> {
        let at = place.expr.span().start();
        let choice = Choice::Part(at.line, at.column);
        match (place.base, place.root) {
            (Base::Param(_), false) if !self.choices.contains(&choice) => {
                let var = self.leaf(place, None)?;
                if self.forms {
                    self.builder.kinds.guess(var, choice);
                }
                Ok(var)
            }
            _ => self.tree(place),
        }
    }

    /// Returns a name for a mutable host local.
    pub(in crate::lower) fn host_slot(&mut self, name: &Ident) -> Ident {
        let local = self.host_ident(name);
        self.names.host_mut.insert(crate::input::unraw(&local));
        local
    }

    /// Returns the value with parts of trees read as tensors where the slot holds tensors.
    pub(in crate::lower) fn fitted(&mut self, slot: &Slot, value: Value) -> LowerResult<Value> {
        Ok(match (slot, value) {
            (Slot::One(_), Value::Place(place)) if !place.by_ref => Value::Tensor {
                var: self.owned(&place)?,
                by_ref: false,
            },
            (Slot::Many(slots), Value::Tuple(values)) if slots.len() == values.len() => {
                let parts = slots.iter().zip(values);
                let parts = parts.map(|(slot, value)| self.fitted(slot, value));
                Value::Tuple(parts.collect::<LowerResult<_>>()?)
            }
            (_, value) => value,
        })
    }

    /// Assigns to the host locals of a slot immediately.
    pub(in crate::lower) fn assign_hosts(
        &mut self,
        slot: &Slot,
        old: &Value,
        value: &mut Value,
    ) -> LowerResult<()> {
        match (slot, old, value) {
            (_, _, Value::Poison) => Ok(()),
            (Slot::Host(local), _, Value::Host(host)) => {
                self.keep_plain(host)?;
                let same = matches!(&host.expr, Expr::Path(p) if p.path.is_ident(local));
                if !same {
                    let expr = &host.expr;
                    self.builder
                        .push_host(host.reads.clone(), quote!(#local = #expr;));
                }
                host.expr = syn::parse_quote!(#local);
                host.reads.clear();
                Ok(())
            }
            (Slot::Host(local), Value::Place(old), Value::Place(place))
                if old.base == place.base =>
            {
                let reference = self.reference(place);
                self.builder
                    .push_host(place.reads(), quote!(#local = #reference;));
                *place = old.clone();
                Ok(())
            }
            (Slot::Host(local), ..) => Err(Abort::Recorded(format!(
                "an assignment of a reference to another tree to `{local}`"
            ))),
            (Slot::Many(slots), Value::Tuple(olds), Value::Tuple(values)) => {
                let mut parts = slots.iter().zip(olds).zip(values);
                parts.try_for_each(|((slot, old), value)| self.assign_hosts(slot, old, value))
            }
            _ => Ok(()),
        }
    }

    /// Stores a value into a slot at the end of the block.
    pub(in crate::lower) fn store(&mut self, target: Var, value: Var, store: Store) {
        let aval = self.builder.b.aval(value).clone();
        self.host.flow.stored.push((target, aval.clone()));
        self.builder.b.set_aval(target, aval);
        self.builder.kinds.unite(target, value);
        self.builder.stores.push((target, value, store));
    }

    /// Saves the old values of slots that change at the end of this block or in the code after it.
    ///
    /// `assigned` are the locals that the following code assigns to. Locals that refer to the old
    /// value without owning the slot get their own variable.
    pub(in crate::lower) fn keep_old_values(&mut self, assigned: &[Ident]) {
        let mut changing = self.names.changing();
        for name in assigned {
            let key = crate::input::unraw(name);
            let found = self.names.scopes.iter().rev().find_map(|s| s.get(&key));
            if let Some(slot) = found.and_then(|local| local.slot.as_ref()) {
                slot.vars(&mut |var| {
                    changing.insert(var);
                });
            }
        }
        self.keep_values_of(&changing);
    }

    /// Saves the values of these slots for the locals that refer to them without owning the slot.
    pub(in crate::lower) fn keep_values_of(&mut self, changing: &BTreeSet<Var>) {
        if changing.is_empty() {
            return;
        }
        let mut kept: BTreeMap<Var, Var> = BTreeMap::new();
        let mut scopes = std::mem::take(&mut self.names.scopes);
        // All stored values are read before any slot changes.
        let own = scopes
            .iter_mut()
            .flatten()
            .filter(|(_, local)| local.slot.is_none());
        for (name, local) in own {
            each_var(&mut local.value, &mut |var| {
                if changing.contains(var) {
                    let old = *var;
                    *var = *kept.entry(old).or_insert_with(|| {
                        let aval = self.builder.b.aval(old).clone();
                        let copy = self.builder.b.param(aval);
                        self.builder.kinds.copy(old, copy);
                        self.name(copy, &crate::program::ours(name));
                        copy
                    });
                }
            });
        }
        for local in scopes.iter_mut().flat_map(BTreeMap::values_mut) {
            self.rebase(&mut local.value, &kept);
        }
        self.names.scopes = scopes;
        let stores = kept.into_iter().map(|(old, copy)| (copy, old, Store::Let));
        self.builder.stores.extend(stores);
    }

    /// Makes the parts of trees read from the variables that keep the old values.
    fn rebase(&mut self, value: &mut Value, kept: &BTreeMap<Var, Var>) {
        match value {
            Value::Place(place) => {
                let Base::Local(base) = place.base else {
                    return;
                };
                for (old, copy) in kept.iter().filter(|(_, copy)| **copy == base) {
                    let (from, to) = (self.ident(*old), self.named_by_host(*copy));
                    self.host.read(&[*copy]);
                    place.expr = renamed(place.expr.clone(), &from, &to);
                }
            }
            Value::Tuple(values) => values.iter_mut().for_each(|v| self.rebase(v, kept)),
            _ => {}
        }
    }

    /// Ends the block before an expression that would end it midway, if locals refer to slots that
    /// would change then.
    ///
    /// Otherwise operands and host code evaluated earlier would see the changed slots.
    pub(in crate::lower) fn flush_old_values(&mut self, expr: &Expr) {
        let changing = self.names.changing();
        if changing.is_empty() {
            return;
        }
        let mut old = false;
        for local in self.names.scopes.iter().flat_map(BTreeMap::values) {
            let mut own = BTreeSet::new();
            if let Some(slot) = &local.slot {
                slot.vars(&mut |var| {
                    own.insert(var);
                });
            }
            let mut value = local.value.clone();
            each_var(&mut value, &mut |var| {
                old |= changing.contains(var) && !own.contains(var)
            });
        }
        if old && self.names.ends_blocks(expr) {
            self.flush_before(&crate::lower::expr::syntax::assigned(expr));
        }
    }

    /// Returns the aval of each slot.
    pub(in crate::lower) fn slot_avals(&self) -> Vec<(Var, Aval)> {
        let mut out = Vec::new();
        let locals = self.names.scopes.iter().flat_map(BTreeMap::values);
        locals
            .filter_map(|l| l.slot.as_ref())
            .for_each(|s| s.vars(&mut |var| out.push(var)));
        out.into_iter()
            .map(|v| (v, self.builder.b.aval(v).clone()))
            .collect()
    }
}

/// Collects the slots whose values change.
pub(in crate::lower) fn changes(slot: &Slot, value: &Value, changing: &mut BTreeSet<Var>) {
    match (slot, value) {
        (Slot::One(slot), Value::Tensor { var, .. }) if var != slot => {
            changing.insert(*slot);
        }
        (Slot::Many(slots), Value::Tuple(values)) => {
            for (slot, value) in slots.iter().zip(values) {
                changes(slot, value, changing);
            }
        }
        _ => {}
    }
}

/// Visits the variables that a value consists of or is a part of.
fn each_var(value: &mut Value, f: &mut dyn FnMut(&mut Var)) {
    match value {
        Value::Tensor { var, .. } => f(var),
        Value::Place(Place {
            base: Base::Local(var),
            ..
        }) => f(var),
        Value::Tuple(values) => values.iter_mut().for_each(|v| each_var(v, f)),
        _ => {}
    }
}

/// Collects the stores of values that are not in their slots, and makes the values refer to the
/// slots.
pub(in crate::lower) fn settle(slot: &Slot, value: &mut Value, stores: &mut Vec<(Var, Var)>) {
    match (slot, value) {
        (Slot::One(slot), Value::Tensor { var, .. }) if var != slot => {
            stores.push((*slot, *var));
            *var = *slot;
        }
        (Slot::Many(slots), Value::Tuple(values)) => {
            for (slot, value) in slots.iter().zip(values) {
                settle(slot, value, stores);
            }
        }
        _ => {}
    }
}

/// Returns the aval of a value that has either aval.
pub(in crate::lower) fn join(a: &Aval, b: &Aval) -> Aval {
    let dims = match (a.shape.dims(), b.shape.dims()) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            let dims = a.iter().zip(b);
            Some(
                dims.map(|(a, b)| {
                    if a == b {
                        *a
                    } else {
                        gradloom_ir::Dim::Unknown
                    }
                })
                .collect(),
            )
        }
        _ => None,
    };
    Aval {
        dtype: a.dtype.filter(|d| b.dtype == Some(*d)),
        shape: Shape(dims),
    }
}
