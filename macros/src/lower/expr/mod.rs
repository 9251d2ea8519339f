//! Lowers expressions.

pub(in crate::lower) mod call;
pub(in crate::lower) mod closure;
mod composite;
mod host_call;
pub(in crate::lower) mod index;
pub(in crate::lower) mod inline;
pub(in crate::lower) mod macros;
pub(in crate::lower) mod method;
pub(in crate::lower) mod op;
pub(in crate::lower) mod operand;
pub(in crate::lower) mod operator;
pub(in crate::lower) mod parts;
pub(in crate::lower) mod syntax;
pub(in crate::lower) mod trees;

use super::{Abort, Cx, Expected, Host, LowerResult, Place, Value, host};
use crate::method_table::reads_tensor;
use proc_macro2::Span;
use syn::Expr;
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Lowers an expression to a value.
    pub(super) fn eval(&mut self, expr: &Expr, want: &Expected) -> LowerResult<Value> {
        match expr {
            Expr::Paren(p) => return self.eval(&p.expr, want),
            Expr::Group(g) => return self.eval(&g.expr, want),
            _ => {}
        }
        // Calls such as `Tensor::zeros(..)` make a tensor although they mention none.
        let exits = super::expr::syntax::exits(expr);
        let makes = makes_tensor(expr) || makes_tree(expr);
        if !exits && !self.names.mentions_traced(expr) && !makes {
            if host::leaves_function(expr) {
                return self.recorded("`return`", expr.span());
            }
            let content = self.names.content(expr);
            return Ok(Value::Host(Host {
                expr: self.rename(expr),
                reads: Vec::new(),
                content,
            }));
        }
        let is_control = super::expr::syntax::is_control(expr);
        // Other operands of the same expression have been lowered already, so an assignment
        // here would come too late.
        if (is_control || matches!(expr, Expr::Block(_)))
            && self.names.ends_blocks(expr)
            && self.names.assigns(expr)
        {
            return self.recorded("an assignment inside an expression", expr.span());
        }
        if is_control {
            return self.control(expr, want, super::flow::control::Use::Value);
        }
        match expr {
            Expr::Path(p) => match p.path.get_ident() {
                Some(ident) => {
                    let value = self.names.lookup(&crate::input::unraw(ident));
                    let mut value = value.expect("the expression mentions a tensor").clone();
                    if let Value::Place(place) = &mut value {
                        place.stands_at(ident.span());
                    }
                    Ok(value)
                }
                None => self.recorded("a path", p.span()),
            },
            Expr::Reference(r) => {
                if let Some(token) = &r.mutability {
                    return self.recorded("`&mut`", token.span());
                }
                if matches!(syntax::peel(&r.expr), Expr::Reference(_)) {
                    return self.recorded("a reference to a reference", r.span());
                }
                Ok(by_ref(
                    self.eval(&r.expr, want)?,
                    true,
                    |e| syn::parse_quote!(&#e),
                ))
            }
            Expr::Unary(u) => self.unary(u),
            Expr::Binary(b) => self.binary(b),
            Expr::Block(b) if b.label.is_none() => self.block(&b.block, want),
            Expr::Tuple(t) => self.tuple(t, want),
            Expr::Array(a) => self.array(a),
            Expr::Field(f) => self.field_of(f),
            Expr::Index(i) => self.index(i),
            Expr::Cast(c) => self.cast(c),
            // rustc rejects `?` in a function that does not return `Result`. Tracing the body at
            // run time keeps the companions from causing a second error.
            Expr::Try(t) if self.func.output.result.is_none() => {
                self.recorded("`?`", t.question_token.span())
            }
            Expr::Try(t) => match &*t.expr {
                call @ (Expr::Call(_) | Expr::MethodCall(_)) => {
                    self.eval_fallible_at(call, want, t.span())
                }
                other => self.recorded("`?`", other.span()),
            },
            Expr::Call(call) => self.call(call, want, false),
            Expr::MethodCall(call) => self.method(call, want, false),
            Expr::Closure(e) => self.closure(e),
            Expr::Range(e) => self.range(e),
            other => self.not_lowered(other),
        }
    }

    /// Reports an expression that is not understood.
    fn not_lowered(&mut self, expr: &Expr) -> LowerResult<Value> {
        match expr {
            Expr::Macro(m) => {
                let name = m
                    .mac
                    .path
                    .segments
                    .last()
                    .map(|s| s.ident.to_string())
                    .unwrap_or_default();
                if name == "vec" {
                    return self.vec_macro(m);
                }
                self.recorded(&format!("`{name}!`"), m.mac.path.span())
            }
            Expr::Await(e) => {
                self.diagnostics.errors.push(
                    &e.await_token,
                    "a traced function cannot `.await`; await outside of it",
                );
                Err(Abort::Error)
            }
            Expr::Unsafe(e) => self.recorded("`unsafe`", e.unsafe_token.span()),
            Expr::Struct(e) => self.structure(e),
            other => self.recorded("an expression that is not understood", other.span()),
        }
    }

    /// Lowers a call whose `Result` is unwrapped here.
    pub(super) fn eval_fallible(&mut self, expr: &Expr, want: &Expected) -> LowerResult<Value> {
        self.eval_fallible_at(expr, want, expr.span())
    }

    fn eval_fallible_at(&mut self, expr: &Expr, want: &Expected, span: Span) -> LowerResult<Value> {
        let value = match expr {
            Expr::Call(call) => self.call(call, want, true)?,
            Expr::MethodCall(call) => self.method(call, want, true)?,
            _ => return self.recorded("`?`", span),
        };
        match value {
            Value::Host(h) => Ok(self.rebuild(vec![Value::Host(h)], |mut e| {
                let e = e.remove(0);
                syn::parse_quote!(#e?)
            })),
            other => Ok(other),
        }
    }

    /// Lowers a host expression that is a static argument.
    pub(super) fn static_value(&mut self, expr: &Expr) -> LowerResult<Host> {
        let outer = std::mem::replace(&mut self.host.reads_places, true);
        let of_values = match syntax::peel(expr) {
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                op::find(&name, false).is_none() && !reads_tensor(&name)
            }
            _ => false,
        };
        let outer_value = std::mem::replace(&mut self.host.is_static, of_values);
        let value = self.eval(expr, &Expected::tensor());
        self.host.reads_places = outer;
        self.host.is_static = outer_value;
        self.host_of(value?, expr)
    }

    /// Returns the host expression of `value`, to which `expr` was lowered.
    pub(super) fn host_of(&mut self, value: Value, expr: &Expr) -> LowerResult<Host> {
        self.keep_number(&value)?;
        match value {
            Value::Host(h) => Ok(h),
            Value::Place(p) => Ok(Host {
                content: self.content_of_part(&p),
                reads: p.reads(),
                expr: p.as_host(),
            }),
            Value::Poison => Err(Abort::Error),
            Value::Closure(_) | Value::Uninit(_) | Value::Never => {
                self.recorded("a static argument", expr.span())
            }
            Value::Tensor { .. } | Value::Tuple(_) => {
                self.diagnostics.errors.push(
                    expr,
                    "this argument is part of the program, so it cannot depend on the values of a tensor; pass it as a parameter, or read `.dim(axis)`",
                );
                Err(Abort::Error)
            }
        }
    }
}

/// Returns a copy of a value; `host` wraps host expressions.
pub(super) fn copy(value: Value, host: impl FnOnce(Expr) -> Expr) -> Value {
    match by_ref(value, false, host) {
        Value::Place(place) => Value::Place(Place {
            owned: true,
            lent: None,
            ..place
        }),
        value => value,
    }
}

/// Returns the same value as a reference, or as an owned value; `host` wraps host expressions.
pub(super) fn by_ref(value: Value, by_ref: bool, host: impl FnOnce(Expr) -> Expr) -> Value {
    match value {
        Value::Tensor { var, .. } => Value::Tensor { var, by_ref },
        Value::Place(place) => Value::Place(Place { by_ref, ..place }),
        Value::Host(h) => Value::Host(Host {
            expr: host(h.expr),
            ..h
        }),
        other => other,
    }
}

/// Returns whether an expression contains a call that makes a tensor.
pub(super) fn makes_tensor_inside(expr: &Expr) -> bool {
    struct TensorCallFinder(bool);
    impl<'ast> syn::visit::Visit<'ast> for TensorCallFinder {
        fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
            self.0 |= super::expr::op::tensor_function(&call.func).is_some();
            syn::visit::visit_expr_call(self, call);
        }
    }
    let mut found = TensorCallFinder(false);
    syn::visit::Visit::visit_expr(&mut found, expr);
    found.0
}

/// Returns whether an expression is a struct or a list with tensors that it makes itself.
fn makes_tree(expr: &Expr) -> bool {
    match expr {
        Expr::Struct(e) => e
            .fields
            .iter()
            .any(|f| makes_tensor(&f.expr) || makes_tree(&f.expr)),
        _ => false,
    }
}

/// Returns whether the innermost operand of an expression is a call of an associated function of
/// `Tensor`.
fn makes_tensor(expr: &Expr) -> bool {
    match expr {
        Expr::Call(c) => super::expr::op::tensor_function(&c.func).is_some(),
        Expr::MethodCall(m) => {
            makes_tensor(&m.receiver)
                && (op::is_method(&m.method.to_string()) || index::takes_index(m))
        }
        Expr::Reference(r) => makes_tensor(&r.expr),
        Expr::Paren(p) => makes_tensor(&p.expr),
        Expr::Unary(u) => makes_tensor(&u.expr),
        Expr::Binary(b) => makes_tensor(&b.left) || makes_tensor(&b.right),
        Expr::Tuple(t) => t.elems.iter().any(makes_tensor),
        Expr::Array(a) => a.elems.iter().any(makes_tensor),
        Expr::Block(b) => {
            matches!(b.block.stmts.last(), Some(syn::Stmt::Expr(e, None)) if makes_tensor(e))
        }
        _ => false,
    }
}
