//! Expressions that are made of parts, or take them out: tuples, lists, fields, indices, ranges, casts.

use super::{Cx, Host, Place, R, Stop, Value, Want, host};
use crate::parse::OutShape;
use syn::Expr;
use syn::spanned::Spanned;

impl Cx<'_> {
    /// A tuple is one of tensors and host values, or a host value.
    pub(super) fn tuple(&mut self, t: &syn::ExprTuple, want: &Want) -> R<Value> {
        let shapes = match &want.shape {
            OutShape::Tuple(shapes) if shapes.len() == t.elems.len() => Some(shapes.clone()),
            _ => None,
        };
        let mixed = t.elems.iter().any(|e| self.mentions_traced(e));
        let values = t.elems.iter().enumerate().map(|(i, e)| {
            let shape = shapes.as_ref().map_or(OutShape::Tensor, |s| s[i].clone());
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

    /// A list, as a tuple.
    pub(super) fn array(&mut self, a: &syn::ExprArray) -> R<Value> {
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

    /// A field of a tree, a tuple or a host value.
    pub(super) fn field_of(&mut self, f: &syn::ExprField) -> R<Value> {
        match self.eval(&f.base, &Want::one())? {
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
        }
    }

    /// A number in another type.
    pub(super) fn cast(&mut self, c: &syn::ExprCast) -> R<Value> {
        match self.eval(&c.expr, &Want::one())? {
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
        }
    }

    /// A range of host values.
    pub(super) fn range(&mut self, e: &syn::ExprRange) -> R<Value> {
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

    /// A part of a list in a tree, of a tuple or of a host value.
    pub(super) fn index(&mut self, i: &syn::ExprIndex) -> R<Value> {
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
}
