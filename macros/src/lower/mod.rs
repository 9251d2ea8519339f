//! Lowers the body of a function to a program.
//!
//! Code between branches and loops is evaluated symbolically: each local is a [`Value`], and each op
//! on a tensor appends an equation to the open block. Code that does not involve tensors stays Rust:
//! host statements keep their position between the equations, and a host value that an op takes as a
//! static argument is bound once, at that position. A branch or a loop ends the block, so a
//! straight-line body is a single block.
//!
//! Valid Rust that the macro does not understand stops the lowering with [`Abort::Recorded`]: the
//! companions then run the user's function and record its ops.

mod explain;
mod expr;
mod flow;
mod host;
mod numbers;
mod state;
mod stmt;

use flow::assemble::has_checkpoint;
use host::items::Items;
use state::block_builder::{BlockBuilder, Unclear};
use state::diagnostics::Diagnostics;
use state::host_state::HostState;
use state::kinds::Kind;
use state::scope::Scope;
use state::value::{Base, Content, Expected, Host, Local, Place, Value};

use crate::input::{Func, OutShape, text};
use crate::method_table::CHANGES_PREFIX;
use crate::program::Body;
use crate::report::Errors;
use gradloom_ir::{Attr, DType, Op, Var};
use proc_macro2::{Span, TokenStream};
use std::collections::BTreeSet;
use syn::visit::Visit;

/// Reason why lowering stops.
#[derive(Debug)]
pub(crate) enum Abort {
    /// The user's code is wrong, and an error has been reported.
    Error,
    /// The body has to be traced at run time, for the reason given.
    Recorded(String),
    /// The body has to be lowered again from the start, with this choice.
    Again(Choice),
    /// The values of a branch are tensors in some arms and parts of trees in others.
    ///
    /// The branch is to be lowered again with all of them read as tensors.
    Mixed,
}

/// Choice that only later code shows to be needed. Code is named by its line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Choice {
    /// This expression or statement is not lowered to equations.
    Inline(usize, usize),
    /// The local that is declared here holds a tree.
    Tree(usize, usize),
    /// The part of a parameter that is taken here is a tree.
    Part(usize, usize),
    /// The function or method that is called here returns a number or another host value.
    Number(usize, usize),
}

type LowerResult<T> = Result<T, Abort>;

/// Context of lowering: the state of four parts, each with the methods that need no other.
#[derive(Clone)]
struct Cx<'a> {
    func: &'a Func,
    items: &'a Items,
    names: Scope,
    builder: BlockBuilder,
    host: HostState,
    diagnostics: Diagnostics<'a>,
    choices: &'a BTreeSet<Choice>,
    /// Number of calls of closures so far. The body of a closure is lowered at each call.
    closure_calls: usize,
    /// True if code that is not lowered to equations may be a step of the program.
    forms: bool,
    /// Path of the run time.
    rt: TokenStream,
}

/// Lowers the body of `func`.
///
/// Errors are collected in `errors`; the result is then [`Body::Recorded`].
pub(crate) fn lower(
    func: &Func,
    block: &syn::Block,
    rt: &TokenStream,
    errors: &mut Errors,
) -> Body {
    if let Some(method) = changed_prefix(block) {
        let reason = format!("it changes batch prefixes by `{method}`");
        return Body::Recorded(recorded_with_checkpoint(block, errors, &reason));
    }
    let items = Items::new(func, block);
    let mut choices = BTreeSet::new();
    let mut forms = true;
    loop {
        let mut cx = Cx::new(func, block, &items, &choices, forms, rt);
        let found = match cx.patterns().and_then(|()| cx.function(block)) {
            Err(Abort::Again(choice)) => Err(Abort::Again(choice)),
            found => match cx.builder.kinds.wrong_guess() {
                Some(choice) => Err(Abort::Again(choice)),
                None => found,
            },
        };
        match found {
            Err(Abort::Again(choice)) if choices.len() < MOST_CHOICES => {
                choices.insert(choice);
            }
            // The error may come from an assumption about a type.
            Ok(()) | Err(Abort::Error) if forms && cx.has_failed() => {
                if !func.output.shape.is_known() {
                    return Body::Recorded(format!("it returns `{}`", text(&func.output.ty)));
                }
                forms = false;
            }
            found => return finished(cx, found, block, errors),
        }
    }
}

/// Returns the first method in a body that changes the batch prefix of a tensor.
///
/// Rules of derivatives assume that results have the prefix of the operand that has most axes.
fn changed_prefix(block: &syn::Block) -> Option<String> {
    struct Finder(Option<String>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            syn::visit::visit_expr_method_call(self, call);
            let name = call.method.to_string();
            if CHANGES_PREFIX.contains(&name.as_str()) {
                self.0.get_or_insert(name);
            }
        }
    }
    let mut finder = Finder(None);
    finder.visit_block(block);
    finder.0
}

/// Returns the body that was lowered, or the reason why it is recorded.
fn finished(cx: Cx, found: LowerResult<()>, block: &syn::Block, errors: &mut Errors) -> Body {
    let stopped = match found {
        Ok(()) if !cx.has_failed() => {
            let operands = cx.host.number_operands.clone();
            let (func, mut flow) = (cx.func, cx.pieces());
            flow.numbers = numbers::numbers(func, block, &operands);
            return Body::Compiled(Box::new(flow));
        }
        Ok(()) if cx.diagnostics.errors.is_empty() && cx.cuts_trees() => {
            recorded_with_checkpoint(block, errors, "it makes trees")
        }
        Ok(()) if cx.diagnostics.errors.is_empty() => {
            "a local holds a tensor on one path and a tree on another".to_owned()
        }
        Ok(()) | Err(Abort::Error) => "its body has errors".to_owned(),
        Err(Abort::Again(_)) => "too much of it is not lowered to equations".to_owned(),
        Err(Abort::Mixed) => "its branches have values of different kinds".to_owned(),
        Err(Abort::Recorded(reason)) => match cx.diagnostics.errors.is_empty() {
            true => recorded_with_checkpoint(block, errors, &reason),
            false => reason,
        },
    };
    errors.append(cx.diagnostics.errors);
    Body::Recorded(stopped)
}

/// Reports a `#[checkpoint]` in a body that is recorded, and returns the reason.
fn recorded_with_checkpoint(block: &syn::Block, errors: &mut Errors, reason: &str) -> String {
    if let Some(attr) = flow::checkpoint::find(block) {
        let message = format!(
            "`#[checkpoint]` has no effect in a body that is traced at run time, as this one is ({reason}); move the loop into its own traced function or method"
        );
        errors.push(&attr, message);
    }
    reason.to_owned()
}

/// Maximum number of calls of closures in one body.
///
/// A chain of closures, each of which calls the one before twice, has exponentially many.
const MOST_CLOSURE_CALLS: usize = 1000;

/// Maximum number of choices for one body.
const MOST_CHOICES: usize = 100;

impl<'a> Cx<'a> {
    fn new(
        func: &'a Func,
        source: &'a syn::Block,
        items: &'a Items,
        choices: &'a BTreeSet<Choice>,
        forms: bool,
        rt: &TokenStream,
    ) -> Cx<'a> {
        let mut cx = Cx {
            func,
            items,
            names: Scope::new(),
            builder: BlockBuilder::new(),
            host: HostState::new(),
            diagnostics: Diagnostics::new(source),
            choices,
            closure_calls: 0,
            forms,
            rt: rt.clone(),
        };
        for name in &items.names {
            cx.names.host_names.push(name.clone());
        }
        cx.params();
        cx
    }
}

impl Cx<'_> {
    /// Returns whether lowering has found errors, or values of contradictory kinds.
    fn has_failed(&self) -> bool {
        !self.diagnostics.errors.is_empty() || self.builder.kinds.clash() || self.cuts_trees()
    }

    /// Returns whether the body has both trees and a loop that is cut into segments.
    fn cuts_trees(&self) -> bool {
        self.host
            .flow
            .open
            .iter()
            .any(|nodes| has_checkpoint(nodes))
            && !self.builder.kinds.trees(false).is_empty()
    }

    /// Appends the variables of `value`, which must have the structure `shape`, to `outs`.
    fn outs(&mut self, value: Value, shape: &OutShape, outs: &mut Vec<Var>) -> LowerResult<()> {
        match (value, shape) {
            (Value::Tuple(values), OutShape::Tuple(shapes)) if values.len() == shapes.len() => {
                values
                    .into_iter()
                    .zip(shapes)
                    .try_for_each(|(v, s)| self.outs(v, s, outs))
            }
            (
                value @ (Value::Tensor { .. } | Value::Place(_) | Value::Host(_) | Value::Poison),
                OutShape::Tensor,
            ) => {
                let var = self.tensor(value, None)?;
                if !self.builder.kinds.decide(var, Kind::Tensor) {
                    return Err(Abort::Recorded("its result is not a tensor".to_owned()));
                }
                outs.push(var);
                Ok(())
            }
            (Value::Host(host), OutShape::Opaque) if self.forms => {
                let value = self.made(host, None)?;
                self.outs(value, shape, outs)
            }
            (value @ (Value::Tensor { .. } | Value::Place(_)), OutShape::Opaque) => {
                if let Value::Tensor { var, .. } = value {
                    self.operator_on_trees(var, &[Unclear::Result])?;
                }
                let var = self.tree_of(value)?;
                outs.push(var);
                Ok(())
            }
            (value @ (Value::Tensor { .. } | Value::Place(_)), OutShape::Tuple(shapes)) => {
                let Value::Place(place) = self.as_place(value) else {
                    return Err(Abort::Recorded("its result is not a tuple".to_owned()));
                };
                shapes.iter().enumerate().try_for_each(|(i, shape)| {
                    let part = self.field(&place, &syn::Member::Unnamed(i.into()));
                    self.outs(part, shape, outs)
                })
            }
            // rustc reports a type error in the user's function.
            _ => Err(Abort::Recorded(
                "its result is not written as tensors".to_owned(),
            )),
        }
    }

    fn recorded<T>(&self, what: &str, span: Span) -> LowerResult<T> {
        Err(Abort::Recorded(format!(
            "{what} at line {}",
            span.start().line
        )))
    }

    /// Notes that a value is a tensor, not a tree.
    fn is_tensor(&mut self, var: Var, span: Span) -> LowerResult<()> {
        match self.builder.kinds.decide(var, Kind::Tensor) {
            true => Ok(()),
            false => self.recorded("a tree that is used as a tensor", span),
        }
    }

    /// Casts the operands of an op that promotes them, if their dtypes are known.
    ///
    /// An operand of unknown dtype is cast when the op is recorded.
    fn cast_operands(
        &mut self,
        op: Op,
        args: &mut [Var],
        n_data: usize,
        span: Span,
    ) -> LowerResult<()> {
        let operands = args.get(op.promotes(n_data)).unwrap_or_default().to_vec();
        let dtype_of = |var: &Var| self.builder.b.aval(*var).dtype;
        let Some(dtypes) = operands
            .iter()
            .map(dtype_of)
            .collect::<Option<Vec<DType>>>()
        else {
            return Ok(());
        };
        let Some(dtype) = op.cast_to(dtypes.iter().copied()) else {
            return Ok(());
        };
        let attr = self.builder.b.attr(dtype);
        for (var, found) in operands.into_iter().zip(&dtypes) {
            if *found != dtype {
                let cast = self.emit(Op::Cast, &[attr], vec![var], vec![var], 1, span)?[0];
                let is_like = |arg: &&mut Var| **arg == var;
                args.iter_mut().filter(is_like).for_each(|arg| *arg = cast);
            }
        }
        Ok(())
    }

    /// Appends an equation, or reports why its operands do not fit.
    fn emit(
        &mut self,
        op: Op,
        statics: &[Attr],
        data: Vec<Var>,
        likes: Vec<Var>,
        n_outs: usize,
        span: Span,
    ) -> LowerResult<Vec<Var>> {
        let mut args: Vec<Var> = data.iter().chain(&likes).copied().collect();
        for arg in &args {
            self.is_tensor(*arg, span)?;
        }
        self.cast_operands(op, &mut args, data.len(), span)?;
        match self.builder.b.try_emit(op, statics, &args, n_outs) {
            Ok(outs) => {
                for out in &outs {
                    self.builder.spans.insert(*out, span);
                }
                Ok(outs)
            }
            Err(error) => {
                self.explain(&error, statics, &args, span);
                Err(Abort::Error)
            }
        }
    }
}
