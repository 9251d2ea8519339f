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
mod state;
mod stmt;

use host::items::Items;
use state::block_builder::BlockBuilder;
use state::diagnostics::Diagnostics;
use state::host_state::HostState;
use state::scope::Scope;
use state::value::{Expected, Host, Local, Place, Value};

use crate::input::{Func, OutShape, text};
use crate::program::Body;
use crate::report::Errors;
use gradloom_ir::{Attr, Op, Var};
use proc_macro2::{Span, TokenStream};

/// Reason why lowering stops.
#[derive(Debug)]
pub(crate) enum Abort {
    /// The user's code is wrong, and an error has been reported.
    Error,
    /// The body has to be traced at run time, for the reason given.
    Recorded(String),
    /// The values of a branch are tensors in some arms and parts of trees in others.
    ///
    /// The branch is to be lowered again with all of them read as tensors.
    Mixed,
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
    if !func.output.shape.is_known() {
        return Body::Recorded(format!("it returns `{}`", text(&func.output.ty)));
    }
    let items = Items::new(func, block);
    let mut cx = Cx::new(func, block, &items, rt);
    let lowered = cx.patterns().and_then(|()| cx.function(block));
    let stopped = match lowered {
        Ok(()) if cx.diagnostics.errors.is_empty() => return Body::Compiled(Box::new(cx.pieces())),
        Ok(()) | Err(Abort::Error) => "its body has errors".to_owned(),
        Err(Abort::Mixed) => "its branches have values of different kinds".to_owned(),
        Err(Abort::Recorded(reason)) => {
            if cx.diagnostics.errors.is_empty()
                && let Some(attr) = flow::checkpoint::find(block)
            {
                let message = format!(
                    "`#[checkpoint]` has no effect in a body that is traced at run time, as this one is: {reason}"
                );
                errors.push(&attr, message);
            }
            reason
        }
    };
    errors.append(cx.diagnostics.errors);
    Body::Recorded(stopped)
}

impl<'a> Cx<'a> {
    fn new(func: &'a Func, source: &'a syn::Block, items: &'a Items, rt: &TokenStream) -> Cx<'a> {
        let mut cx = Cx {
            func,
            items,
            names: Scope::new(),
            builder: BlockBuilder::new(),
            host: HostState::new(),
            diagnostics: Diagnostics::new(source),
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
                outs.push(var);
                Ok(())
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
        let args: Vec<Var> = data.iter().chain(&likes).copied().collect();
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
