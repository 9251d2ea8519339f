//! Lowers closures that are called in place, by lowering their bodies at each call.

use crate::lower::{Cx, Expected, Local, LowerResult, MOST_CLOSURE_CALLS, Value};
use gradloom_ir::Var;
use std::collections::{BTreeMap, BTreeSet};
use syn::ExprClosure;
use syn::spanned::Spanned;

/// Closure with the locals that it captures, as they are at its definition.
#[derive(Debug)]
pub(in crate::lower) struct Closure {
    expr: ExprClosure,
    captured: BTreeMap<String, Local>,
}

impl Closure {
    /// Returns the captured values.
    pub(in crate::lower) fn captured(&self) -> impl Iterator<Item = &Value> {
        self.captured.values().map(|local| &local.value)
    }
}

impl Cx<'_> {
    pub(in crate::lower) fn closure(&mut self, expr: &ExprClosure) -> LowerResult<Value> {
        if crate::lower::host::leaves_function(&expr.body) || super::syntax::has_return(&expr.body)
        {
            return self.recorded("a closure with `return` or `?`", expr.span());
        }
        if self.names.assigns(&expr.body) {
            return self.recorded("a closure that assigns", expr.span());
        }
        // Unless the closure borrows it, a slot may have another value by the time of the call.
        let mut names = Vec::new();
        crate::lower::host::names(&expr.body, &mut |ident| {
            names.push(crate::input::unraw(ident))
        });
        self.keep_captured(&names);
        let mut captured = BTreeMap::new();
        for name in names {
            let local = self.names.scopes.iter().rev().find_map(|s| s.get(&name));
            let Some(local) = local.cloned() else {
                continue;
            };
            let borrowed = expr.capture.is_none() && local.slot.is_some();
            if !borrowed && !self.slots_in(&local.value).is_empty() {
                return self.recorded(
                    "a closure that captures a value that changes later",
                    expr.span(),
                );
            }
            // The closure does not assign to the local, so it needs no slot.
            let value = match expr.capture {
                Some(_) => self.hoisted_value(local.value, &name),
                None => local.value,
            };
            captured.insert(name, value.into());
        }
        Ok(Value::Closure(std::rc::Rc::new(Closure {
            expr: expr.clone(),
            captured,
        })))
    }

    /// Lowers a call of a closure.
    pub(in crate::lower) fn call_closure(
        &mut self,
        closure: &Closure,
        call: &syn::ExprCall,
        want: &Expected,
    ) -> LowerResult<Value> {
        if closure.expr.inputs.len() != call.args.len() {
            return self.recorded("a wrong number of arguments for a closure", call.span());
        }
        self.closure_calls += 1;
        if self.closure_calls > MOST_CLOSURE_CALLS {
            let what = format!("more than {MOST_CLOSURE_CALLS} calls of closures");
            return self.recorded(&what, call.span());
        }
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.eval(arg, &Expected::tensor())?);
        }
        // Loops and branches in the body expect every local of the caller in its slot.
        self.flush();
        let outer = std::mem::replace(&mut self.names.scopes, vec![closure.captured.clone()]);
        self.names.scopes.push(BTreeMap::new());
        let params = closure.expr.inputs.iter().zip(args);
        let bound = params.map(|(pat, arg)| match arg {
            Value::Host(host) => self.bind_host(pat, None, &host, host.is_number()),
            arg => {
                if let syn::Pat::Type(pat) = pat {
                    self.keep_type(&arg, &pat.ty)?;
                }
                self.bind(pat, arg)
            }
        });
        let bound: LowerResult<Vec<()>> = bound.collect();
        let value = bound.and_then(|_| self.eval(&closure.expr.body, want));
        self.names.scopes = outer;
        value
    }

    /// Saves the values of slots that captured locals refer to, because the slots may change before
    /// the call.
    ///
    /// Slots that the closure borrows are left alone.
    fn keep_captured(&mut self, names: &[String]) {
        let mut changing = BTreeSet::new();
        for name in names {
            let local = self.names.scopes.iter().rev().find_map(|s| s.get(name));
            if let Some(local) = local.filter(|local| local.slot.is_none()) {
                changing.extend(self.slots_in(&local.value));
            }
        }
        if !changing.is_empty() {
            self.flush();
            self.keep_values_of(&changing);
            self.flush();
        }
    }

    /// Returns the slots that a value refers to.
    fn slots_in(&self, value: &Value) -> Vec<Var> {
        match value {
            Value::Tensor { var, .. } => {
                let is_slot = self.slot_avals().iter().any(|(slot, _)| slot == var);
                is_slot.then_some(*var).into_iter().collect()
            }
            Value::Tuple(values) => values.iter().flat_map(|v| self.slots_in(v)).collect(),
            _ => Vec::new(),
        }
    }
}
