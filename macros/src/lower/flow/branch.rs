//! Lowers `if` and `match`, and their conditions.

use super::control::Use;
use super::join::Join;
use super::slots::join;
use crate::lower::expr::syntax::{has_let, peel};
use crate::lower::stmt::pattern::{Item, takes};
use crate::lower::{Abort, Base, Content, Cx, Expected, Host, LowerResult, Place, Value};
use crate::program::HostCode;
use gradloom_ir::flow::Node;
use gradloom_ir::{Aval, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Pat};

/// Arms of a branch: each starts from the slots as they were before the branch.
struct Arms {
    entry: Vec<(Var, Aval)>,
    exits: Vec<Vec<(Var, Aval)>>,
    all_left: bool,
    failed: bool,
}

/// Methods of fields that return references into them.
const LENDS: [&str; 8] = [
    "as_ref",
    "as_deref",
    "as_slice",
    "first",
    "last",
    "get",
    "split_first",
    "split_last",
];

impl Cx<'_> {
    /// Lowers a branch.
    ///
    /// If some arms evaluate to parts of trees and others to tensors, the branch is lowered again
    /// with all of them read as tensors.
    pub(in crate::lower) fn branches(
        &mut self,
        used: Use,
        lower: impl Fn(&mut Self, Option<&mut Join>) -> LowerResult<()>,
    ) -> LowerResult<Value> {
        let before = self.clone();
        let first = self.branches_once(used, &lower);
        let Err(Abort::Mixed) = first else {
            return first;
        };
        *self = before;
        let outer = std::mem::replace(&mut self.host.flow.as_tensors, true);
        let second = self.branches_once(used, &lower);
        self.host.flow.as_tensors = outer;
        second
    }

    fn branches_once(
        &mut self,
        used: Use,
        lower: &impl Fn(&mut Self, Option<&mut Join>) -> LowerResult<()>,
    ) -> LowerResult<Value> {
        if used != Use::Value {
            lower(self, None)?;
            return Ok(self.host.unit());
        }
        let mut join = self.join();
        lower(self, Some(&mut join))?;
        Ok(self.joined(join))
    }

    fn arms(&self) -> Arms {
        Arms {
            entry: self.slot_avals(),
            exits: Vec::new(),
            all_left: true,
            failed: false,
        }
    }

    fn next_arm(
        &mut self,
        arms: &mut Arms,
        lower: impl FnOnce(&mut Self) -> LowerResult<()>,
    ) -> LowerResult<()> {
        self.builder.set_slot_avals(&arms.entry);
        self.host.flow.left = false;
        match lower(self) {
            Err(Abort::Error) => arms.failed = true,
            other => other?,
        }
        let left = self.host.flow.left;
        arms.all_left &= left;
        if !left {
            arms.exits.push(self.slot_avals());
        }
        Ok(())
    }

    fn end_arms(&mut self, arms: Arms) -> LowerResult<()> {
        self.host.flow.left = arms.all_left;
        // The arms created slots for locals that had no value before.
        let slots = self.slot_avals().into_iter();
        let late = slots.filter(|(slot, _)| arms.entry.iter().all(|(v, _)| v != slot));
        for (slot, aval) in late.collect::<Vec<_>>().iter().chain(&arms.entry) {
            let after = arms.exits.iter().flatten().filter(|(v, _)| v == slot);
            let after = after.map(|(_, a)| a.clone()).reduce(|a, b| join(&a, &b));
            self.builder
                .b
                .set_aval(*slot, after.unwrap_or_else(|| aval.clone()));
        }
        if arms.failed {
            Err(Abort::Error)
        } else {
            Ok(())
        }
    }

    /// Lowers one arm of a branch: a scope in which `bound` is visible, whose value goes to `join`.
    fn arm(
        &mut self,
        head: TokenStream,
        bound: BTreeMap<String, crate::lower::Local>,
        join: Option<&mut Join>,
        value: impl FnOnce(&mut Self) -> LowerResult<Value>,
    ) -> LowerResult<()> {
        let ((), body) = self.scope(|cx| {
            *cx.names
                .scopes
                .last_mut()
                .expect("the scope has just been opened") = bound;
            let value = value(cx)?;
            match join {
                Some(join) if !cx.host.flow.left => cx.give(join, value),
                _ => Ok(()),
            }
        })?;
        self.host.push_node(Node::Scope {
            head: HostCode::Head(head),
            body,
        });
        Ok(())
    }

    pub(in crate::lower) fn if_arms(
        &mut self,
        e: &syn::ExprIf,
        want: &Expected,
        used: Use,
        mut join: Option<&mut Join>,
    ) -> LowerResult<()> {
        let (cond, bound) = self.condition_code(&e.cond, "if")?;
        self.slots_for(e)?;
        let keyword = &e.if_token;
        let mut arms = self.arms();
        self.next_arm(&mut arms, |cx| {
            let then = |cx: &mut Self| cx.block_as(&e.then_branch, want, used);
            cx.arm(quote!(#keyword #cond), bound, join.as_deref_mut(), then)
        })?;
        match &e.else_branch {
            None => self.next_arm(&mut arms, |_| Ok(()))?,
            Some((token, other)) => self.next_arm(&mut arms, |cx| {
                let otherwise = |cx: &mut Self| cx.body_as(other, want, used);
                cx.arm(quote!(#token), BTreeMap::new(), join, otherwise)
            })?,
        }
        self.end_arms(arms)
    }

    pub(in crate::lower) fn match_arms(
        &mut self,
        e: &syn::ExprMatch,
        want: &Expected,
        used: Use,
        mut join: Option<&mut Join>,
    ) -> LowerResult<()> {
        let takes = e.arms.iter().find_map(|arm| takes(&arm.pat));
        let (scrutinee, item) = self.scrutinee(&e.expr, takes, "match")?;
        self.slots_for(e)?;
        let keyword = &e.match_token;
        let ((), body) = self.scope(|cx| {
            let mut arms = cx.arms();
            for arm in &e.arms {
                cx.next_arm(&mut arms, |cx| {
                    cx.names.scopes.push(BTreeMap::new());
                    let head = cx.arm_head(arm, &item);
                    let bound = cx
                        .names
                        .scopes
                        .pop()
                        .expect("the scope has just been pushed");
                    let body = |cx: &mut Self| cx.body_as(&arm.body, want, used);
                    cx.arm(head?, bound, join.as_deref_mut(), body)
                })?;
            }
            cx.end_arms(arms)
        })?;
        self.host.push_node(Node::Scope {
            head: HostCode::Head(quote!(#keyword #scrutinee)),
            body,
        });
        Ok(())
    }

    fn arm_head(&mut self, arm: &syn::Arm, item: &Item) -> LowerResult<TokenStream> {
        let attrs = &arm.attrs;
        let Pat::Guard(guarded) = &arm.pat else {
            let pat = self.bind_item(&arm.pat, item)?;
            return Ok(quote!(#(#attrs)* #pat =>));
        };
        let pat = self.bind_item(&guarded.pat, item)?;
        let n_lowered = self.n_lowered();
        let guard = self.host_condition(&guarded.guard, "if")?;
        if n_lowered != self.n_lowered() {
            return self.recorded("a guard that computes tensors", guarded.if_token.span());
        }
        let keyword = &guarded.if_token;
        Ok(quote!(#(#attrs)* #pat #keyword #guard =>))
    }

    /// Lowers the operand of a `match` or an `if let`; `takes` is the span of a binding by value.
    fn scrutinee(
        &mut self,
        expr: &Expr,
        takes: Option<Span>,
        keyword: &str,
    ) -> LowerResult<(TokenStream, Item)> {
        let by_value = matches!(peel(expr), Expr::MethodCall(_));
        if let Expr::MethodCall(m) = peel(expr)
            && LENDS.contains(&m.method.to_string().as_str())
            && self.names.mentions_traced(&m.receiver)
        {
            let receiver = self.eval(&m.receiver, &Expected::tensor())?;
            let Value::Place(place) = self.as_place(receiver) else {
                return self.recorded("the operand of a `match`", expr.span());
            };
            let (e, method) = (&place.expr, &m.method);
            let mut args = Vec::new();
            for arg in &m.args {
                let arg = self.static_value(arg)?;
                self.host.read(&arg.reads);
                args.push(arg.expr);
            }
            let item = Item::Place {
                base: place.base,
                owned: false,
            };
            return Ok((quote!(#e.#method(#(#args),*)), item));
        }
        let value = self.eval(expr, &Expected::tensor())?;
        match self.as_place(value) {
            Value::Place(Place {
                base: Base::Param(_),
                ..
            }) if by_value => self.recorded("the operand of a `match`", expr.span()),
            Value::Tensor { .. } => self.diagnostics.refuse_condition(expr, keyword),
            value => self.matched(value, takes, expr),
        }
    }

    fn matched(
        &mut self,
        value: Value,
        takes: Option<Span>,
        expr: &Expr,
    ) -> LowerResult<(TokenStream, Item)> {
        match value {
            Value::Host(host) => {
                self.host.read(&host.reads);
                let content = host.content;
                let tokens = host.expr.to_token_stream();
                Ok((tokens, Item::Host(content)))
            }
            Value::Place(place) => {
                // Leaves are located by their address within the parameter, and a part that is
                // moved out changes its address.
                let by_ref = self.is_reference(place.base);
                let taken = takes.filter(|_| !place.by_ref && !place.owned);
                if taken.is_some() && by_ref && self.view(place.base).is_none() {
                    let (base, expr) = (place.base, &place.expr);
                    let tokens = match place.root {
                        true => quote!((*#expr)),
                        false => quote!(#expr),
                    };
                    return Ok((tokens, Item::Copied { base }));
                }
                let taken = taken.filter(|_| !by_ref);
                let is_local = matches!(place.base, Base::Local(_));
                // The payload of an option is a tree and can be borrowed instead. Other parts may
                // be numbers, which cannot.
                let borrows = place.root && self.is_option(place.base);
                if let Some(at) = taken.filter(|_| !borrows) {
                    return self.recorded("a part taken out of a parameter", at);
                }
                let owned = !place.by_ref && (is_local || place.owned);
                let tokens = match place.by_ref || is_local || owned || taken.is_some() {
                    true => self.whole(&place),
                    false => place.expr.to_token_stream(),
                };
                Ok((
                    tokens,
                    Item::Place {
                        base: place.base,
                        owned,
                    },
                ))
            }
            Value::Tuple(values) => {
                let parts = values.into_iter().map(|value| {
                    // A value copied into a tuple is not a part of the parameter any more.
                    let value = self.copied(value);
                    self.matched(value, takes, expr)
                });
                let (tokens, items): (Vec<_>, Vec<_>) =
                    parts.collect::<LowerResult<Vec<_>>>()?.into_iter().unzip();
                Ok((quote!((#(#tokens),*)), Item::Tuple(items)))
            }
            Value::Poison => Err(Abort::Error),
            _ => self.recorded("the operand of a `match`", expr.span()),
        }
    }

    /// Lowers `list.last().unwrap()`: a reference to a part of a tree.
    pub(in crate::lower) fn borrowed_place(
        &mut self,
        call: &syn::ExprMethodCall,
    ) -> LowerResult<Option<Value>> {
        let Expr::MethodCall(lends) = peel(&call.receiver) else {
            return Ok(None);
        };
        let method = lends.method.to_string();
        if !LENDS.contains(&method.as_str())
            || method.starts_with("split")
            || !self.names.mentions_traced(&lends.receiver)
            || call.args.iter().any(|a| self.names.mentions_traced(a))
        {
            return Ok(None);
        }
        let (found, item) = self.scrutinee(&call.receiver, None, "match")?;
        let Item::Place { base, .. } = item else {
            return self.recorded("an unwrapped value", call.method.span());
        };
        let args = call.args.iter().map(|a| self.rename(a));
        let (args, method) = (Vec::from_iter(args), &call.method);
        let part = self.host_ident(&Ident::new("part", Span::mixed_site()));
        self.builder.push_host(
            base.reads(),
            quote!(let #part = #found.#method(#(#args),*);),
        );
        Ok(Some(Value::Place(Place {
            base,
            expr: syn::parse_quote!(#part),
            by_ref: true,
            root: false,
            owned: false,
            lent: None,
        })))
    }

    /// Returns the emitted form of a condition, and the locals that its patterns bind.
    pub(in crate::lower) fn condition_code(
        &mut self,
        cond: &Expr,
        keyword: &str,
    ) -> LowerResult<(TokenStream, BTreeMap<String, crate::lower::Local>)> {
        self.names.scopes.push(BTreeMap::new());
        let code = self.conditions(cond, keyword);
        let bound = self
            .names
            .scopes
            .pop()
            .expect("the scope has just been pushed");
        Ok((code?, bound))
    }

    fn conditions(&mut self, cond: &Expr, keyword: &str) -> LowerResult<TokenStream> {
        match cond {
            Expr::Let(e) => {
                let (scrutinee, item) = self.scrutinee(&e.expr, takes(&e.pat), keyword)?;
                let pat = self.bind_item(&e.pat, &item)?;
                Ok(quote!(let #pat = #scrutinee))
            }
            Expr::Binary(b) if matches!(b.op, BinOp::And(_)) && has_let(cond) => {
                let left = self.conditions(&b.left, keyword)?;
                let n_lowered = self.n_lowered();
                let right = self.conditions(&b.right, keyword)?;
                if n_lowered != self.n_lowered() {
                    return self
                        .recorded("a condition that is not always evaluated", b.right.span());
                }
                let op = &b.op;
                Ok(quote!(#left #op #right))
            }
            cond => self.host_condition(cond, keyword),
        }
    }

    /// Returns the emitted form of a condition without patterns.
    fn host_condition(&mut self, cond: &Expr, keyword: &str) -> LowerResult<TokenStream> {
        let host = self.lazy(cond, keyword)?;
        self.host.read(&host.reads);
        Ok(host.expr.to_token_stream())
    }

    /// Lowers a condition that is a whole expression, so that `a && b` may become a branch.
    pub(in crate::lower) fn lazy(&mut self, cond: &Expr, keyword: &str) -> LowerResult<Host> {
        // The right side of `&&` runs only if the left is true, but equations would be computed in
        // any case.
        if let Expr::Binary(b) = peel(cond)
            && matches!(b.op, BinOp::And(_) | BinOp::Or(_))
        {
            let before = self.names.mentions_traced(&b.right).then(|| self.clone());
            let left = self.lazy(&b.left, keyword)?;
            let n_lowered = self.n_lowered();
            let right = self.lazy(&b.right, keyword);
            if let Some(before) = before
                && self.n_lowered() != n_lowered
            {
                *self = before;
                return self.one_by_one(b);
            }
            let mut right = right?;
            right.reads.extend(left.reads);
            let op = &b.op;
            let (left, expr) = (within(&b.left, &left.expr), within(&b.right, &right.expr));
            right.expr = syn::parse_quote!(#left #op #expr);
            return Ok(right);
        }
        let outer = std::mem::replace(&mut self.host.reads_places, true);
        let value = self.eval(cond, &Expected::tensor());
        self.host.reads_places = outer;
        let value = value?;
        self.keep_number(&value)?;
        match value {
            Value::Host(host) => Ok(host),
            Value::Place(place) => Ok(Host {
                reads: place.reads(),
                expr: place.expr,
                content: Content::Plain,
            }),
            Value::Tensor { .. } => self.diagnostics.refuse_condition(cond, keyword),
            Value::Poison => Err(Abort::Error),
            _ => self.recorded("a condition", cond.span()),
        }
    }

    /// Lowers `a && b` as `if a { b } else { false }`, for a `b` that needs equations.
    fn one_by_one(&mut self, b: &syn::ExprBinary) -> LowerResult<Host> {
        let (left, right, span) = (&b.left, &b.right, b.span());
        let branch: Expr = match b.op {
            BinOp::And(_) => syn::parse_quote_spanned!(span=> if #left { #right } else { false }),
            _ => syn::parse_quote_spanned!(span=> if #left { true } else { #right }),
        };
        let value = self.control(&branch, &Expected::tensor(), Use::Value)?;
        self.host_of(value, &branch)
    }
}

impl Cx<'_> {
    /// Returns whether a tree is an option, as far as is known.
    fn is_option(&self, base: Base) -> bool {
        match base {
            Base::Param(i) => is_option(&self.func.params[i].owned),
            Base::Local(_) => true,
        }
    }
}

/// Returns whether a type is written as an `Option`.
fn is_option(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Path(p) => p.path.segments.last().is_some_and(|s| s.ident == "Option"),
        _ => false,
    }
}

/// Returns an operand of `&&` with its original parentheses.
fn within(operand: &Expr, code: &Expr) -> TokenStream {
    match operand {
        Expr::Paren(_) => quote!((#code)),
        _ => quote!(#code),
    }
}
