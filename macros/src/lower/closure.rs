//! Closures that are called in place: their bodies are lowered where they are called.

use super::{Cx, Local, R, Value, Want};
use std::collections::BTreeMap;
use syn::ExprClosure;
use syn::spanned::Spanned;

/// A closure, and the locals that it captures, as they are where it stands.
#[derive(Debug)]
pub(super) struct Closure {
    expr: ExprClosure,
    captured: BTreeMap<String, Local>,
}

impl Closure {
    /// The values that it captures.
    pub(super) fn captured(&self) -> impl Iterator<Item = &Value> {
        self.captured.values().map(|local| &local.value)
    }
}

impl Cx<'_> {
    pub(super) fn closure(&mut self, expr: &ExprClosure) -> R<Value> {
        if self.flow.is_none() {
            return self.recorded("a closure", expr.span());
        }
        if super::host::leaves_function(&expr.body) || super::syntax::has_return(&expr.body) {
            return self.recorded("a closure with `return` or `?`", expr.span());
        }
        if self.assigns(&expr.body) {
            return self.recorded("a closure that assigns", expr.span());
        }
        // A slot may have another value when the closure is called, unless the closure borrows it.
        let mut names = Vec::new();
        super::host::names(&expr.body, &mut |ident| {
            names.push(crate::parse::unraw(ident))
        });
        let mut captured = BTreeMap::new();
        for name in names {
            let local = self.scopes.iter().rev().find_map(|s| s.get(&name));
            let Some(local) = local.cloned() else {
                continue;
            };
            let borrowed = expr.capture.is_none() && local.slot.is_some();
            if self.holds_slot(&local.value) && !borrowed {
                return self.recorded("a closure that keeps a value that changes", expr.span());
            }
            // The closure does not assign to it, so its slot is none of the closure's.
            let value = match expr.capture {
                Some(_) => self.fixed_value(local.value, &name),
                None => local.value,
            };
            captured.insert(name, value.into());
        }
        Ok(Value::Closure(std::rc::Rc::new(Closure {
            expr: expr.clone(),
            captured,
        })))
    }

    /// The value of a closure for these arguments.
    pub(super) fn call_closure(
        &mut self,
        closure: &Closure,
        call: &syn::ExprCall,
        want: &Want,
    ) -> R<Value> {
        if closure.expr.inputs.len() != call.args.len() {
            return self.recorded("a wrong number of arguments for a closure", call.span());
        }
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.eval(arg, &Want::one())?);
        }
        // Loops and branches in the body find every local of the caller in its slot.
        self.flush();
        let outer = std::mem::replace(&mut self.scopes, vec![closure.captured.clone()]);
        self.scopes.push(BTreeMap::new());
        let params = closure.expr.inputs.iter().zip(args);
        let bound = params.map(|(pat, arg)| match arg {
            Value::Host(host) => self.bind_host(pat, None, &host, host.number),
            arg => self.bind(pat, arg),
        });
        let bound: R<Vec<()>> = bound.collect();
        let value = bound.and_then(|_| self.eval(&closure.expr.body, want));
        self.scopes = outer;
        value
    }

    /// Whether a value is what a slot holds.
    fn holds_slot(&self, value: &Value) -> bool {
        match value {
            Value::Tensor { var, .. } => self.slot_avals().iter().any(|(slot, _)| slot == var),
            Value::Tuple(values) => values.iter().any(|v| self.holds_slot(v)),
            _ => false,
        }
    }
}
