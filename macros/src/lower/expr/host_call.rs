//! Lowers calls that return numbers: host code, unlike calls of traced functions.
//!
//! The macro does not see the result type of a callee. A call is taken for one of a traced function until
//! its result is cast with `as`, has the written type of a number, or is a static argument, a bound of a
//! range or a condition. Then the body is lowered again with [`Choice::Number`].

use crate::lower::{Abort, Base, Choice, Content, Cx, Expected, Host, LowerResult, Place, Value};
use gradloom_ir::Var;
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprMethodCall};

impl Cx<'_> {
    /// Notes a result of the call at `span`, which is a number if a later use shows it.
    pub(in crate::lower) fn may_be_number(&mut self, out: Var, span: Span) {
        self.builder.may_be_numbers.insert(out, number_at(span));
    }

    /// Returns whether a use of the result of the call at `span` shows that it is a number.
    pub(in crate::lower) fn gives_number(&self, span: Span) -> bool {
        self.choices.contains(&number_at(span))
    }

    /// Lowers the body again if a value that is used as a number is the result of a call.
    pub(in crate::lower) fn keep_number(&self, value: &Value) -> LowerResult<()> {
        match value {
            Value::Tensor { var, .. } => match self.builder.may_be_numbers.get(var) {
                Some(choice) if !self.choices.contains(choice) => Err(Abort::Again(*choice)),
                _ => Ok(()),
            },
            Value::Tuple(parts) => parts.iter().try_for_each(|part| self.keep_number(part)),
            _ => Ok(()),
        }
    }

    /// Lowers a call of a method that returns a number.
    pub(in crate::lower) fn host_method_of(
        &mut self,
        call: &ExprMethodCall,
        receiver: &Place,
    ) -> LowerResult<Value> {
        let mut values = vec![Value::Host(Host {
            expr: receiver.expr.clone(),
            reads: receiver.reads(),
            content: Content::Plain,
        })];
        for arg in &call.args {
            values.push(self.host_argument(arg)?);
        }
        Ok(self.rebuilt(values, Content::Plain, |mut parts| {
            Expr::MethodCall(ExprMethodCall {
                receiver: Box::new(parts.remove(0)),
                args: parts.into_iter().collect(),
                ..call.clone()
            })
        }))
    }

    /// Lowers a call of a function that returns a number.
    pub(in crate::lower) fn host_function(&mut self, call: &ExprCall) -> LowerResult<Value> {
        let values = call.args.iter().map(|arg| self.host_argument(arg));
        let values = values.collect::<LowerResult<Vec<Value>>>()?;
        Ok(self.rebuilt(values, Content::Plain, |parts| {
            Expr::Call(ExprCall {
                args: parts.into_iter().collect(),
                ..call.clone()
            })
        }))
    }

    /// Lowers an argument of a call that returns a number.
    ///
    /// Host code cannot read a tensor of the program, so the body is recorded if the argument is one.
    fn host_argument(&mut self, arg: &Expr) -> LowerResult<Value> {
        let place = match self.eval(arg, &Expected::tensor())? {
            Value::Host(host) => return Ok(Value::Host(host)),
            Value::Poison => return Err(Abort::Error),
            Value::Place(place) => place,
            _ => return self.recorded("a call that returns a number of a tensor", arg.span()),
        };
        let (e, rt) = (&place.expr, &self.rt);
        let is_reference = match place.base {
            Base::Param(i) => self.func.params[i].by_ref,
            Base::Local(_) => false,
        };
        let expr = match (place.root, place.by_ref) {
            (true, _) if self.view(place.base).is_some() => {
                return self.recorded(
                    "a call that returns a number of a borrowed list",
                    arg.span(),
                );
            }
            (true, true) if is_reference => syn::parse_quote!(&*#e),
            (true, true) => syn::parse_quote!(&#e),
            (true, false) => syn::parse_quote!(#rt::copy(&#e)),
            (false, _) => place.as_host(),
        };
        Ok(Value::Host(Host {
            expr,
            reads: place.reads(),
            content: Content::Plain,
        }))
    }
}

fn number_at(span: Span) -> Choice {
    let at = span.start();
    Choice::Number(at.line, at.column)
}
