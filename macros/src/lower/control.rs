//! Branches, loops and exits: host code whose bodies are lowered, each in a scope of its own.

use super::blocks::{HostCode, Store, join};
use super::join::Join;
use super::pattern::Item;
use super::{Cx, R, Stop, Value, Want};
use gradloom_ir::flow::Node;
use gradloom_ir::{Aval, Var};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{BinOp, Block, Expr, Pat, Stmt};

/// A loop or a labelled block around what is lowered.
#[derive(Clone, Debug)]
pub(super) struct Around {
    label: Option<String>,
    is_loop: bool,
    /// Where `break` puts its value.
    join: Option<Join>,
    /// Whether anything breaks out of it.
    broken: bool,
}

/// What becomes of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Nobody reads it.
    Unused,
    /// It is read.
    Value,
    /// The function returns it.
    Returned,
}

/// The arms of a branch, of which one runs: each finds the slots as they were before.
struct Arms {
    entry: Vec<(Var, Aval)>,
    exits: Vec<Vec<(Var, Aval)>>,
    all_left: bool,
    failed: bool,
}

/// How often a loop is lowered to find out what is known of its slots, before that is given up.
const TRIALS: usize = 3;

impl Cx<'_> {
    /// An expression with branches, loops or exits.
    pub(super) fn control(&mut self, expr: &Expr, want: &Want, used: Use) -> R<Value> {
        self.at_line(expr.span());
        match expr {
            Expr::If(e) => self.branches(used, |cx, join| cx.if_arms(e, want, used, join)),
            Expr::Match(e) => self.branches(used, |cx, join| cx.match_arms(e, want, used, join)),
            Expr::ForLoop(e) => self.for_loop(e, expr),
            Expr::While(e) => self.while_loop(e, expr),
            Expr::Loop(e) => self.endless_loop(e, expr, used),
            Expr::Block(b) => self.labelled_block(b, want, used),
            Expr::Return(e) => self.return_value(e.expr.as_deref(), expr),
            Expr::Break(e) => self.break_out(e, want),
            Expr::Continue(e) => {
                self.leave(quote!(#e;));
                Ok(Value::Never)
            }
            Expr::Macro(m) => {
                if self.mentions_traced(expr) {
                    return self.recorded("a panic that shows a traced value", m.span());
                }
                self.leave(quote!(#m;));
                Ok(Value::Never)
            }
            other => self.recorded("an expression that is not straight-line", other.span()),
        }
    }

    /// Host code that control does not come back from.
    fn leave(&mut self, tokens: TokenStream) {
        self.flush();
        self.push_code(tokens);
        self.pieces_mut().left = true;
    }

    /// Makes sure that values which host code outside of the blocks reads are computed.
    pub(super) fn force(&mut self, reads: &[Var]) {
        if self.flow.is_some() {
            self.read(reads);
        }
    }

    fn slots_for(&mut self, expr: &impl Assigns) -> R<()> {
        for name in expr.assigned() {
            self.needs_slot(&name)?;
        }
        self.flush();
        Ok(())
    }

    /// A branch. If its arms give parts of trees in one place and tensors in another, all are read as tensors.
    fn branches(
        &mut self,
        used: Use,
        lower: impl Fn(&mut Self, Option<&mut Join>) -> R<()>,
    ) -> R<Value> {
        let before = self.clone();
        let first = self.branches_once(used, &lower);
        let Err(Stop::Mixed) = first else {
            return first;
        };
        *self = before;
        let outer = std::mem::replace(&mut self.pieces_mut().as_tensors, true);
        let second = self.branches_once(used, &lower);
        self.pieces_mut().as_tensors = outer;
        second
    }

    fn branches_once(
        &mut self,
        used: Use,
        lower: &impl Fn(&mut Self, Option<&mut Join>) -> R<()>,
    ) -> R<Value> {
        if used != Use::Value {
            lower(self, None)?;
            return Ok(self.unit());
        }
        let mut join = self.join();
        lower(self, Some(&mut join))?;
        Ok(self.joined(join))
    }

    /// What a statement gives.
    fn unit(&mut self) -> Value {
        match self.pieces_mut().left {
            true => Value::Never,
            false => Value::Host(super::Host {
                expr: syn::parse_quote!(()),
                reads: Vec::new(),
                number: false,
            }),
        }
    }

    fn arms(&self) -> Arms {
        Arms {
            entry: self.slot_avals(),
            exits: Vec::new(),
            all_left: true,
            failed: false,
        }
    }

    fn next_arm(&mut self, arms: &mut Arms, lower: impl FnOnce(&mut Self) -> R<()>) -> R<()> {
        self.set_slot_avals(&arms.entry);
        self.pieces_mut().left = false;
        match lower(self) {
            Err(Stop::Error) => arms.failed = true,
            other => other?,
        }
        let left = self.pieces_mut().left;
        arms.all_left &= left;
        if !left {
            arms.exits.push(self.slot_avals());
        }
        Ok(())
    }

    fn end_arms(&mut self, arms: Arms) -> R<()> {
        self.pieces_mut().left = arms.all_left;
        for (slot, aval) in arms.entry {
            let after = arms.exits.iter().flatten().filter(|(v, _)| *v == slot);
            let after = after.map(|(_, a)| a.clone()).reduce(|a, b| join(&a, &b));
            self.b.set_aval(slot, after.unwrap_or(aval));
        }
        if arms.failed {
            Err(Stop::Error)
        } else {
            Ok(())
        }
    }

    /// One arm of a branch: a scope in which `bound` is known. Its value goes where those of the others go.
    fn arm(
        &mut self,
        head: TokenStream,
        bound: BTreeMap<String, super::Local>,
        join: Option<&mut Join>,
        value: impl FnOnce(&mut Self) -> R<Value>,
    ) -> R<()> {
        let ((), body) = self.scope(|cx| {
            *cx.scopes.last_mut().expect("it has just been opened") = bound;
            let value = value(cx)?;
            match join {
                Some(join) if !cx.pieces_mut().left => cx.give(join, value),
                _ => Ok(()),
            }
        })?;
        self.push_node(Node::Scope {
            head: HostCode::Head(head),
            body,
        });
        Ok(())
    }

    fn if_arms(
        &mut self,
        e: &syn::ExprIf,
        want: &Want,
        used: Use,
        mut join: Option<&mut Join>,
    ) -> R<()> {
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

    fn match_arms(
        &mut self,
        e: &syn::ExprMatch,
        want: &Want,
        used: Use,
        mut join: Option<&mut Join>,
    ) -> R<()> {
        let (scrutinee, item) = self.scrutinee(&e.expr, "match")?;
        self.slots_for(e)?;
        let keyword = &e.match_token;
        let ((), body) = self.scope(|cx| {
            let mut arms = cx.arms();
            for arm in &e.arms {
                cx.next_arm(&mut arms, |cx| {
                    cx.scopes.push(BTreeMap::new());
                    let head = cx.arm_head(arm, &item);
                    let bound = cx.scopes.pop().expect("it has just been pushed");
                    let body = |cx: &mut Self| cx.body_as(&arm.body, want, used);
                    cx.arm(head?, bound, join.as_deref_mut(), body)
                })?;
            }
            cx.end_arms(arms)
        })?;
        self.push_node(Node::Scope {
            head: HostCode::Head(quote!(#keyword #scrutinee)),
            body,
        });
        Ok(())
    }

    /// A block in the place of a body.
    fn block_as(&mut self, block: &Block, want: &Want, used: Use) -> R<Value> {
        match (used, block.stmts.split_last()) {
            (Use::Returned, _) => {
                self.function_body(block)?;
                Ok(self.unit())
            }
            (Use::Value, Some((Stmt::Expr(tail, None), rest))) => {
                self.stmts(rest)?;
                self.top(tail, want)
            }
            _ => self.statements(block),
        }
    }

    /// An expression in the place of a body: of an arm, or after `else`.
    fn body_as(&mut self, body: &Expr, want: &Want, used: Use) -> R<Value> {
        match (body, used) {
            (Expr::Block(b), used) if b.label.is_none() => self.block_as(&b.block, want, used),
            (body, Use::Value) => self.top(body, want),
            (body, Use::Returned) => {
                self.tail(body)?;
                Ok(self.unit())
            }
            (body, Use::Unused) => {
                self.stmts(std::slice::from_ref(&Stmt::Expr(body.clone(), None)))?;
                Ok(self.unit())
            }
        }
    }

    fn arm_head(&mut self, arm: &syn::Arm, item: &Item) -> R<TokenStream> {
        let attrs = &arm.attrs;
        let Pat::Guard(guarded) = &arm.pat else {
            let pat = self.bind_item(&arm.pat, item)?;
            return Ok(quote!(#(#attrs)* #pat =>));
        };
        let pat = self.bind_item(&guarded.pat, item)?;
        let n_eqns = self.b.n_eqns();
        let guard = self.host_condition(&guarded.guard, "if")?;
        if n_eqns != self.b.n_eqns() {
            return self.recorded("a guard that computes tensors", guarded.if_token.span());
        }
        let keyword = &guarded.if_token;
        Ok(quote!(#(#attrs)* #pat #keyword #guard =>))
    }

    /// Whether nothing has been lowered in the block that is open.
    fn is_clean(&self) -> bool {
        self.b.n_eqns() == 0 && self.hosts.is_empty()
    }

    /// What a `match` or an `if let` looks at.
    fn scrutinee(&mut self, expr: &Expr, keyword: &str) -> R<(TokenStream, Item)> {
        let by_value = matches!(peel(expr), Expr::MethodCall(m) if m.method != "as_ref" && m.method != "as_deref");
        if let Expr::MethodCall(m) = peel(expr)
            && (m.method == "as_ref" || m.method == "as_deref")
            && self.mentions_traced(&m.receiver)
        {
            let method = &m.method;
            return match self.eval(&m.receiver, &Want::one())? {
                Value::Place(place) => {
                    let e = &place.expr;
                    Ok((quote!(#e.#method()), Item::Place { param: place.param }))
                }
                _ => self.recorded("what is matched", expr.span()),
            };
        }
        match self.eval(expr, &Want::one())? {
            Value::Host(host) => {
                self.force(&host.reads);
                let number = host.number;
                let tokens = host.expr.to_token_stream();
                Ok((tokens, Item::Host { number }))
            }
            Value::Place(place) if !by_value => {
                let tokens = match place.by_ref {
                    true => self.reference(&place),
                    false => place.expr.to_token_stream(),
                };
                Ok((tokens, Item::Place { param: place.param }))
            }
            Value::Tensor { .. } => self.refuse_condition(expr, keyword),
            Value::Poison => Err(Stop::Error),
            _ => self.recorded("what is matched", expr.span()),
        }
    }

    /// A condition as it is emitted, and what its patterns bind.
    fn condition_code(
        &mut self,
        cond: &Expr,
        keyword: &str,
    ) -> R<(TokenStream, BTreeMap<String, super::Local>)> {
        self.scopes.push(BTreeMap::new());
        let code = self.conditions(cond, keyword);
        let bound = self.scopes.pop().expect("it has just been pushed");
        Ok((code?, bound))
    }

    fn conditions(&mut self, cond: &Expr, keyword: &str) -> R<TokenStream> {
        match cond {
            Expr::Let(e) => {
                let (scrutinee, item) = self.scrutinee(&e.expr, keyword)?;
                let pat = self.bind_item(&e.pat, &item)?;
                Ok(quote!(let #pat = #scrutinee))
            }
            Expr::Binary(b) if matches!(b.op, BinOp::And(_)) && has_let(cond) => {
                let left = self.conditions(&b.left, keyword)?;
                let right = self.conditions(&b.right, keyword)?;
                let op = &b.op;
                Ok(quote!(#left #op #right))
            }
            cond => self.host_condition(cond, keyword),
        }
    }

    fn host_condition(&mut self, cond: &Expr, keyword: &str) -> R<TokenStream> {
        // What stands on the right of `&&` is computed only if the left is true, and equations do not wait.
        if let Expr::Binary(b) = peel(cond)
            && matches!(b.op, BinOp::And(_) | BinOp::Or(_))
        {
            let left = self.host_condition(&b.left, keyword)?;
            let n_eqns = self.b.n_eqns();
            let right = self.host_condition(&b.right, keyword)?;
            if self.b.n_eqns() != n_eqns {
                return self.recorded("a condition that may not be computed", b.right.span());
            }
            let op = &b.op;
            let (left, right) = (within(&b.left, left), within(&b.right, right));
            return Ok(quote!(#left #op #right));
        }
        let outer = std::mem::replace(&mut self.host_places, true);
        let value = self.eval(cond, &Want::one());
        self.host_places = outer;
        match value? {
            Value::Host(host) => {
                self.force(&host.reads);
                Ok(host.expr.to_token_stream())
            }
            Value::Place(place) => Ok(place.expr.to_token_stream()),
            Value::Tensor { .. } => self.refuse_condition(cond, keyword),
            Value::Poison => Err(Stop::Error),
            _ => self.recorded("a condition", cond.span()),
        }
    }

    /// Lowers a loop until what is known of its slots holds at its head, however often it runs.
    fn looped(&mut self, lower: impl Fn(&mut Self) -> R<()>) -> R<()> {
        let slots = self.slot_avals();
        for trial in 0..TRIALS {
            let before = self.clone();
            let start = self.pieces_mut().stored.len();
            let found = lower(self);
            let stored = self.pieces_mut().stored.split_off(start);
            *self = before;
            match found {
                // It is reported when the loop is lowered for good.
                Ok(()) | Err(Stop::Error) => {}
                Err(stop) => return Err(stop),
            }
            let mut changed = false;
            for (slot, _) in &slots {
                let known = self.b.aval(*slot).clone();
                let values = stored.iter().filter(|(v, _)| v == slot);
                let all = values.fold(known.clone(), |all, (_, aval)| join(&all, aval));
                if all != known {
                    changed = true;
                    let all = if trial + 1 < TRIALS {
                        all
                    } else {
                        Aval::UNKNOWN
                    };
                    self.b.set_aval(*slot, all);
                }
            }
            if !changed {
                break;
            }
        }
        let head: Vec<(Var, Aval)> = self.slot_avals();
        lower(self)?;
        self.set_slot_avals(&head);
        self.pieces_mut().left = false;
        Ok(())
    }

    fn inside(&mut self, label: &Option<syn::Label>, is_loop: bool, join: Option<Join>) {
        self.pieces_mut().around.push(Around {
            label: label.as_ref().map(|l| l.name.ident.to_string()),
            is_loop,
            join,
            broken: false,
        });
    }

    fn outside(&mut self) -> Around {
        let around = self.pieces_mut().around.pop();
        around.expect("it has been pushed")
    }

    fn for_loop(&mut self, e: &syn::ExprForLoop, of: &Expr) -> R<Value> {
        let every = self.checkpoint(&e.attrs, of)?;
        let (iterator, item) = self.iterator(&e.expr)?;
        self.slots_for(e)?;
        let (label, keyword, within) = (&e.label, &e.for_token, &e.in_token);
        self.looped(|cx| {
            cx.inside(&e.label, true, None);
            cx.scopes.push(BTreeMap::new());
            let pat = cx.bind_item(&e.pat, &item);
            let lowered = pat.and_then(|pat| {
                let (_, body) = cx.scope(|cx| cx.statements(&e.body))?;
                Ok((pat, body))
            });
            cx.scopes.pop();
            cx.outside();
            let (pat, body) = lowered?;
            let (head, again) = Self::for_head(&quote!(#label #keyword #pat #within), &iterator);
            cx.push_loop(of, head, again, every.clone(), body)
        })?;
        Ok(self.unit())
    }

    fn push_loop(
        &mut self,
        of: &Expr,
        head: TokenStream,
        again: TokenStream,
        every: Option<TokenStream>,
        body: Vec<Node<HostCode>>,
    ) -> R<()> {
        match every {
            Some(every) => self.checkpointed(of, again, head, every, body),
            None => {
                self.push_node(Node::Scope {
                    head: HostCode::Head(head),
                    body,
                });
                Ok(())
            }
        }
    }

    fn while_loop(&mut self, e: &syn::ExprWhile, of: &Expr) -> R<Value> {
        let every = self.checkpoint(&e.attrs, of)?;
        self.slots_for(e)?;
        let label = &e.label;
        self.looped(|cx| {
            cx.inside(&e.label, true, None);
            let mut head = TokenStream::new();
            let lowered = cx.scope(|cx| {
                let (cond, bound) = cx.condition_code(&e.cond, "while")?;
                *cx.scopes.last_mut().expect("it has just been opened") = bound;
                if cx.is_clean() {
                    let keyword = &e.while_token;
                    head = quote!(#label #keyword #cond);
                } else if has_let(&e.cond) {
                    return cx.recorded("a pattern on a value that is computed", e.cond.span());
                } else {
                    cx.flush();
                    head = quote!(#label loop);
                    cx.push_code(quote!(if !(#cond) { break; }));
                }
                cx.statements(&e.body)
            });
            cx.outside();
            let (_, body) = lowered?;
            cx.push_loop(of, head.clone(), head, every.clone(), body)
        })?;
        Ok(self.unit())
    }

    fn endless_loop(&mut self, e: &syn::ExprLoop, of: &Expr, used: Use) -> R<Value> {
        let every = self.checkpoint(&e.attrs, of)?;
        if every.is_some() && used == Use::Value {
            self.errors.push(
                &e.loop_token,
                "a checkpointed `loop` gives no value; assign to a local, and `break`",
            );
            return Err(Stop::Error);
        }
        let join = (used == Use::Value).then(|| self.join());
        self.slots_for(e)?;
        let (label, keyword) = (&e.label, &e.loop_token);
        let after = std::cell::RefCell::new(None);
        self.looped(|cx| {
            cx.inside(&e.label, true, join.clone());
            let lowered = cx.scope(|cx| cx.statements(&e.body));
            *after.borrow_mut() = Some(cx.outside());
            let (_, body) = lowered?;
            let head = quote!(#label #keyword);
            cx.push_loop(of, head.clone(), head, every.clone(), body)
        })?;
        let around = after.into_inner().expect("the loop has been lowered");
        self.pieces_mut().left = !around.broken;
        Ok(match around.join {
            Some(join) if around.broken => self.joined(join),
            _ => self.unit(),
        })
    }

    /// `'label: { .. }`, which `break 'label` leaves.
    fn labelled_block(&mut self, e: &syn::ExprBlock, want: &Want, used: Use) -> R<Value> {
        let place = (used == Use::Value).then(|| self.join());
        self.slots_for(e)?;
        let label = &e.label;
        let entry = self.slot_avals();
        let start = self.pieces_mut().stored.len();
        self.inside(label, false, place);
        let lowered = self.scope(|cx| {
            if used != Use::Value {
                return cx.statements(&e.block).map(drop);
            }
            let value = cx.block_as(&e.block, want, used)?;
            if cx.pieces_mut().left {
                return Ok(());
            }
            let mut join = cx.around_mut(None).and_then(|a| a.join.take());
            let given = join.as_mut().map_or(Ok(()), |join| cx.give(join, value));
            if let Some(around) = cx.around_mut(None) {
                around.join = join;
            }
            given
        });
        let around = self.outside();
        let ((), body) = lowered?;
        self.push_node(Node::Scope {
            head: HostCode::Head(quote!(#label)),
            body,
        });
        // Control may come from any `break`, so a slot holds anything that was stored.
        let stored = self.pieces_mut().stored[start..].to_vec();
        for (slot, aval) in entry {
            let values = stored.iter().filter(|(v, _)| *v == slot);
            let all = values.fold(aval, |all, (_, aval)| join(&all, aval));
            self.b.set_aval(slot, all);
        }
        let left = self.pieces_mut().left && !around.broken;
        self.pieces_mut().left = left;
        Ok(match around.join {
            Some(join) if !left => self.joined(join),
            _ => self.unit(),
        })
    }

    /// The loop or block that a label names, or the innermost one.
    fn around_mut(&mut self, label: Option<&syn::Lifetime>) -> Option<&mut Around> {
        let mut around = self.pieces_mut().around.iter_mut().rev();
        match label {
            Some(label) => {
                let name = label.ident.to_string();
                around.find(|a| a.label.as_deref() == Some(&name))
            }
            None => around.next(),
        }
    }

    fn break_out(&mut self, e: &syn::ExprBreak, want: &Want) -> R<Value> {
        let label = e.label.as_ref();
        let value = match &e.expr {
            Some(expr) => Some(self.eval(expr, want)?),
            None => None,
        };
        let found = match label {
            Some(_) => self.around_mut(label),
            None => self
                .pieces_mut()
                .around
                .iter_mut()
                .rev()
                .find(|a| a.is_loop),
        };
        let Some(around) = found else {
            return self.recorded("`break`", e.span());
        };
        around.broken = true;
        let mut join = around.join.take();
        if let (Some(join), Some(value)) = (&mut join, value) {
            self.give(join, value)?;
        }
        let found = match label {
            Some(_) => self.around_mut(label),
            None => self
                .pieces_mut()
                .around
                .iter_mut()
                .rev()
                .find(|a| a.is_loop),
        };
        found.expect("it has just been found").join = join;
        let keyword = &e.break_token;
        self.leave(quote!(#keyword #label;));
        Ok(Value::Never)
    }

    /// `return`, and the end of the body.
    pub(super) fn return_value(&mut self, value: Option<&Expr>, at: &Expr) -> R<Value> {
        let Some(value) = value else {
            return self.recorded("`return` without a value", at.span());
        };
        let shape = self.func.output.shape.clone();
        let want = Want {
            shape: shape.clone(),
            count: None,
        };
        let written = value;
        let value = match &self.func.output.result {
            None => self.top(value, &want)?,
            Some(_) => match value {
                Expr::Call(call)
                    if super::stmt::is_path(&call.func, "Ok") && call.args.len() == 1 =>
                {
                    self.top(&call.args[0], &want)?
                }
                Expr::Call(call)
                    if super::stmt::is_path(&call.func, "Err") && !self.mentions_traced(value) =>
                {
                    let value = self.rename(value);
                    self.flush();
                    self.push_node(Node::Host(HostCode::Fail(quote!(return #value;))));
                    self.pieces_mut().left = true;
                    return Ok(Value::Never);
                }
                Expr::If(_) | Expr::Match(_) => {
                    return self.control(value, &want, Use::Returned);
                }
                Expr::Call(_) | Expr::MethodCall(_) => self.eval_fallible(value, &want)?,
                other => return self.recorded("a `Result` that is not `Ok(..)`", other.span()),
            },
        };
        if self.pieces_mut().left {
            return Ok(Value::Never);
        }
        let mut outs = Vec::new();
        self.outs(value, &shape, &mut outs)?;
        self.check_returns(&outs, Some(written));
        let results = self.pieces_mut().results.clone();
        for (result, out) in results.iter().zip(&outs) {
            self.store(*result, *out, Store::Result);
        }
        self.flush();
        self.push_node(Node::Return(outs));
        self.pieces_mut().left = true;
        Ok(Value::Never)
    }

    /// Lowers the body of the function: its last expression is what it returns.
    pub(super) fn function_body(&mut self, block: &Block) -> R<()> {
        let Some((last, rest)) = block.stmts.split_last() else {
            return Err(Stop::Recorded("its body is empty".to_owned()));
        };
        self.stmts(rest)?;
        match last {
            Stmt::Expr(tail, None) => self.tail(tail),
            other => self.stmts(std::slice::from_ref(other)),
        }
    }

    /// The last expression of the function. Its branches return, each for itself.
    fn tail(&mut self, tail: &Expr) -> R<()> {
        if self.pieces_mut().left {
            return Ok(());
        }
        match tail {
            Expr::Paren(p) => self.tail(&p.expr),
            Expr::Return(_) | Expr::If(_) | Expr::Match(_) => {
                self.control(tail, &Want::one(), Use::Returned).map(drop)
            }
            tail if is_control(tail) && self.func.output.result.is_some() => {
                self.control(tail, &Want::one(), Use::Unused)?;
                match self.pieces_mut().left {
                    true => Ok(()),
                    false => self.recorded("a `Result` that a loop gives", tail.span()),
                }
            }
            tail => self.return_value(Some(tail), tail).map(drop),
        }
    }

    /// The statements of a block of which nobody reads a value.
    fn statements(&mut self, block: &Block) -> R<Value> {
        self.stmts(&block.stmts)?;
        Ok(self.unit())
    }

    /// The value of an expression that nothing else is evaluated beside: it may assign to locals.
    pub(super) fn top(&mut self, expr: &Expr, want: &Want) -> R<Value> {
        match expr {
            Expr::Paren(p) => self.top(&p.expr, want),
            expr if self.flow.is_some() && is_control(expr) && self.is_traced_control(expr) => {
                self.control(expr, want, Use::Value)
            }
            expr => self.eval(expr, want),
        }
    }

    /// Whether branches and loops are more than host code.
    pub(super) fn is_traced_control(&self, expr: &Expr) -> bool {
        self.mentions_traced(expr) || exits(expr) || super::expr::makes_tensor_inside(expr)
    }
}

/// Host code that may assign to locals.
trait Assigns {
    fn assigned(&self) -> Vec<Ident>;
}

macro_rules! assigns {
    ($($ty:ident: $visit:ident,)*) => {$(
        impl Assigns for syn::$ty {
            fn assigned(&self) -> Vec<Ident> {
                let mut found = Assigned::default();
                found.$visit(self);
                found.names
            }
        }
    )*};
}
assigns! {
    ExprIf: visit_expr_if,
    ExprMatch: visit_expr_match,
    ExprForLoop: visit_expr_for_loop,
    ExprWhile: visit_expr_while,
    ExprLoop: visit_expr_loop,
    ExprBlock: visit_expr_block,
}

/// The names that an expression assigns to.
pub(super) fn assigned(expr: &Expr) -> Vec<Ident> {
    let mut found = Assigned::default();
    found.visit_expr(expr);
    found.names
}

#[derive(Default)]
struct Assigned {
    names: Vec<Ident>,
    seen: BTreeSet<String>,
}

impl Assigned {
    fn target(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(p) => {
                if let Some(ident) = p.path.get_ident()
                    && self.seen.insert(ident.to_string())
                {
                    self.names.push(ident.clone());
                }
            }
            Expr::Tuple(t) => t.elems.iter().for_each(|e| self.target(e)),
            Expr::Array(a) => a.elems.iter().for_each(|e| self.target(e)),
            Expr::Paren(p) => self.target(&p.expr),
            Expr::Field(f) => self.target(&f.base),
            Expr::Index(i) => self.target(&i.expr),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Assigned {
    fn visit_expr_assign(&mut self, e: &'ast syn::ExprAssign) {
        self.target(&e.left);
        syn::visit::visit_expr_assign(self, e);
    }
    fn visit_expr_binary(&mut self, e: &'ast syn::ExprBinary) {
        if super::stmt::is_compound(&e.op) {
            self.target(&e.left);
        }
        syn::visit::visit_expr_binary(self, e);
    }
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Whether an expression is a branch, a loop or an exit.
pub(super) fn is_control(expr: &Expr) -> bool {
    match expr {
        Expr::If(_) | Expr::Match(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => true,
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Block(b) => b.label.is_some(),
        Expr::Macro(m) => is_panic(&m.mac),
        _ => false,
    }
}

/// Whether a macro does not come back.
pub(super) fn is_panic(mac: &syn::Macro) -> bool {
    let name = mac.path.segments.last().map(|s| s.ident.to_string());
    let name = name.unwrap_or_default();
    ["panic", "unreachable", "unimplemented", "todo"].contains(&name.as_str())
}

/// The operand of `&&` as it was written: another `&&` or `||` keeps its parentheses.
fn within(operand: &Expr, code: TokenStream) -> TokenStream {
    match operand {
        Expr::Paren(_) => quote!((#code)),
        _ => code,
    }
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(b) => has_let(&b.left) || has_let(&b.right),
        Expr::Paren(p) => has_let(&p.expr),
        _ => false,
    }
}

fn peel(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(p) => peel(&p.expr),
        Expr::Group(g) => peel(&g.expr),
        other => other,
    }
}

/// Whether an expression returns from the function, or may with `?`.
pub(super) fn has_return(expr: &Expr) -> bool {
    struct Returns(bool);
    impl<'ast> Visit<'ast> for Returns {
        fn visit_expr_return(&mut self, _: &'ast syn::ExprReturn) {
            self.0 = true;
        }
        fn visit_expr_try(&mut self, _: &'ast syn::ExprTry) {
            self.0 = true;
        }
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_item(&mut self, _: &'ast syn::Item) {}
    }
    let mut found = Returns(false);
    found.visit_expr(expr);
    found.0
}

/// Whether control can leave an expression: to the end of the function, or to a loop around it.
pub(super) fn exits(expr: &Expr) -> bool {
    struct Exits {
        found: bool,
        loops: usize,
        labels: Vec<String>,
    }
    impl Exits {
        fn leaves(&mut self, label: &Option<syn::Lifetime>) {
            self.found |= match label {
                Some(label) => !self.labels.contains(&label.ident.to_string()),
                None => self.loops == 0,
            };
        }
        fn within(
            &mut self,
            label: &Option<syn::Label>,
            is_loop: bool,
            visit: impl FnOnce(&mut Self),
        ) {
            let labelled = label.as_ref().map(|l| l.name.ident.to_string());
            let n = self.labels.len();
            self.labels.extend(labelled);
            self.loops += usize::from(is_loop);
            visit(self);
            self.loops -= usize::from(is_loop);
            self.labels.truncate(n);
        }
    }
    impl<'ast> Visit<'ast> for Exits {
        fn visit_expr_return(&mut self, _: &'ast syn::ExprReturn) {
            self.found = true;
        }
        fn visit_expr_await(&mut self, _: &'ast syn::ExprAwait) {
            self.found = true;
        }
        fn visit_expr_break(&mut self, e: &'ast syn::ExprBreak) {
            self.leaves(&e.label);
        }
        fn visit_expr_continue(&mut self, e: &'ast syn::ExprContinue) {
            self.leaves(&e.label);
        }
        fn visit_expr_for_loop(&mut self, e: &'ast syn::ExprForLoop) {
            self.within(&e.label, true, |v| syn::visit::visit_expr_for_loop(v, e));
        }
        fn visit_expr_while(&mut self, e: &'ast syn::ExprWhile) {
            self.within(&e.label, true, |v| syn::visit::visit_expr_while(v, e));
        }
        fn visit_expr_loop(&mut self, e: &'ast syn::ExprLoop) {
            self.within(&e.label, true, |v| syn::visit::visit_expr_loop(v, e));
        }
        fn visit_expr_block(&mut self, e: &'ast syn::ExprBlock) {
            self.within(&e.label, false, |v| syn::visit::visit_expr_block(v, e));
        }
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_item(&mut self, _: &'ast syn::Item) {}
    }
    let mut exits = Exits {
        found: false,
        loops: 0,
        labels: Vec::new(),
    };
    exits.visit_expr(expr);
    exits.found
}
