//! Lowers operators.

use super::by_ref;
use crate::lower::{Abort, Content, Cx, Expected, Host, LowerResult, Value};
use gradloom_ir::{Op, Var};
use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, UnOp};

impl Cx<'_> {
    pub(in crate::lower) fn unary(&mut self, u: &syn::ExprUnary) -> LowerResult<Value> {
        let value = self.eval(&u.expr, &Expected::tensor())?;
        match (&u.op, value) {
            (_, Value::Poison) => Err(Abort::Error),
            // A local bound by a pattern is a reference, and dereferencing it gives a place.
            //
            // The user's local is a reference to a reference, if it is an element of a list of
            // references.
            (UnOp::Deref(_), Value::Place(p))
                if p.is_bound_reference() && self.is_list_of_references(p.base) =>
            {
                Ok(Value::Place(p))
            }
            (UnOp::Deref(_), Value::Place(mut p)) if p.is_bound_reference() => {
                let expr = &p.expr;
                p.expr = syn::parse_quote_spanned!(expr.span()=> (*#expr));
                p.by_ref = false;
                Ok(Value::Place(p))
            }
            // A box.
            (UnOp::Deref(_), Value::Place(mut p)) if !p.by_ref && !p.root => {
                let expr = &p.expr;
                p.expr = syn::parse_quote_spanned!(expr.span()=> (*#expr));
                Ok(Value::Place(p))
            }
            (UnOp::Deref(_), value @ (Value::Tensor { .. } | Value::Place(_))) => {
                Ok(by_ref(value, false, |e| syn::parse_quote!((*#e))))
            }
            (_, Value::Host(h)) => Ok(self.computed(vec![Value::Host(h)], |mut e| {
                Expr::Unary(syn::ExprUnary {
                    expr: Box::new(e.remove(0)),
                    ..u.clone()
                })
            })),
            (op, Value::Place(p)) if self.host.reads_places || matches!(op, UnOp::Not(_)) => {
                let place = Host {
                    content: self.content_of_part(&p),
                    reads: p.reads(),
                    expr: p.expr,
                };
                Ok(self.rebuild(vec![Value::Host(place)], |mut e| {
                    Expr::Unary(syn::ExprUnary {
                        expr: Box::new(e.remove(0)),
                        ..u.clone()
                    })
                }))
            }
            (UnOp::Neg(t), value) => {
                let value = match self.copied(value) {
                    host @ Value::Host(_) => {
                        return Ok(self.computed(vec![host], |mut e| {
                            Expr::Unary(syn::ExprUnary {
                                expr: Box::new(e.remove(0)),
                                ..u.clone()
                            })
                        }));
                    }
                    value => value,
                };
                let x = self.tensor(value, None)?;
                self.emit_one(Op::Neg, &[], vec![x], t.span())
            }
            (op, _) => {
                self.diagnostics.errors.push(op, "`!` does not take a tensor; write `condition.select(&x, &y)` with `x` and `y` exchanged");
                Err(Abort::Error)
            }
        }
    }

    pub(in crate::lower) fn binary(&mut self, b: &syn::ExprBinary) -> LowerResult<Value> {
        let op = match &b.op {
            BinOp::Add(_) => Ok(Op::Add),
            BinOp::Sub(_) => Ok(Op::Sub),
            BinOp::Mul(_) => Ok(Op::Mul),
            BinOp::Div(_) => Ok(Op::Div),
            BinOp::Lt(_) => Err("lt"),
            BinOp::Le(_) => Err("le"),
            BinOp::Gt(_) => Err("gt"),
            BinOp::Ge(_) => Err("ge"),
            BinOp::Eq(_) => Err("eq"),
            BinOp::Ne(_) => Err("ne"),
            _ => Err(""),
        };
        let left = self.eval(&b.left, &Expected::tensor());
        let left = left.map(|left| self.fixed_before(left, [&*b.right].into_iter()));
        let n_lowered = self.n_lowered();
        let right = self.eval(&b.right, &Expected::tensor());
        let is_lazy = matches!(b.op, BinOp::And(_) | BinOp::Or(_));
        if is_lazy && n_lowered != self.n_lowered() && matches!(right, Ok(Value::Host(_))) {
            return self.recorded("a condition that is not always evaluated", b.right.span());
        }
        let (mut left, mut right) = (left?, right?);
        let is_tensor = |v: &Value| matches!(v, Value::Tensor { .. });
        let traced = is_tensor(&left) || is_tensor(&right);
        if !traced {
            (left, right) = (self.copied(left), self.copied(right));
        }
        if (!traced && (self.host.reads_places || op.is_err()))
            || matches!((&left, &right), (Value::Host(_), Value::Host(_)))
        {
            let Some(values) = self.hosts(&[left, right]) else {
                return self.recorded("an operator on trees", b.op.span());
            };
            let make = |mut e: Vec<Expr>| {
                let (right, left) = (e.pop().expect("two parts"), e.pop().expect("two parts"));
                Expr::Binary(syn::ExprBinary {
                    left: Box::new(left),
                    right: Box::new(right),
                    ..b.clone()
                })
            };
            return Ok(match op {
                Ok(_) => self.computed(values, make),
                // A comparison, or bits.
                Err(_) => self.rebuilt(values, Content::Plain, make),
            });
        }
        match op {
            Ok(op) => self.arithmetic(op, left, right, b.op.span()),
            Err(_) if matches!(left, Value::Poison) || matches!(right, Value::Poison) => {
                Err(Abort::Error)
            }
            Err("") => {
                let op = b.op.to_token_stream();
                let hint = match b.op {
                    BinOp::BitXor(_) if matches!(&*b.right, Expr::Lit(_)) => {
                        "a power is `x.pow(2.0)`"
                    }
                    BinOp::And(_)
                    | BinOp::Or(_)
                    | BinOp::BitAnd(_)
                    | BinOp::BitOr(_)
                    | BinOp::BitXor(_) => "combine conditions with `c.select(&d, &c)`",
                    BinOp::Rem(_) => "tensors have `+`, `-`, `*` and `/`",
                    _ => "multiply by a power of two",
                };
                self.diagnostics
                    .errors
                    .push(&b.op, format!("`{op}` does not take tensors; {hint}"));
                Err(Abort::Error)
            }
            // If a field such as `scale` in `model.scale.sqrt() > 0.5` is a tensor, rustc reports
            // the comparison in the user's function.
            Err(_) if self.names.may_be_number(&b.left) && self.names.may_be_number(&b.right) => {
                self.recorded("a comparison of fields, which may be numbers,", b.op.span())
            }
            Err(method) => {
                let op = b.op.to_token_stream();
                self.diagnostics.errors.push(&b.op, format!("`{op}` returns one `bool`, not one per element; write `x.{method}(&y)`, and choose with `.select(&a, &b)`"));
                Err(Abort::Error)
            }
        }
    }

    /// Turns a part of a borrowed tree that is an operand by value into a number.
    ///
    /// The part cannot be a tensor, because a tensor would be moved out of the borrowed tree.
    pub(in crate::lower) fn copied(&self, value: Value) -> Value {
        match value {
            Value::Place(p) if !p.root && !p.by_ref && !p.owned && self.is_reference(p.base) => {
                Value::Host(Host {
                    reads: p.reads(),
                    expr: p.expr,
                    content: Content::Number,
                })
            }
            value => value,
        }
    }

    /// Lowers `left op right`; a number on either side takes the dtype of the tensor.
    pub(in crate::lower) fn arithmetic(
        &mut self,
        op: Op,
        left: Value,
        right: Value,
        span: Span,
    ) -> LowerResult<Value> {
        let tensor_of = |v: &Value| match v {
            Value::Tensor { var, .. } => Some(*var),
            _ => None,
        };
        let (x, y) = match (tensor_of(&left), tensor_of(&right)) {
            (Some(x), _) => (x, self.tensor(right, Some(x))?),
            (None, Some(y)) => (self.tensor(left, Some(y))?, y),
            // If both operands are places, the left one is assumed to be a tensor. If one is a
            // number, the place is assumed to be a tensor.
            (None, None) if matches!(left, Value::Place(_)) => {
                let x = self.tensor(left, None)?;
                (x, self.tensor(right, Some(x))?)
            }
            (None, None) => {
                let y = self.tensor(right, None)?;
                (self.tensor(left, Some(y))?, y)
            }
        };
        self.emit_one(op, &[], vec![x, y], span)
    }

    /// Lowers `left op right` of host values.
    pub(in crate::lower) fn operated(&self, op: Op, left: &Host, right: &Host) -> Value {
        let (x, y) = (&left.expr, &right.expr);
        let expr: Expr = match op {
            Op::Add => syn::parse_quote!(#x + (#y)),
            Op::Sub => syn::parse_quote!(#x - (#y)),
            Op::Mul => syn::parse_quote!(#x * (#y)),
            _ => syn::parse_quote!(#x / (#y)),
        };
        let values = vec![Value::Host(left.clone()), Value::Host(right.clone())];
        self.computed(values, |_| expr)
    }

    /// Lowers an op with one result and no `Like` operand.
    fn emit_one(
        &mut self,
        op: Op,
        statics: &[gradloom_ir::Attr],
        data: Vec<Var>,
        span: Span,
    ) -> LowerResult<Value> {
        let out = self.emit(op, statics, data, vec![], 1, span)?;
        Ok(Value::Tensor {
            var: out[0],
            by_ref: false,
        })
    }
}
