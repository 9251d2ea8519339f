//! Expressions.

use super::{Cx, Host, Place, R, Stop, Value, Want, host};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Expr, UnOp};

impl Cx<'_> {
    /// The value of an expression.
    pub(super) fn eval(&mut self, expr: &Expr, want: &Want) -> R<Value> {
        match expr {
            Expr::Paren(p) => return self.eval(&p.expr, want),
            Expr::Group(g) => return self.eval(&g.expr, want),
            _ => {}
        }
        // Calls of `Tensor::zeros(..)` and the like mention no tensor and make one.
        let exits = self.flow.is_some() && super::syntax::exits(expr);
        if !exits && !self.mentions_traced(expr) && !makes_tensor(expr) {
            if host::leaves_function(expr) {
                return self.recorded("`return`", expr.span());
            }
            let number = self.is_number(expr);
            return Ok(Value::Host(Host {
                expr: self.rename(expr),
                reads: Vec::new(),
                number,
            }));
        }
        if self.flow.is_some() {
            let is_control = super::syntax::is_control(expr);
            // What is evaluated beside it has been lowered already, and must not change.
            if (is_control || matches!(expr, Expr::Block(_)))
                && self.ends_blocks(expr)
                && self.assigns(expr)
            {
                return self.recorded("an assignment inside an expression", expr.span());
            }
            if is_control {
                return self.control(expr, want, super::control::Use::Value);
            }
        }
        match expr {
            Expr::Path(p) => match p.path.get_ident() {
                Some(ident) => {
                    let value = self.lookup(&crate::parse::unraw(ident));
                    let mut value = value.expect("it mentions a tensor").clone();
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
                Ok(by_ref(
                    self.eval(&r.expr, want)?,
                    true,
                    |e| syn::parse_quote!(&#e),
                ))
            }
            Expr::Unary(u) => self.unary(u),
            Expr::Binary(b) => self.binary(b),
            Expr::Block(b) if b.label.is_none() => self.block(&b.block, want),
            Expr::Tuple(t) => {
                let shapes = match &want.shape {
                    crate::parse::OutShape::Tuple(shapes) if shapes.len() == t.elems.len() => {
                        Some(shapes.clone())
                    }
                    _ => None,
                };
                let mixed = t.elems.iter().any(|e| self.mentions_traced(e));
                let values = t.elems.iter().enumerate().map(|(i, e)| {
                    let shape = shapes
                        .as_ref()
                        .map_or(crate::parse::OutShape::Tensor, |s| s[i].clone());
                    Ok(match self.eval(e, &Want { shape, count: None })? {
                        Value::Host(host) if mixed && host.reads.is_empty() => {
                            Value::Host(self.fixed(host, "part"))
                        }
                        value => value,
                    })
                });
                let values = values.collect::<R<Vec<_>>>()?;
                if values.iter().all(|v| matches!(v, Value::Host(_))) {
                    return Ok(self.rebuild(values, |e| {
                        Expr::Tuple(syn::ExprTuple {
                            elems: e.into_iter().collect(),
                            ..t.clone()
                        })
                    }));
                }
                Ok(self.fixed_value(Value::Tuple(values), "part"))
            }
            Expr::Array(a) => {
                let values = a
                    .elems
                    .iter()
                    .map(|e| self.eval(e, &Want::one()))
                    .collect::<R<Vec<_>>>()?;
                if let Some(values) = self.hosts(&values) {
                    return Ok(self.rebuild(values, |e| {
                        Expr::Array(syn::ExprArray {
                            elems: e.into_iter().collect(),
                            ..a.clone()
                        })
                    }));
                }
                Ok(Value::Tuple(values))
            }
            Expr::Field(f) => match self.eval(&f.base, &Want::one())? {
                Value::Place(place) => Ok(self.field(&place, &f.member)),
                Value::Tuple(values) => match &f.member {
                    syn::Member::Unnamed(i) if (i.index as usize) < values.len() => {
                        Ok(values[i.index as usize].clone())
                    }
                    _ => self.recorded("a field of a tuple", f.member.span()),
                },
                Value::Host(h) => Ok(self.rebuild(vec![Value::Host(h)], |mut e| {
                    Expr::Field(syn::ExprField {
                        base: Box::new(e.remove(0)),
                        ..f.clone()
                    })
                })),
                Value::Poison => Err(Stop::Error),
                _ => self.recorded("a field of a tensor", f.member.span()),
            },
            Expr::Index(i) => self.index(i),
            Expr::Cast(c) => match self.eval(&c.expr, &Want::one())? {
                Value::Tensor { .. } => {
                    self.errors.push(
                        c,
                        "a tensor is not cast with `as`; write `.cast(DType::F32)`",
                    );
                    Err(Stop::Error)
                }
                value => match self.hosts(&[value]) {
                    Some(values) => Ok(self.rebuild(values, |mut e| {
                        Expr::Cast(syn::ExprCast {
                            expr: Box::new(e.remove(0)),
                            ..c.clone()
                        })
                    })),
                    None => Err(Stop::Error),
                },
            },
            // rustc says that the function does not return `Result`, once if the companions run it.
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
            Expr::If(e) => {
                self.condition(&e.cond, "if")?;
                self.recorded("`if`", e.if_token.span())
            }
            Expr::While(e) => {
                self.condition(&e.cond, "while")?;
                self.recorded("`while`", e.while_token.span())
            }
            Expr::Match(e) => {
                self.condition(&e.expr, "match")?;
                self.recorded("`match`", e.match_token.span())
            }
            Expr::ForLoop(e) => {
                if let Expr::Path(_) = peel(&e.expr)
                    && let Ok(Value::Tensor { .. }) = self.eval(&e.expr, &Want::one())
                {
                    self.errors.push(
                        &e.expr,
                        "a tensor cannot be iterated over; take it apart with `.unbind::<N>(axis)`",
                    );
                    return Err(Stop::Error);
                }
                self.recorded("`for`", e.for_token.span())
            }
            Expr::Loop(e) => self.recorded("`loop`", e.loop_token.span()),
            Expr::Return(e) => self.recorded("`return`", e.return_token.span()),
            Expr::Closure(e) => self.closure(e),
            Expr::Macro(m) => {
                let name = m
                    .mac
                    .path
                    .segments
                    .last()
                    .map(|s| s.ident.to_string())
                    .unwrap_or_default();
                self.recorded(&format!("`{name}!`"), m.mac.path.span())
            }
            Expr::Await(e) => {
                self.errors.push(
                    e,
                    "`.await` has no place in a traced function; await outside of it",
                );
                Err(Stop::Error)
            }
            Expr::Unsafe(e) => self.recorded("`unsafe`", e.unsafe_token.span()),
            Expr::Struct(e) => self.recorded("a struct", e.path.span()),
            Expr::Range(e) => {
                let parts: Vec<&Expr> = e.start.iter().chain(&e.end).map(|b| &**b).collect();
                let values = parts
                    .into_iter()
                    .map(|e| self.eval(e, &Want::one()))
                    .collect::<R<Vec<_>>>()?;
                match self.hosts(&values) {
                    Some(values) => {
                        let (start, end) = (e.start.is_some(), e.end.is_some());
                        Ok(self.rebuild(values, |parts| {
                            let mut parts = parts.into_iter().map(Box::new);
                            Expr::Range(syn::ExprRange {
                                start: start.then(|| parts.next()).flatten(),
                                end: end.then(|| parts.next()).flatten(),
                                ..e.clone()
                            })
                        }))
                    }
                    None => self.recorded("a range of tensors", e.span()),
                }
            }
            other => self.recorded("an expression that is not straight-line", other.span()),
        }
    }

    /// The value of a call whose `Result` is taken apart here.
    pub(super) fn eval_fallible(&mut self, expr: &Expr, want: &Want) -> R<Value> {
        self.eval_fallible_at(expr, want, expr.span())
    }

    fn eval_fallible_at(&mut self, expr: &Expr, want: &Want, span: Span) -> R<Value> {
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

    /// A host expression made of host values; `values` are known to be host values.
    pub(super) fn rebuild(
        &self,
        values: Vec<Value>,
        make: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Value {
        let (mut exprs, mut reads, mut number) = (Vec::new(), Vec::new(), true);
        for value in values {
            if let Value::Host(h) = value {
                exprs.push(h.expr);
                reads.extend(h.reads);
                number &= h.number;
            }
        }
        Value::Host(Host {
            expr: make(exprs),
            reads,
            number,
        })
    }

    /// The values as host values, if all are. A place may stand for a value that is no tensor.
    pub(super) fn hosts(&self, values: &[Value]) -> Option<Vec<Value>> {
        let hosts = values.iter().map(|v| match v {
            Value::Host(_) => Some(v.clone()),
            Value::Place(p) if !p.root || self.host_places => Some(Value::Host(Host {
                expr: match p.by_ref && !p.root && !p.is_bound_reference() {
                    true => {
                        let expr = &p.expr;
                        syn::parse_quote!(&#expr)
                    }
                    false => p.expr.clone(),
                },
                reads: Vec::new(),
                number: false,
            })),
            _ => None,
        });
        hosts.collect()
    }

    /// A field of a place.
    pub(super) fn field(&self, place: &Place, member: &syn::Member) -> Value {
        let base = &place.expr;
        let expr = syn::parse_quote!(#base.#member);
        Value::Place(Place {
            param: place.param,
            expr,
            by_ref: false,
            root: false,
            owned: place.owned,
        })
    }

    fn index(&mut self, i: &syn::ExprIndex) -> R<Value> {
        let base = self.eval(&i.expr, &Want::one())?;
        let index = match &base {
            // The index has the wrong type for the place, too; one error is enough.
            Value::Tensor { .. } => self.static_value(&syn::parse_quote!(0))?,
            _ => self.static_value(&i.index)?,
        };
        match base {
            Value::Place(place) => {
                // A host value is read here and now, perhaps only if what stands on the left of `&&` is true.
                let index = match self.host_places && index.reads.is_empty() {
                    true => index.expr,
                    false => self.fixed_index(index.expr, &index.reads),
                };
                let base = &place.expr;
                let expr = syn::parse_quote!(#base[#index]);
                Ok(Value::Place(Place {
                    param: place.param,
                    expr,
                    by_ref: false,
                    root: false,
                    owned: place.owned,
                }))
            }
            Value::Host(h) => Ok(self.rebuild(
                vec![Value::Host(h), Value::Host(index)],
                |mut e| {
                    let (index, expr) = (e.pop().expect("two parts"), e.pop().expect("two parts"));
                    Expr::Index(syn::ExprIndex {
                        expr: Box::new(expr),
                        index: Box::new(index),
                        ..i.clone()
                    })
                },
            )),
            Value::Tuple(values) => match host::literal(&index.expr).and_then(|s| s.int()) {
                Some(n) if (n as usize) < values.len() => Ok(values[n as usize].clone()),
                _ => self.recorded("an index", i.span()),
            },
            Value::Closure(_) | Value::Uninit(_) | Value::Never => {
                self.recorded("an index", i.span())
            }
            Value::Tensor { .. } => {
                self.errors.push(i, "a tensor is not indexed with `[]`; write `.slice(..)`, or `.unbind::<N>(axis)` for its parts");
                Err(Stop::Error)
            }
            Value::Poison => Err(Stop::Error),
        }
    }

    /// A host expression in the place of a static argument.
    pub(super) fn static_value(&mut self, expr: &Expr) -> R<Host> {
        let outer = std::mem::replace(&mut self.host_places, true);
        let value = self.eval(expr, &Want::one());
        self.host_places = outer;
        self.host_of(value?, expr)
    }

    /// The host value of `expr`, which is `value`.
    pub(super) fn host_of(&mut self, value: Value, expr: &Expr) -> R<Host> {
        match value {
            Value::Host(h) => Ok(h),
            Value::Place(p) => Ok(Host {
                expr: p.expr,
                reads: Vec::new(),
                number: false,
            }),
            Value::Poison => Err(Stop::Error),
            Value::Closure(_) | Value::Uninit(_) | Value::Never => {
                self.recorded("a static argument", expr.span())
            }
            Value::Tensor { .. } | Value::Tuple(_) => {
                self.errors.push(
                    expr,
                    "this argument is part of the program, so it cannot depend on the values of a tensor; pass it as a parameter, or read `.dim(axis)`",
                );
                Err(Stop::Error)
            }
        }
    }

    /// Refuses a condition on the values of a tensor, where branches and loops are not lowered.
    pub(super) fn condition(&mut self, cond: &Expr, keyword: &str) -> R<()> {
        if matches!(cond, Expr::Let(_)) || !self.mentions_traced(cond) {
            return Ok(());
        }
        let before = self.errors.is_empty();
        match self.eval(cond, &Want::one()) {
            Ok(Value::Tensor { .. }) => self.refuse_condition(cond, keyword),
            Err(Stop::Error) if before => Err(Stop::Error),
            _ => Ok(()),
        }
    }

    pub(super) fn refuse_condition<T>(&mut self, cond: &Expr, keyword: &str) -> R<T> {
        self.errors.push(
            cond,
            format!("`{keyword}` on the values of a tensor cannot be traced: they are not known yet; choose between two tensors with `condition.select(&x, &y)`"),
        );
        Err(Stop::Error)
    }

    /// Whether a host expression is known to be a number.
    fn is_number(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(p) => self.is_number(&p.expr),
            Expr::Lit(l) => matches!(l.lit, syn::Lit::Int(_) | syn::Lit::Float(_)),
            Expr::Unary(u) => matches!(u.op, UnOp::Neg(_)) && self.is_number(&u.expr),
            Expr::Binary(b) => self.is_number(&b.left) && self.is_number(&b.right),
            Expr::Cast(c) => matches!(
                crate::parse::classify(&c.ty, &mut Default::default()),
                crate::parse::Kind::Static { number: true }
            ),
            Expr::Path(p) => p.path.get_ident().is_some_and(|i| {
                matches!(
                    self.lookup(&crate::parse::unraw(i)),
                    Some(Value::Host(Host { number: true, .. }))
                )
            }),
            _ => false,
        }
    }
}

/// A copy of a value.
pub(super) fn copy(value: Value, host: impl FnOnce(Expr) -> Expr) -> Value {
    match by_ref(value, false, host) {
        Value::Place(place) => Value::Place(Place {
            owned: true,
            ..place
        }),
        value => value,
    }
}

/// The same value, seen as a reference or not.
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

fn peel(expr: &Expr) -> &Expr {
    match expr {
        Expr::Reference(r) => peel(&r.expr),
        Expr::Paren(p) => peel(&p.expr),
        other => other,
    }
}

/// Whether an expression makes a tensor anywhere inside.
pub(super) fn makes_tensor_inside(expr: &Expr) -> bool {
    struct Makes(bool);
    impl<'ast> syn::visit::Visit<'ast> for Makes {
        fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
            self.0 |= super::call::tensor_function(&call.func).is_some();
            syn::visit::visit_expr_call(self, call);
        }
    }
    let mut found = Makes(false);
    syn::visit::Visit::visit_expr(&mut found, expr);
    found.0
}

/// Whether an expression starts at a call of an associated function of `Tensor`.
fn makes_tensor(expr: &Expr) -> bool {
    match expr {
        Expr::Call(c) => super::call::tensor_function(&c.func).is_some(),
        Expr::MethodCall(m) => {
            makes_tensor(&m.receiver) && super::call::find(&m.method.to_string(), false).is_some()
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
