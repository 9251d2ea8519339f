//! Lowers `for`, `while`, `loop` and labelled blocks.

use super::control::Use;
use super::join::Join;
use super::slots::join;
use crate::lower::expr::syntax::{has_let, peel};
use crate::lower::{Abort, Cx, Expected, LowerResult, Value};
use crate::program::HostCode;
use crate::program::checkpoint::LoopHead;
use gradloom_ir::flow::Node;
use gradloom_ir::{Aval, Var};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeMap;
use syn::Expr;
use syn::parse::Parser;
use syn::spanned::Spanned;

/// Loop or labelled block around the current statement.
#[derive(Clone, Debug)]
pub(in crate::lower) struct EnclosingLoop {
    pub(in crate::lower) label: Option<String>,
    pub(in crate::lower) is_loop: bool,
    /// Destination of the values of `break`.
    pub(in crate::lower) join: Option<Join>,
    /// Structure expected of these values.
    pub(in crate::lower) want: Expected,
    /// True if a `break` leaves it.
    pub(in crate::lower) broken: bool,
}

/// Maximum number of trial lowerings that find the avals of a loop's slots.
const TRIALS: usize = 3;

impl Cx<'_> {
    /// Lowers a loop repeatedly, until the avals of its slots at the loop head hold for every
    /// iteration.
    fn looped(&mut self, lower: impl Fn(&mut Self) -> LowerResult<()>) -> LowerResult<()> {
        let slots = self.slot_avals();
        for trial in 0..TRIALS {
            let before = self.clone();
            let start = self.host.flow.stored.len();
            let found = lower(self);
            let stored = self.host.flow.stored.split_off(start);
            *self = before;
            match found {
                // Errors are reported by the final lowering.
                Ok(()) | Err(Abort::Error) => {}
                Err(stop) => return Err(stop),
            }
            let mut changed = false;
            for (slot, _) in &slots {
                let known = self.builder.b.aval(*slot).clone();
                let values = stored.iter().filter(|(v, _)| v == slot);
                let all = values.fold(known.clone(), |all, (_, aval)| join(&all, aval));
                if all != known {
                    changed = true;
                    self.builder.b.set_aval(*slot, all);
                }
            }
            if !changed {
                break;
            }
            if trial + 1 == TRIALS {
                // Widening one slot can invalidate the avals of slots computed from it.
                for (slot, _) in &slots {
                    if stored.iter().any(|(v, _)| v == slot) {
                        self.builder.b.set_aval(*slot, Aval::UNKNOWN);
                    }
                }
            }
        }
        let head: Vec<(Var, Aval)> = self.slot_avals();
        let start = self.host.flow.stored.len();
        lower(self)?;
        self.any_stored(&head, start);
        self.builder.set_slot_avals(&head);
        self.host.flow.left = false;
        Ok(())
    }

    /// Joins the avals of all slots not in `known` with the values stored since `start`.
    ///
    /// This describes a point that any `break` may jump to.
    fn any_stored(&mut self, known: &[(Var, Aval)], start: usize) {
        let stored = self.host.flow.stored[start..].to_vec();
        for (slot, aval) in self.slot_avals() {
            if known.iter().all(|(v, _)| *v != slot) {
                let values = stored.iter().filter(|(v, _)| *v == slot);
                let all = values.fold(aval, |all, (_, aval)| join(&all, aval));
                self.builder.b.set_aval(slot, all);
            }
        }
    }

    fn inside(
        &mut self,
        label: &Option<syn::Label>,
        is_loop: bool,
        join: Option<Join>,
        want: &Expected,
    ) {
        self.host.flow.enclosing.push(EnclosingLoop {
            label: label.as_ref().map(|l| l.name.ident.to_string()),
            is_loop,
            join,
            want: want.clone(),
            broken: false,
        });
    }

    pub(in crate::lower) fn for_loop(
        &mut self,
        e: &syn::ExprForLoop,
        of: &Expr,
    ) -> LowerResult<Value> {
        if let Some((rows, is_counted)) = rows_of(&e.expr)
            && self.names.mentions_traced(rows)
        {
            return self.for_rows(e, rows, is_counted);
        }
        let every = self.checkpoint(&e.attrs, of)?;
        let (mut iterator, item) = self.iterator(&e.expr)?;
        let mut copies = Vec::new();
        if every.is_some() {
            (iterator, copies) = self.repeatable(&iterator, &e.expr)?;
        }
        self.slots_for(e)?;
        let (label, keyword, within) = (&e.label, &e.for_token, &e.in_token);
        self.looped(|cx| {
            cx.inside(&e.label, true, None, &Expected::tensor());
            cx.names.scopes.push(BTreeMap::new());
            let pat = cx.bind_item(&e.pat, &item);
            let lowered = pat.and_then(|pat| {
                let (_, body) = cx.scope(|cx| cx.statements(&e.body))?;
                Ok((pat, body))
            });
            cx.names.scopes.pop();
            cx.host.outside();
            let (pat, body) = lowered?;
            let before = quote!(#label #keyword #pat #within);
            let turns = Self::for_turns(&before, &iterator, copies.clone());
            cx.push_loop(of, turns, every.clone(), body)
        })?;
        Ok(self.host.unit())
    }

    /// Lowers `for row in x.rows()` as a loop over the indices of the first axis.
    fn for_rows(
        &mut self,
        e: &syn::ExprForLoop,
        of: &Expr,
        is_counted: bool,
    ) -> LowerResult<Value> {
        let value = self.eval(of, &Expected::tensor())?;
        let var = match value {
            Value::Tensor { .. } | Value::Place(_) => self.tensor(value, None)?,
            Value::Poison => return Err(Abort::Error),
            _ => return self.recorded("the rows of a value that is not a tensor", of.span()),
        };
        // Names that users do not write.
        let (rows, t) = (quote!(__rows), quote!(__row_index));
        let value = Value::Tensor { var, by_ref: false };
        let scope = BTreeMap::from([(rows.to_string(), value.into())]);
        let (pat, body) = (&e.pat, &e.body.stmts);
        let item = match is_counted {
            true => quote!((#t, #rows.row(#t))),
            false => quote!(#rows.row(#t)),
        };
        let lowered = syn::ExprForLoop {
            pat: Box::new(syn::Pat::parse_single.parse2(t).expect("a name")),
            expr: syn::parse_quote_spanned!(of.span()=> 0..#rows.dim(0)),
            body: syn::parse_quote_spanned!(of.span()=> { let #pat = #item; #(#body)* }),
            ..e.clone()
        };
        self.names.scopes.push(scope);
        let value = self.for_loop(&lowered, &Expr::ForLoop(lowered.clone()));
        self.names.scopes.pop();
        value
    }

    fn push_loop(
        &mut self,
        of: &Expr,
        turns: LoopHead,
        every: Option<TokenStream>,
        body: Vec<Node<HostCode>>,
    ) -> LowerResult<()> {
        match every {
            Some(every) => self.checkpointed(of, turns, every, body),
            None => {
                self.host.push_node(Node::Scope {
                    head: HostCode::Head(turns.shown),
                    body,
                });
                Ok(())
            }
        }
    }

    pub(in crate::lower) fn while_loop(
        &mut self,
        e: &syn::ExprWhile,
        of: &Expr,
    ) -> LowerResult<Value> {
        let every = self.checkpoint(&e.attrs, of)?;
        self.slots_for(e)?;
        let label = &e.label;
        self.looped(|cx| {
            cx.inside(&e.label, true, None, &Expected::tensor());
            let mut turns = LoopHead {
                shown: quote!(#label loop),
                head: quote!(#label loop),
                condition: None,
                copies: Vec::new(),
            };
            let lowered = cx.scope(|cx| {
                let n_lowered = cx.n_lowered();
                let (cond, bound) = cx.condition_code(&e.cond, "while")?;
                *cx.names
                    .scopes
                    .last_mut()
                    .expect("the scope has just been opened") = bound;
                if cx.n_lowered() == n_lowered {
                    let keyword = &e.while_token;
                    turns.shown = quote!(#label #keyword #cond);
                    turns.condition = Some(cond);
                } else if has_let(&e.cond) {
                    return cx.recorded("a pattern on a value that is computed", e.cond.span());
                } else {
                    cx.flush();
                    cx.host.push_code(quote!(if !(#cond) { break; }));
                }
                cx.statements(&e.body)
            });
            cx.host.outside();
            let (_, body) = lowered?;
            cx.push_loop(of, turns, every.clone(), body)
        })?;
        Ok(self.host.unit())
    }

    pub(in crate::lower) fn endless_loop(
        &mut self,
        e: &syn::ExprLoop,
        of: &Expr,
        want: &Expected,
        used: Use,
    ) -> LowerResult<Value> {
        let every = self.checkpoint(&e.attrs, of)?;
        if every.is_some() && used == Use::Value {
            self.diagnostics.errors.push(
                &e.loop_token,
                "a checkpointed `loop` has no value; assign to a local, and `break`",
            );
            return Err(Abort::Error);
        }
        let join = (used == Use::Value).then(|| self.join());
        self.slots_for(e)?;
        let (label, keyword) = (&e.label, &e.loop_token);
        let after = std::cell::RefCell::new(None);
        self.looped(|cx| {
            cx.inside(&e.label, true, join.clone(), want);
            let lowered = cx.scope(|cx| cx.statements(&e.body));
            *after.borrow_mut() = Some(cx.host.outside());
            let (_, body) = lowered?;
            let turns = LoopHead {
                shown: quote!(#label #keyword),
                head: quote!(#label #keyword),
                condition: None,
                copies: Vec::new(),
            };
            cx.push_loop(of, turns, every.clone(), body)
        })?;
        let enclosing = after.into_inner().expect("the loop has been lowered");
        self.host.flow.left = !enclosing.broken;
        Ok(match enclosing.join {
            Some(join) if enclosing.broken => self.joined(join),
            _ => self.host.unit(),
        })
    }

    /// Lowers `'label: { .. }`, which `break 'label` leaves.
    pub(in crate::lower) fn labelled_block(
        &mut self,
        e: &syn::ExprBlock,
        want: &Expected,
        used: Use,
    ) -> LowerResult<Value> {
        let place = (used == Use::Value).then(|| self.join());
        self.slots_for(e)?;
        let label = &e.label;
        let entry = self.slot_avals();
        let start = self.host.flow.stored.len();
        self.inside(label, false, place, want);
        let lowered = self.scope(|cx| {
            if used != Use::Value {
                return cx.statements(&e.block).map(drop);
            }
            let value = cx.block_as(&e.block, want, used)?;
            if cx.host.flow.left {
                return Ok(());
            }
            let mut join = cx.host.enclosing_mut(None).and_then(|a| a.join.take());
            let given = join.as_mut().map_or(Ok(()), |join| cx.give(join, value));
            if let Some(enclosing) = cx.host.enclosing_mut(None) {
                enclosing.join = join;
            }
            given
        });
        let enclosing = self.host.outside();
        let ((), body) = lowered?;
        self.host.push_node(Node::Scope {
            head: HostCode::Head(quote!(#label)),
            body,
        });
        self.builder.set_slot_avals(&entry);
        self.any_stored(&[], start);
        let left = self.host.flow.left && !enclosing.broken;
        self.host.flow.left = left;
        Ok(match enclosing.join {
            Some(join) if !left => self.joined(join),
            _ => self.host.unit(),
        })
    }
}

/// Returns the receiver of `x.rows()` or `x.rows().enumerate()`, and whether rows are counted.
fn rows_of(iterator: &Expr) -> Option<(&Expr, bool)> {
    let Expr::MethodCall(call) = peel(iterator) else {
        return None;
    };
    match (&*call.method.to_string(), call.args.len()) {
        ("rows", 0) => Some((&call.receiver, false)),
        ("enumerate", 0) => rows_of(&call.receiver)
            .filter(|(_, is_counted)| !is_counted)
            .map(|(x, _)| (x, true)),
        _ => None,
    }
}
