//! Lowers tuples, lists, fields, indices, ranges and casts.

use crate::input::{OutShape, View};
use crate::lower::state::block_builder::Unclear;
use crate::lower::{Abort, Base, Content, Cx, Expected, Host, LowerResult, Place, Value, host};
use syn::Expr;
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Lowers a tuple of tensors and host values.
    pub(in crate::lower) fn tuple(
        &mut self,
        t: &syn::ExprTuple,
        want: &Expected,
    ) -> LowerResult<Value> {
        let shapes = match &want.shape {
            OutShape::Tuple(shapes) if shapes.len() == t.elems.len() => Some(shapes.clone()),
            _ => None,
        };
        let mixed = t.elems.iter().any(|e| self.names.mentions_traced(e));
        let values = t.elems.iter().enumerate().map(|(i, e)| {
            let shape = shapes.as_ref().map_or(OutShape::Tensor, |s| s[i].clone());
            Ok(
                match self.eval(
                    e,
                    &Expected {
                        shape,
                        ..Expected::tensor()
                    },
                )? {
                    Value::Host(host)
                        if mixed
                            && host.reads.is_empty()
                            && crate::lower::host::literal(&host.expr).is_none() =>
                    {
                        Value::Host(self.hoisted(host, "part"))
                    }
                    value => value,
                },
            )
        });
        let values = values.collect::<LowerResult<Vec<_>>>()?;
        // Parts of trees may be tensors, but in a static argument they are numbers.
        let is_host = |v: &Value| self.host.reads_places || matches!(v, Value::Host(_));
        if let (true, Some(values)) = (values.iter().all(is_host), self.hosts(&values)) {
            return Ok(self.rebuild(values, |e| {
                Expr::Tuple(syn::ExprTuple {
                    elems: e.into_iter().collect(),
                    ..t.clone()
                })
            }));
        }
        Ok(self.hoisted_value(Value::Tuple(values), "part"))
    }

    /// Lowers an array to a tuple.
    pub(in crate::lower) fn array(&mut self, a: &syn::ExprArray) -> LowerResult<Value> {
        let values = a
            .elems
            .iter()
            .map(|e| self.eval(e, &Expected::tensor()))
            .collect::<LowerResult<Vec<_>>>()?;
        // A part that is moved out of a borrowed tree is a number; others may be tensors.
        let may_be_tensor = |v: &Value| match v {
            Value::Place(p) => p.by_ref || p.owned || !self.is_reference(p.base),
            _ => false,
        };
        let tensors = !self.host.reads_places && values.iter().any(may_be_tensor);
        if let (false, Some(values)) = (tensors, self.hosts(&values)) {
            return Ok(self.rebuild(values, |e| {
                Expr::Array(syn::ExprArray {
                    elems: e.into_iter().collect(),
                    ..a.clone()
                })
            }));
        }
        Ok(Value::Tuple(values))
    }

    /// Lowers a field of a tree, a tuple or a host value.
    pub(in crate::lower) fn field_of(&mut self, f: &syn::ExprField) -> LowerResult<Value> {
        let base = self.eval(&f.base, &Expected::tensor())?;
        match self.as_place(base) {
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
            Value::Poison => Err(Abort::Error),
            Value::Tensor { var, .. } => {
                self.operator_on_trees(var, &[Unclear::Result, Unclear::Part])?;
                self.recorded("a field of a tensor", f.member.span())
            }
            _ => self.recorded("a field of a value", f.member.span()),
        }
    }

    /// Lowers a cast of a number.
    pub(in crate::lower) fn cast(&mut self, c: &syn::ExprCast) -> LowerResult<Value> {
        // The value of a cast is copied, as tensors are not.
        let content = Content::number(self.names.is_number(&Expr::Cast(c.clone())));
        let value = self.eval(&c.expr, &Expected::tensor())?;
        self.keep_number(&value)?;
        match value {
            Value::Tensor { .. } => {
                self.diagnostics.errors.push(
                    c,
                    "a tensor cannot be cast with `as`; write `.cast(DType::F32)`",
                );
                Err(Abort::Error)
            }
            value => match self.hosts(&[value]) {
                Some(values) => Ok(self.rebuilt(values, content, |mut e| {
                    Expr::Cast(syn::ExprCast {
                        expr: Box::new(e.remove(0)),
                        ..c.clone()
                    })
                })),
                None => Err(Abort::Error),
            },
        }
    }

    /// Lowers a range of host values.
    pub(in crate::lower) fn range(&mut self, e: &syn::ExprRange) -> LowerResult<Value> {
        let parts: Vec<&Expr> = e.start.iter().chain(&e.end).map(|b| &**b).collect();
        let values = parts
            .into_iter()
            .map(|e| self.eval(e, &Expected::tensor()))
            .collect::<LowerResult<Vec<_>>>()?;
        values
            .iter()
            .try_for_each(|value| self.keep_number(value))?;
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

    /// Returns a host expression that `make` builds from the expressions of `values`, which must
    /// all be host values.
    pub(in crate::lower) fn rebuild(
        &self,
        values: Vec<Value>,
        make: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Value {
        let (mut exprs, mut reads, mut content) = (Vec::new(), Vec::new(), Content::Plain);
        for value in values {
            if let Value::Host(h) = value {
                exprs.push(h.expr);
                reads.extend(h.reads);
                content = content.max(h.content);
            }
        }
        Value::Host(Host {
            expr: make(exprs),
            reads,
            content,
        })
    }

    /// Returns the values as host values, if all of them are or may be.
    ///
    /// A part of a tree may be a host value.
    pub(in crate::lower) fn hosts(&self, values: &[Value]) -> Option<Vec<Value>> {
        let hosts = values.iter().map(|v| match v {
            Value::Host(_) => Some(v.clone()),
            Value::Place(p) if !p.root || self.host.reads_places => Some(Value::Host(Host {
                expr: p.as_host(),
                reads: p.reads(),
                content: self.content_of_part(p),
            })),
            _ => None,
        });
        hosts.collect()
    }

    /// Returns what is known of a part of a tree that is read as a host value.
    ///
    /// A tensor cannot be moved out of a borrowed tree.
    pub(in crate::lower) fn content_of_part(&self, place: &Place) -> Content {
        let moved = !place.by_ref && !place.owned && !place.root;
        match moved && self.is_reference(place.base) {
            true => Content::Plain,
            false => Content::Parts,
        }
    }

    /// Returns a host expression that `make` builds, and of which this is known.
    pub(in crate::lower) fn rebuilt(
        &self,
        values: Vec<Value>,
        content: Content,
        make: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Value {
        match self.rebuild(values, make) {
            Value::Host(host) => Value::Host(Host { content, ..host }),
            value => value,
        }
    }

    /// Returns the result of arithmetic with host values.
    pub(in crate::lower) fn computed(
        &self,
        values: Vec<Value>,
        make: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Value {
        let contents = values.iter().filter_map(|value| match value {
            Value::Host(host) => Some(host.content),
            _ => None,
        });
        let content = contents.max().unwrap_or(Content::Number);
        self.rebuilt(values, content, make)
    }

    /// Returns whether a parameter is a list of references to trees.
    pub(in crate::lower) fn is_list_of_references(&self, base: Base) -> bool {
        self.view(base).is_some_and(View::is_list_of_references)
    }

    /// Returns the form in which the user's code has a parameter, if it is not that of the emitted
    /// code.
    pub(in crate::lower) fn view(&self, base: Base) -> Option<&View> {
        match base {
            Base::Param(param) => self.func.params[param].view.as_ref(),
            Base::Local(_) => None,
        }
    }

    /// Returns a field of a place.
    pub(in crate::lower) fn field(&self, place: &Place, member: &syn::Member) -> Value {
        let base = &place.expr;
        let expr = syn::parse_quote!(#base.#member);
        Value::Place(Place {
            base: place.base,
            expr,
            by_ref: false,
            root: false,
            owned: place.owned,
            lent: None,
        })
    }

    /// Lowers an index into a list in a tree, a tuple or a host value.
    pub(in crate::lower) fn index(&mut self, i: &syn::ExprIndex) -> LowerResult<Value> {
        let base = self.eval(&i.expr, &Expected::tensor())?;
        let base = self.as_place(base);
        let index = match &base {
            // The error for indexing a tensor is enough; one for the type of the index would be
            // redundant.
            Value::Tensor { .. } => self.static_value(&syn::parse_quote!(0))?,
            _ => self.static_value(&i.index)?,
        };
        match base {
            Value::Place(place) => {
                // A host value is read immediately. The index is not computed before, because it
                // may be valid only if the left side of an `&&` is true.
                let index = match self.host.reads_places && index.reads.is_empty() {
                    true => index.expr,
                    false => self.fixed_index(index.expr, &index.reads),
                };
                let base = &place.expr;
                let of_references = place.root && self.is_list_of_references(place.base);
                if of_references && matches!(index, Expr::Range(_)) {
                    return self.recorded("a part of a list of references", i.span());
                }
                let expr = syn::parse_quote!(#base[#index]);
                Ok(Value::Place(Place {
                    base: place.base,
                    expr,
                    by_ref: of_references,
                    root: false,
                    owned: place.owned,
                    lent: None,
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
                self.diagnostics.errors.push(
                    i,
                    "a tensor cannot be indexed with `[]`; write `.i(..)`, as in `x.i((0, 1..3))`",
                );
                Err(Abort::Error)
            }
            Value::Poison => Err(Abort::Error),
        }
    }
}
