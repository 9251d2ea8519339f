//! Lowers the iterator of a `for` loop: host values, parts of trees, and tuples of these.

use crate::lower::stmt::pattern::Item;
use crate::lower::{Base, Content, Cx, Expected, LowerResult, Value};
use syn::spanned::Spanned;
use syn::{Expr, ExprMethodCall};

/// Iterator methods that only select or reorder items.
const SELECT: [&str; 5] = ["rev", "skip", "take", "step_by", "by_ref"];

impl Cx<'_> {
    /// Returns the emitted form of an iterator, and the kind of its items.
    pub(in crate::lower) fn iterator(&mut self, expr: &Expr) -> LowerResult<(Expr, Item)> {
        if !self.names.mentions_traced(expr) {
            let number = matches!(expr, Expr::Range(_))
                || matches!(expr, Expr::Paren(p) if matches!(*p.expr, Expr::Range(_)));
            let content = self.names.content(expr).max(Content::number(number));
            return Ok((self.rename(expr), Item::Host(content)));
        }
        match expr {
            Expr::Paren(p) => {
                let (expr, item) = self.iterator(&p.expr)?;
                Ok((syn::parse_quote!((#expr)), item))
            }
            Expr::Group(g) => self.iterator(&g.expr),
            Expr::Range(_) => match self.eval(expr, &Expected::tensor())? {
                Value::Host(host) => {
                    self.host.read(&host.reads);
                    let e = host.expr;
                    Ok((syn::parse_quote!((#e)), Item::Host(Content::Number)))
                }
                _ => self.recorded("a range", expr.span()),
            },
            Expr::MethodCall(call) => self.adapter(call),
            Expr::Reference(_) | Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => {
                self.collection(expr, true)
            }
            other => self.recorded("the iterator of a loop", other.span()),
        }
    }

    fn adapter(&mut self, call: &ExprMethodCall) -> LowerResult<(Expr, Item)> {
        let name = call.method.to_string();
        let method = &call.method;
        match (name.as_str(), call.args.len()) {
            ("iter" | "into_iter", 0) => {
                let (base, item) = self.collection(&call.receiver, name == "into_iter")?;
                Ok((syn::parse_quote!((#base).#method()), item))
            }
            ("chunks" | "windows" | "chunks_exact", 1) => {
                let (base, item) = self.collection(&call.receiver, false)?;
                let n = self.static_value(&call.args[0])?;
                self.host.read(&n.reads);
                let n = n.expr;
                Ok((syn::parse_quote!((#base).#method(#n)), item))
            }
            ("enumerate", 0) => {
                let (base, item) = self.iterator(&call.receiver)?;
                let items = vec![Item::Host(Content::Number), item];
                Ok((syn::parse_quote!(#base.enumerate()), Item::Tuple(items)))
            }
            // The companion's list owns its trees, and its items are references already.
            ("copied" | "cloned", 0) => {
                let (base, item) = self.iterator(&call.receiver)?;
                match item {
                    Item::Place { base: of, .. } if self.is_list_of_references(of) => {
                        Ok((base, item))
                    }
                    _ => self.recorded(&format!("`.{name}()`"), call.method.span()),
                }
            }
            // The items of a part of a tree are parts of the tree.
            ("flatten", 0) => {
                let (base, item) = self.iterator(&call.receiver)?;
                match item {
                    Item::Place { .. } => Ok((syn::parse_quote!(#base.flatten()), item)),
                    _ => self.recorded("`.flatten()`", call.method.span()),
                }
            }
            ("chain", 1) => {
                let (base, item) = self.iterator(&call.receiver)?;
                let (other, with) = self.iterator(&call.args[0])?;
                match (&item, &with) {
                    (Item::Place { base: a, .. }, Item::Place { base: b, .. }) if a == b => {
                        Ok((syn::parse_quote!(#base.chain(#other)), item))
                    }
                    _ => self.recorded("`.chain(..)`", call.method.span()),
                }
            }
            ("zip", 1) => {
                let (base, item) = self.iterator(&call.receiver)?;
                let (other, with) = self.iterator(&call.args[0])?;
                Ok((
                    syn::parse_quote!(#base.zip(#other)),
                    Item::Tuple(vec![item, with]),
                ))
            }
            (name, n) if SELECT.contains(&name) && n <= 1 => {
                let (base, item) = self.iterator(&call.receiver)?;
                let mut args = Vec::new();
                for arg in &call.args {
                    let arg = self.static_value(arg)?;
                    self.host.read(&arg.reads);
                    args.push(arg.expr);
                }
                Ok((syn::parse_quote!(#base.#method(#(#args),*)), item))
            }
            _ => match self.eval(&Expr::MethodCall(call.clone()), &Expected::tensor())? {
                Value::Host(host) => {
                    self.host.read(&host.reads);
                    Ok((host.expr, Item::Host(host.content.max(Content::Plain))))
                }
                _ => self.recorded(&format!("`.{name}(..)`"), call.method.span()),
            },
        }
    }

    /// Lowers a collection that is iterated by reference.
    ///
    /// `moved` is true if a collection passed by value would be consumed: its parts would then have
    /// other addresses, and could not be located in the parameter.
    fn collection(&mut self, expr: &Expr, moved: bool) -> LowerResult<(Expr, Item)> {
        if !self.names.mentions_traced(expr) {
            let content = self.names.content(expr).max(Content::Plain);
            return Ok((self.rename(expr), Item::Host(content)));
        }
        let value = self.eval(expr, &Expected::tensor())?;
        match self.as_place(value) {
            Value::Place(place) if place.by_ref || !moved => {
                let base = place.base;
                let item = match base {
                    Base::Param(i) if place.root && is_map(&self.func.params[i].owned) => {
                        Item::Entry { base }
                    }
                    _ => Item::Place { base, owned: false },
                };
                let tokens = self.reference(&place);
                let expr = syn::parse2(tokens).expect("a reference is an expression");
                Ok((expr, item))
            }
            Value::Host(host) => {
                self.host.read(&host.reads);
                Ok((host.expr, Item::Host(host.content.max(Content::Plain))))
            }
            Value::Tensor { .. } => self.diagnostics.refuse_iteration(expr),
            _ => self.recorded("the iterator of a loop", expr.span()),
        }
    }
}

fn is_map(ty: &syn::Type) -> bool {
    let last = match ty {
        syn::Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    last.is_some_and(|last| last.ident == "BTreeMap")
}
