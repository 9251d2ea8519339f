//! Closures that are called in place: their bodies are lowered where they are called.

use super::{Cx, Local, R, Value, Want};
use std::collections::BTreeMap;
use syn::ExprClosure;
use syn::spanned::Spanned;

/// A closure, and the locals where it stands.
#[derive(Debug)]
pub(super) struct Closure {
    expr: ExprClosure,
    scopes: Vec<BTreeMap<String, Local>>,
}

impl Cx<'_> {
    pub(super) fn closure(&mut self, expr: &ExprClosure) -> R<Value> {
        if self.flow.is_none() {
            return self.recorded("a closure", expr.span());
        }
        if super::host::leaves_function(&expr.body) || super::syntax::has_return(&expr.body) {
            return self.recorded("a closure with `return` or `?`", expr.span());
        }
        if !super::syntax::assigned(&expr.body).is_empty() {
            return self.recorded("a closure that assigns", expr.span());
        }
        // A slot may have another value when the closure is called, unless the closure borrows it.
        let mut captured = Vec::new();
        super::host::names(&expr.body, &mut |ident| {
            captured.push(crate::parse::unraw(ident))
        });
        for name in captured {
            let local = self.scopes.iter().rev().find_map(|s| s.get(&name));
            let borrowed = expr.capture.is_none() && local.is_some_and(|l| l.slot.is_some());
            if local.is_some_and(|l| self.holds_slot(&l.value)) && !borrowed {
                return self.recorded("a closure that keeps a value that changes", expr.span());
            }
        }
        Ok(Value::Closure(std::rc::Rc::new(Closure {
            expr: expr.clone(),
            scopes: self.scopes.clone(),
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
        let outer = std::mem::replace(&mut self.scopes, closure.scopes.clone());
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
