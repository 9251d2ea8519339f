//! Lowers the body of a function to a program.
//!
//! A straight-line body is evaluated symbolically: each local is a [`Value`], and each op on a
//! tensor appends an equation. Code that does not involve tensors stays Rust: host statements keep
//! their position between the equations, and a host value that an op takes as a static argument is
//! bound once, at that position.
//!
//! Valid Rust that is not straight-line stops the lowering with [`Abort::Recorded`]: the companions
//! then run the user's function and record its ops.

mod assemble;
mod assign;
mod bind;
mod blocks;
mod branch;
mod call;
mod checkpoint;
mod closure;
mod control;
mod exit;
mod explain;
mod expr;
mod hoisted;
mod host;
mod host_dims;
mod inputs;
mod items;
mod iterate;
mod join;
mod loops;
mod macros;
mod method;
mod names;
mod op;
mod operand;
mod operator;
mod parts;
mod pattern;
mod remat_hints;
mod returns;
mod slots;
mod stmt;
mod syntax;
mod value;

use items::Items;
use value::{Expected, Host, Local, Place, Value};

use crate::input::{Func, OutShape, text};
use crate::program::{Body, Call, HostStmt, Input, LoweredProgram};
use crate::report::Errors;
use gradloom_ir::program::Keep;
use gradloom_ir::{Attr, Builder, Dim, Op, SecondaryMap, Var};
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Reason why lowering stops.
#[derive(Debug)]
pub(crate) enum Abort {
    /// An error has been reported.
    Error,
    /// The body has to be traced at run time, for the reason given.
    Recorded(String),
    /// The values of a branch are tensors in some arms and parts of trees in others.
    ///
    /// The branch is to be lowered again with all of them read as tensors.
    Mixed,
}

type LowerResult<T> = Result<T, Abort>;

#[derive(Clone)]
struct Cx<'a> {
    func: &'a Func,
    /// The body as the user wrote it, for messages.
    source: &'a syn::Block,
    items: &'a Items,
    errors: Errors,
    b: Builder,
    scopes: Vec<BTreeMap<String, Local>>,
    inputs: Vec<Input>,
    /// Variables of the places that ops read, by the text of the place.
    leaves: BTreeMap<String, Var>,
    hosts: Vec<HostStmt>,
    statics: BTreeMap<Attr, Ident>,
    static_hosts: BTreeMap<Attr, usize>,
    input_hosts: SecondaryMap<Var, usize>,
    calls: BTreeMap<Attr, Call>,
    spans: SecondaryMap<Var, Span>,
    idents: BTreeMap<String, Ident>,
    /// Values that the user marked `#[save]` or `#[recompute]`.
    remat_hints: Vec<(Var, Keep)>,
    /// Names of the host locals in the emitted code so far.
    host_names: names::HostNames,
    /// Mutable host locals.
    host_mut: BTreeSet<String>,
    /// Variables mentioned by host code, which must keep their names.
    named_by_host_code: BTreeSet<Var>,
    /// Lengths known of host numbers.
    host_dims: BTreeMap<String, Dim>,
    /// True while a static argument is lowered, where a place is a host value.
    host_places: bool,
    /// Pieces so far, if the body may have control flow.
    flow: Option<blocks::FlowState>,
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
    if let Some(p) = func.params.iter().find(|p| p.pattern) {
        return Body::Recorded(format!("parameter {} is a pattern", p.name));
    }
    if !func.output.shape.is_known() {
        return Body::Recorded(format!("it returns `{}`", text(&func.output.ty)));
    }
    let items = Items::new(func, block);
    let mut cx = Cx::new(func, block, &items, rt);
    match cx.straight(block) {
        Err(Abort::Recorded(_)) => {}
        outs => return cx.finish(outs, errors),
    }
    // The body is not straight-line, so it is lowered as blocks between branches and loops.
    let mut cx = Cx::new(func, block, &items, rt);
    cx.flow = Some(blocks::FlowState::new());
    match cx.flow(block) {
        Err(stop) => {
            if let (Abort::Recorded(reason), true, Some(attr)) =
                (&stop, cx.errors.is_empty(), checkpoint::find(block))
            {
                let message = format!(
                    "`#[checkpoint]` has no effect in a body that is traced at run time, as this one is: {reason}"
                );
                errors.push(&attr, message);
            }
            cx.finish(Err(stop), errors)
        }
        Ok(()) if !cx.errors.is_empty() => cx.finish(Err(Abort::Error), errors),
        Ok(()) => Body::Flow(Box::new(cx.pieces())),
    }
}

impl<'a> Cx<'a> {
    fn new(func: &'a Func, source: &'a syn::Block, items: &'a Items, rt: &TokenStream) -> Cx<'a> {
        let mut cx = Cx {
            func,
            source,
            items,
            errors: Errors::default(),
            b: Builder::new(),
            scopes: vec![BTreeMap::new()],
            inputs: Vec::new(),
            leaves: BTreeMap::new(),
            hosts: Vec::new(),
            statics: BTreeMap::new(),
            static_hosts: BTreeMap::new(),
            input_hosts: SecondaryMap::new(),
            calls: BTreeMap::new(),
            spans: SecondaryMap::new(),
            idents: BTreeMap::new(),
            remat_hints: Vec::new(),
            host_names: names::HostNames::default(),
            host_mut: BTreeSet::new(),
            named_by_host_code: BTreeSet::new(),
            host_dims: BTreeMap::new(),
            host_places: false,
            flow: None,
            rt: rt.clone(),
        };
        for name in &items.names {
            cx.host_names.push(name.clone());
        }
        cx.params();
        cx
    }

    /// Lowers a straight-line body to its results.
    fn straight(&mut self, block: &syn::Block) -> LowerResult<Vec<Var>> {
        let shape = &self.func.output.shape;
        let want = Expected {
            shape: shape.clone(),
            count: None,
        };
        let value = self.body(block, &want)?;
        let mut outs = Vec::new();
        self.outs(value, shape, &mut outs)?;
        self.check_returns(&outs, returns::tail(block));
        for out in &outs {
            if self.b.name_of(*out).is_none() {
                self.b.name(*out, "y");
            }
        }
        Ok(outs)
    }

    fn finish(self, outs: LowerResult<Vec<Var>>, errors: &mut Errors) -> Body {
        let body = match outs {
            Ok(_) if !self.errors.is_empty() => Body::Recorded("its body has errors".to_owned()),
            Err(Abort::Error) => Body::Recorded("its body has errors".to_owned()),
            Err(Abort::Recorded(reason)) => Body::Recorded(reason),
            Err(Abort::Mixed) => {
                Body::Recorded("its branches have values of different kinds".to_owned())
            }
            Ok(outs) => {
                let params = self.inputs.iter().map(|i| i.var).collect();
                let mut program = self.b.finish(params, outs);
                for (var, keep) in self.remat_hints {
                    program.pins.insert(var, keep);
                }
                Body::Straight(Box::new(LoweredProgram {
                    n_eqns: program.eqns.len(),
                    program,
                    inputs: self.inputs,
                    hosts: self.hosts,
                    statics: self.statics,
                    static_hosts: self.static_hosts,
                    input_hosts: self.input_hosts,
                    calls: self.calls,
                    spans: self.spans,
                    idents: Rc::new(self.idents),
                }))
            }
        };
        errors.append(self.errors);
        body
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

    fn push_host(&mut self, reads: Vec<Var>, tokens: TokenStream) {
        self.hosts.push(HostStmt {
            at: self.b.n_eqns(),
            reads,
            tokens,
        });
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
        match self.b.try_emit(op, statics, &args, n_outs) {
            Ok(outs) => {
                for out in &outs {
                    self.spans.insert(*out, span);
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
