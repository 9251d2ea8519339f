//! Lowers operators.

use super::by_ref;
use super::inline::{inline_at, root_of};
use super::syntax::peel;
use crate::input::{self, classify, text};
use crate::lower::numbers::{OperandPlace, Side, operand_place};
use crate::lower::state::block_builder::Unclear;
use crate::lower::state::kinds::Kind;
use crate::lower::{Abort, Base, Content, Cx, Expected, Host, LowerResult, Place, Value};
use crate::method_table::methods;
use crate::program::Effect;
use crate::report::Errors;
use gradloom_ir::{Op, Var};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Type, UnOp};

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
            (UnOp::Neg(t), value) if self.is_own_operator(&[&value], t.span()) => {
                let make = |parts: &[TokenStream]| quote!(-(#(#parts)*));
                self.own_operator(vec![(&u.expr, value)], make, (text(u), t.span()))
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
                let unclear = self.unclear(&[&value]);
                let x = self.tensor(value, None)?;
                self.emit_operator(Op::Neg, vec![x], t.span(), unclear)
            }
            (UnOp::Not(t), Value::Tensor { var, .. }) => {
                self.emit_operator(Op::BitNot, vec![var], t.span(), None)
            }
            (op, _) => self.recorded("an operator on a value that is not a tensor", op.span()),
        }
    }

    pub(in crate::lower) fn binary(&mut self, b: &syn::ExprBinary) -> LowerResult<Value> {
        let op = match &b.op {
            BinOp::Add(_) => Ok(Op::Add),
            BinOp::Sub(_) => Ok(Op::Sub),
            BinOp::Mul(_) => Ok(Op::Mul),
            BinOp::Div(_) => Ok(Op::Div),
            BinOp::BitAnd(_) => Ok(Op::BitAnd),
            BinOp::BitOr(_) => Ok(Op::BitOr),
            // With a number on the right, a power is meant.
            BinOp::BitXor(_) if !matches!(&*b.right, Expr::Lit(_)) => Ok(Op::BitXor),
            BinOp::Shl(_) => Ok(Op::ShiftLeft),
            BinOp::Shr(_) => Ok(Op::ShiftRight),
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
        let compares = matches!(op, Err(method) if !method.is_empty());
        if !is_lazy && !compares && self.is_own_operator(&[&left, &right], b.op.span()) {
            let op = &b.op;
            let make = |parts: &[TokenStream]| {
                let (left, right) = (&parts[0], &parts[1]);
                quote!((#left) #op (#right))
            };
            let operands = vec![(&*b.left, left), (&*b.right, right)];
            return self.own_operator(operands, make, (text(b), b.op.span()));
        }
        let is_tensor = |v: &Value| matches!(v, Value::Tensor { .. });
        let traced = is_tensor(&left) || is_tensor(&right);
        // Bits of parts of trees are those of numbers.
        let is_arithmetic = |op: &Op| matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div);
        let op = match op {
            Ok(op) if !traced && !is_arithmetic(&op) => Err(""),
            op => op,
        };
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
        if op.is_err() {
            self.keep_number(&left)?;
            self.keep_number(&right)?;
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
                    BinOp::And(_) => "combine conditions with `&`",
                    BinOp::Or(_) => "combine conditions with `|`",
                    _ => "write `x.rem(&y)`",
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
        let unclear = self.unclear(&[&left, &right]);
        for (number, other, side) in [(&left, &right, Side::Left), (&right, &left, Side::Right)] {
            let is_tensor = matches!(other, Value::Tensor { .. } | Value::Place(_));
            if is_tensor {
                self.note_number(Some(number), operand_place(span, side));
            }
        }
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
        self.emit_operator(op, vec![x, y], span, unclear)
    }

    /// Notes a host value that is an operand of a tensor.
    pub(in crate::lower) fn note_number(&mut self, value: Option<&Value>, place: OperandPlace) {
        if matches!(value, Some(Value::Host(_))) {
            self.host.number_operands.insert(place);
        }
    }

    /// Returns whether an operator is one of a type of the user's.
    ///
    /// The operands tell, or later code does.
    pub(in crate::lower) fn is_own_operator(&self, operands: &[&Value], span: Span) -> bool {
        operands.iter().any(|value| self.has_own_operators(value))
            || self.choices.contains(&inline_at(span))
    }

    fn has_own_operators(&self, value: &Value) -> bool {
        match value {
            Value::Place(place) => self.is_own_tree(place),
            Value::Tensor { var, .. } => self.builder.kinds.has_own_operators(*var),
            _ => false,
        }
    }

    /// Refuses a tree where a tensor is written, as a `Deref` of the user's allows, because its
    /// operators would be taken for those of the tree.
    pub(in crate::lower) fn keep_type(&mut self, value: &Value, ty: &Type) -> LowerResult<()> {
        if classify(ty, &mut Errors::default()) != input::Kind::Tensor
            || !self.has_own_operators(value)
        {
            return Ok(());
        }
        match value {
            Value::Tensor { var, by_ref: false }
                if self.builder.kinds.decide(*var, Kind::Tensor) =>
            {
                Ok(())
            }
            _ => self.recorded("a tree that is used as a tensor", ty.span()),
        }
    }

    /// Returns whether a place is a whole tree of a type that the user declares.
    pub(in crate::lower) fn is_own_tree(&self, place: &Place) -> bool {
        let Base::Param(param) = place.base else {
            return place.root;
        };
        let is_own = match &self.func.params[param].owned {
            Type::Path(p) => p.path.segments.last().is_some_and(|s| s.ident != "Box"),
            _ => false,
        };
        place.root && is_own && self.view(place.base).is_none()
    }

    /// Lowers an operator of a type of the user's: a step that is recorded.
    pub(in crate::lower) fn own_operator(
        &mut self,
        operands: Vec<(&Expr, Value)>,
        make: impl FnOnce(&[TokenStream]) -> TokenStream,
        (shown, span): (String, Span),
    ) -> LowerResult<Value> {
        if !self.forms || self.host.reads_places {
            return self.recorded("an operator on trees", span);
        }
        // A `Deref` tells nothing of the type that it gives.
        if operands.iter().any(|(expr, _)| is_dereferenced(expr)) {
            return self.recorded("an operator on a tree behind `*`", span);
        }
        for (_, value) in &operands {
            if let Value::Tensor { var, .. } = value {
                self.operator_on_trees(*var, &[Unclear::Result, Unclear::Part])?;
            }
        }
        let operands = operands.into_iter().map(|(_, value)| value).collect();
        let var = self.step(
            operands,
            |parts| make(&parts),
            Effect::Records,
            (shown, span),
        )?;
        self.builder.kinds.open_with_own_operators(var);
        Ok(Value::Tensor { var, by_ref: false })
    }

    /// Returns whether an expression computes with parts of trees and with numbers only, so that its
    /// value may be a number or a tensor.
    pub(in crate::lower) fn computes_parts(&self, expr: &Expr) -> bool {
        let is_operand = |e: &Expr| {
            let part = match peel(e) {
                Expr::Reference(r) => peel(&r.expr),
                Expr::Cast(c) => peel(&c.expr),
                e => e,
            };
            matches!(part, Expr::Field(_) | Expr::Index(_)) && root_of(part).is_some()
                || !self.names.mentions_traced(e)
                || self.computes_parts(e)
        };
        match peel(expr) {
            Expr::Binary(b) => is_operand(&b.left) && is_operand(&b.right),
            Expr::Unary(u) => is_operand(&u.expr),
            Expr::MethodCall(m) => {
                methods(&m.method.to_string()).next().is_some()
                    && is_operand(&m.receiver)
                    && m.args.iter().all(is_operand)
            }
            _ => false,
        }
    }

    /// Returns why operands may be trees, if one may be.
    fn unclear(&self, operands: &[&Value]) -> Option<Unclear> {
        let unclear = operands.iter().map(|value| match value {
            Value::Tensor { var, .. } => match self.builder.kinds.of(*var) {
                Kind::Open => Some(Unclear::Result),
                _ => {
                    let operator = self.builder.unclear_operators.get(var);
                    operator.map(|(_, why)| *why)
                }
            },
            Value::Place(_) => Some(Unclear::Part),
            _ => None,
        });
        let unclear: Vec<Unclear> = unclear.flatten().collect();
        let result = unclear.iter().find(|why| **why == Unclear::Result);
        result.or(unclear.first()).copied().filter(|_| self.forms)
    }

    /// Lowers an operator of tensors; `unclear` tells why its operands may be trees.
    fn emit_operator(
        &mut self,
        op: Op,
        data: Vec<Var>,
        span: Span,
        unclear: Option<Unclear>,
    ) -> LowerResult<Value> {
        let numbers = &self.builder.may_be_numbers;
        let number = data.iter().find_map(|x| numbers.get(x)).copied();
        let out = self.emit(op, &[], data, vec![], 1, span)?[0];
        if let Some(choice) = number {
            self.builder.may_be_numbers.insert(out, choice);
        }
        if let Some(why) = unclear {
            let operator = (inline_at(span), why);
            self.builder.unclear_operators.insert(out, operator);
        }
        Ok(Value::Tensor {
            var: out,
            by_ref: false,
        })
    }

    /// Lowers the body again with an operator on trees, if a value that is a tree is the result of
    /// an operator that was taken for one of tensors.
    ///
    /// A result that only its type says to be a tree may be a tensor, as types have aliases. `found`
    /// are the operators that are lowered again.
    pub(in crate::lower) fn operator_on_trees(
        &self,
        var: Var,
        found: &[Unclear],
    ) -> LowerResult<()> {
        match self.builder.unclear_operators.get(&var) {
            Some((choice, why)) if found.contains(why) => Err(Abort::Again(*choice)),
            _ => Ok(()),
        }
    }

    /// Lowers `left op right` of host values.
    pub(in crate::lower) fn operated(&self, op: Op, left: &Host, right: &Host) -> Value {
        let (x, y) = (&left.expr, &right.expr);
        let expr: Expr = match op {
            Op::Add => syn::parse_quote!(#x + (#y)),
            Op::Sub => syn::parse_quote!(#x - (#y)),
            Op::Mul => syn::parse_quote!(#x * (#y)),
            Op::Div => syn::parse_quote!(#x / (#y)),
            Op::BitAnd => syn::parse_quote!(#x & (#y)),
            Op::BitOr => syn::parse_quote!(#x | (#y)),
            Op::BitXor => syn::parse_quote!(#x ^ (#y)),
            Op::ShiftLeft => syn::parse_quote!(#x << (#y)),
            Op::ShiftRight => syn::parse_quote!(#x >> (#y)),
            op => unreachable!("`{op}` is not an operator"),
        };
        let values = vec![Value::Host(left.clone()), Value::Host(right.clone())];
        self.computed(values, |_| expr)
    }
}

/// Returns whether an expression is `*x`, or a reference to it.
fn is_dereferenced(expr: &Expr) -> bool {
    match peel(expr) {
        Expr::Reference(r) => is_dereferenced(&r.expr),
        Expr::Unary(u) => matches!(u.op, UnOp::Deref(_)),
        _ => false,
    }
}
