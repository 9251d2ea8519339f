//! Operators and methods.

use super::expr::{by_ref, copy};
use super::{Cx, Host, Place, R, Stop, Value, Want, host};
use gradloom_ir::{Op, Var};
use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, UnOp};

/// Methods that give the value itself, as a value of its own.
const COPIES: [&str; 3] = ["clone", "to_owned", "into"];
/// Methods that give the value itself, by reference.
const BORROWS: [&str; 2] = ["as_ref", "borrow"];
/// Methods of a tensor that give what is no tensor.
const READERS: [&str; 11] = [
    "shape",
    "dim",
    "rank",
    "dtype",
    "numel",
    "aval",
    "is_realised",
    "item",
    "try_item",
    "to_vec",
    "try_to_vec",
];

/// Methods of numbers, strings and lists that no op has.
const NUMBER_METHODS: [&str; 16] = [
    "powi",
    "floor",
    "ceil",
    "round",
    "trunc",
    "fract",
    "recip",
    "to_radians",
    "to_degrees",
    "mul_add",
    "rem_euclid",
    "saturating_sub",
    "checked_sub",
    "div_ceil",
    "as_str",
    "as_slice",
];

impl Cx<'_> {
    pub(super) fn unary(&mut self, u: &syn::ExprUnary) -> R<Value> {
        let value = self.eval(&u.expr, &Want::one())?;
        match (&u.op, value) {
            (_, Value::Poison) => Err(Stop::Error),
            // What a pattern binds is a reference, and what lies behind it is a place of its own.
            (UnOp::Deref(_), Value::Place(mut p)) if p.is_bound_reference() => {
                let expr = &p.expr;
                p.expr = syn::parse_quote!((*#expr));
                p.by_ref = false;
                Ok(Value::Place(p))
            }
            (UnOp::Deref(_), value @ (Value::Tensor { .. } | Value::Place(_))) => {
                Ok(by_ref(value, false, |e| syn::parse_quote!((*#e))))
            }
            (_, Value::Host(h)) => Ok(self.rebuild(vec![Value::Host(h)], |mut e| {
                Expr::Unary(syn::ExprUnary {
                    expr: Box::new(e.remove(0)),
                    ..u.clone()
                })
            })),
            (op, Value::Place(p)) if self.host_places || matches!(op, UnOp::Not(_)) => {
                let place = Host {
                    expr: p.expr,
                    reads: Vec::new(),
                    number: false,
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
                        return Ok(self.rebuild(vec![host], |mut e| {
                            Expr::Unary(syn::ExprUnary {
                                expr: Box::new(e.remove(0)),
                                ..u.clone()
                            })
                        }));
                    }
                    value => value,
                };
                let x = self.tensor(value, None)?;
                self.one(Op::Neg, &[], vec![x], t.span())
            }
            (op, _) => {
                self.errors.push(op, "`!` does not take a tensor; write `condition.select(&x, &y)` with `x` and `y` exchanged");
                Err(Stop::Error)
            }
        }
    }

    pub(super) fn binary(&mut self, b: &syn::ExprBinary) -> R<Value> {
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
        let left = self.eval(&b.left, &Want::one());
        let left = left.map(|left| self.fixed_before(left, [&*b.right].into_iter()));
        let n_lowered = self.n_lowered();
        let right = self.eval(&b.right, &Want::one());
        let is_lazy = matches!(b.op, BinOp::And(_) | BinOp::Or(_));
        if is_lazy && n_lowered != self.n_lowered() && matches!(right, Ok(Value::Host(_))) {
            return self.recorded("a condition that may not be computed", b.right.span());
        }
        let (mut left, mut right) = (left?, right?);
        let is_tensor = |v: &Value| matches!(v, Value::Tensor { .. });
        let traced = is_tensor(&left) || is_tensor(&right);
        if !traced {
            (left, right) = (self.copied(left), self.copied(right));
        }
        if (!traced && (self.host_places || op.is_err()))
            || matches!((&left, &right), (Value::Host(_), Value::Host(_)))
        {
            let Some(values) = self.hosts(&[left, right]) else {
                return self.recorded("an operator on trees", b.op.span());
            };
            return Ok(self.rebuild(values, |mut e| {
                let (right, left) = (e.pop().expect("two parts"), e.pop().expect("two parts"));
                Expr::Binary(syn::ExprBinary {
                    left: Box::new(left),
                    right: Box::new(right),
                    ..b.clone()
                })
            }));
        }
        match op {
            Ok(op) => self.arithmetic(op, left, right, b.op.span()),
            Err(_) if matches!(left, Value::Poison) || matches!(right, Value::Poison) => {
                Err(Stop::Error)
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
                self.errors
                    .push(&b.op, format!("`{op}` does not take tensors; {hint}"));
                Err(Stop::Error)
            }
            // `model.scale.sqrt() > 0.5`: if the field is a tensor, rustc refuses the user's function.
            Err(_) if self.may_be_number(&b.left) && self.may_be_number(&b.right) => {
                self.recorded("a comparison of fields, which may be numbers,", b.op.span())
            }
            Err(method) => {
                let op = b.op.to_token_stream();
                self.errors.push(&b.op, format!("`{op}` gives one truth value, and tensors have many; write `x.{method}(&y)`, and choose by it with `.select(&a, &b)`"));
                Err(Stop::Error)
            }
        }
    }

    /// Whether an expression is a number if the fields are that it starts from.
    fn may_be_number(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(p) => self.may_be_number(&p.expr),
            Expr::Reference(r) => self.may_be_number(&r.expr),
            Expr::Unary(u) => self.may_be_number(&u.expr),
            Expr::Field(f) => self.may_be_number(&f.base),
            Expr::Index(i) => self.may_be_number(&i.expr),
            Expr::MethodCall(m) => self.may_be_number(&m.receiver),
            Expr::Path(p) => p.path.get_ident().is_none_or(|i| {
                let value = self.lookup(&crate::parse::unraw(i));
                !matches!(value, Some(Value::Tensor { .. } | Value::Tuple(_)))
            }),
            expr => !self.mentions_traced(expr),
        }
    }

    /// A part of a borrowed tree that an operator takes by value is a number: a tensor would be moved out of the tree.
    pub(super) fn copied(&self, value: Value) -> Value {
        match value {
            Value::Place(p)
                if !p.root && !p.by_ref && !p.owned && self.func.params[p.param].by_ref =>
            {
                Value::Host(Host {
                    expr: p.expr,
                    reads: Vec::new(),
                    number: true,
                })
            }
            value => value,
        }
    }

    /// `left op right`, where a number on either side takes the dtype of the tensor.
    pub(super) fn arithmetic(&mut self, op: Op, left: Value, right: Value, span: Span) -> R<Value> {
        let tensor_of = |v: &Value| match v {
            Value::Tensor { var, .. } => Some(*var),
            _ => None,
        };
        let (x, y) = match (tensor_of(&left), tensor_of(&right)) {
            (Some(x), _) => (x, self.tensor(right, Some(x))?),
            (None, Some(y)) => (self.tensor(left, Some(y))?, y),
            // Places: the one that is a tensor for certain is not known; a number in arithmetic with another place is
            // taken for a tensor, as the types say.
            (None, None) if matches!(left, Value::Place(_)) => {
                let x = self.tensor(left, None)?;
                (x, self.tensor(right, Some(x))?)
            }
            (None, None) => {
                let y = self.tensor(right, None)?;
                (self.tensor(left, Some(y))?, y)
            }
        };
        self.one(op, &[], vec![x, y], span)
    }

    /// `left op right` of host values.
    pub(super) fn operated(&self, op: Op, left: &Host, right: &Host) -> Value {
        let (x, y) = (&left.expr, &right.expr);
        let expr: Expr = match op {
            Op::Add => syn::parse_quote!(#x + (#y)),
            Op::Sub => syn::parse_quote!(#x - (#y)),
            Op::Mul => syn::parse_quote!(#x * (#y)),
            _ => syn::parse_quote!(#x / (#y)),
        };
        let values = vec![Value::Host(left.clone()), Value::Host(right.clone())];
        self.rebuild(values, |_| expr)
    }

    /// An op with one result and no `Like` operand.
    fn one(
        &mut self,
        op: Op,
        statics: &[gradloom_ir::Attr],
        data: Vec<Var>,
        span: Span,
    ) -> R<Value> {
        let out = self.emit(op, statics, data, vec![], 1, span)?;
        Ok(Value::Tensor {
            var: out[0],
            by_ref: false,
        })
    }

    pub(super) fn method(
        &mut self,
        call: &syn::ExprMethodCall,
        want: &Want,
        fallible: bool,
    ) -> R<Value> {
        let name = call.method.to_string();
        if ["unwrap", "expect"].contains(&name.as_str())
            && let Some(place) = self.lent(call)?
        {
            return Ok(place);
        }
        let receiver = self.eval(&call.receiver, &Want::one())?;
        let plain = call.args.is_empty();
        match receiver {
            Value::Poison => {
                // The arguments' own errors are reported all the same.
                for arg in &call.args {
                    let _ = self.eval(arg, &Want::one());
                }
                Err(Stop::Error)
            }
            value @ (Value::Tensor { .. } | Value::Place(_))
                if plain && COPIES.contains(&name.as_str()) =>
            {
                Ok(copy(value, |e| syn::parse_quote!(#e.clone())))
            }
            value @ (Value::Tensor { .. } | Value::Place(_))
                if plain && BORROWS.contains(&name.as_str()) =>
            {
                Ok(by_ref(value, true, |e| syn::parse_quote!(&#e)))
            }
            Value::Tuple(parts) if plain && name == "clone" && parts.iter().all(is_cloned) => {
                let copy = cloned(Value::Tuple(parts));
                Ok(self.fixed_value(copy, "part"))
            }
            Value::Tensor { var, .. } if READERS.contains(&name.as_str()) => {
                let ident = self.spoken(var);
                let host = Host {
                    expr: syn::parse_quote!(#ident),
                    reads: vec![var],
                    number: false,
                };
                self.host_method(
                    call,
                    host,
                    ["dim", "rank", "numel", "item"].contains(&name.as_str()),
                )
            }
            Value::Host(host) => self.host_method(call, host, false),
            Value::Tensor { var, by_ref } => {
                if let Some((op, method)) = super::call::find(&name, false) {
                    return self.op(
                        op,
                        method,
                        Some(Value::Tensor { var, by_ref }),
                        call.args.iter(),
                        call.turbofish.as_ref(),
                        want,
                        call.method.span(),
                    );
                }
                if ["iter", "into_iter", "iter_mut"].contains(&name.as_str()) {
                    self.errors.push(
                        &call.method,
                        "a tensor cannot be iterated over; take it apart with `.unbind::<N>(axis)`",
                    );
                    return Err(Stop::Error);
                }
                // rustc says what is wrong with a method that is not there, and better.
                self.recorded(&format!("the method `{name}`"), call.method.span())
            }
            Value::Place(place) => {
                if (READERS.contains(&name.as_str()) && !place.root)
                    || ["len", "is_empty", "is_some", "is_none"].contains(&name.as_str())
                {
                    let number = name != "is_empty";
                    let host = Host {
                        expr: place.expr,
                        reads: Vec::new(),
                        number: false,
                    };
                    return self.host_method(call, host, number);
                }
                if [
                    "iter",
                    "iter_mut",
                    "into_iter",
                    "as_ref",
                    "as_deref",
                    "map",
                    "unwrap",
                    "first",
                    "last",
                    "get",
                    "expect",
                ]
                .contains(&name.as_str())
                {
                    return self.recorded(&format!("`.{name}(..)`"), call.method.span());
                }
                // Of a number, most likely, which a traced function cannot be: so rustc is asked.
                if NUMBER_METHODS.contains(&name.as_str()) {
                    return self.recorded(&format!("`.{name}(..)`"), call.method.span());
                }
                if let Some((op, method)) = super::call::find(&name, false).filter(|_| !place.root)
                {
                    return self.op(
                        op,
                        method,
                        Some(Value::Place(place)),
                        call.args.iter(),
                        call.turbofish.as_ref(),
                        want,
                        call.method.span(),
                    );
                }
                if self.is_generic(&place) {
                    // Whether the method is traced depends on the type.
                    return self.recorded(
                        &format!("the method `{name}` of a generic type"),
                        call.method.span(),
                    );
                }
                self.traced_method(call, place, want, fallible)
            }
            Value::Tuple(_) | Value::Closure(_) | Value::Uninit(_) | Value::Never => {
                self.recorded("a method of what is no tensor", call.method.span())
            }
        }
    }

    /// Whether the type of a place may be one that the caller chooses.
    fn is_generic(&self, place: &Place) -> bool {
        let param = &self.func.params[place.param];
        if param.receiver {
            let owner = self.func.owner.as_ref();
            return !place.root && owner.is_some_and(|o| o.generics.type_params().next().is_some());
        }
        let owner = self
            .func
            .owner
            .iter()
            .flat_map(|o| o.generics.type_params());
        let mut generics = owner.chain(self.func.sig.generics.type_params());
        let mut named = Vec::new();
        host::in_tokens(param.owned.to_token_stream(), &mut |i| {
            named.push(i.clone())
        });
        generics.any(|g| named.contains(&g.ident))
    }

    /// A method of a host value, if its arguments are host values too.
    fn host_method(
        &mut self,
        call: &syn::ExprMethodCall,
        receiver: Host,
        number: bool,
    ) -> R<Value> {
        let mut values = vec![Value::Host(receiver)];
        for arg in &call.args {
            values.push(self.eval(arg, &Want::one())?);
        }
        let Some(values) = self.hosts(&values) else {
            return self.recorded(
                &format!("the method `{}` of a host value", call.method),
                call.method.span(),
            );
        };
        let value = self.rebuild(values, |mut e| {
            let receiver = Box::new(e.remove(0));
            Expr::MethodCall(syn::ExprMethodCall {
                receiver,
                args: e.into_iter().collect(),
                ..call.clone()
            })
        });
        match value {
            Value::Host(h) => Ok(Value::Host(Host { number, ..h })),
            other => Ok(other),
        }
    }
}

/// Whether a value is made of tensors and host values.
fn is_cloned(value: &Value) -> bool {
    match value {
        Value::Tensor { .. } | Value::Host(_) => true,
        Value::Tuple(parts) => parts.iter().all(is_cloned),
        _ => false,
    }
}

/// The value with clones of the host values in it.
fn cloned(value: Value) -> Value {
    match value {
        Value::Host(host) if host::literal(&host.expr).is_none() => {
            let e = &host.expr;
            Value::Host(Host {
                expr: syn::parse_quote!(::core::clone::Clone::clone(&#e)),
                ..host
            })
        }
        Value::Tuple(parts) => Value::Tuple(parts.into_iter().map(cloned).collect()),
        value => value,
    }
}
