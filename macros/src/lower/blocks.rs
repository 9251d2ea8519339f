//! Lowers a body with host control flow to pieces: straight-line blocks, and the host code between
//! them.
//!
//! A local that is declared outside of a loop or a branch and assigned inside of it lives in a
//! *slot*, a mutable local of the emitted code, while control passes from block to block. Within a
//! block it is a variable like any other.

use super::assemble::RawBlock;
use super::slots::settle;
use super::{Abort, Cx, LowerResult};
use crate::program::{Declaration, HostCode, Store};
use crate::program::{Input, Source};
use gradloom_ir::flow::Node;
use gradloom_ir::{Aval, Builder, Program, SecondaryMap, Var};
use proc_macro2::Ident;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// State of a body with control flow during lowering.
#[derive(Clone)]
pub(super) struct FlowState {
    /// Open lists of nodes, the innermost last.
    pub(super) open: Vec<Vec<Node<HostCode>>>,
    pub(super) blocks: Vec<Rc<RawBlock>>,
    /// Slots whose next store is their declaration.
    pub(super) undeclared: BTreeSet<Var>,
    pub(super) declarations: Vec<Declaration>,
    /// Aval of every value stored in a slot, to compute the avals at loop heads.
    pub(super) stored: Vec<(Var, Aval)>,
    pub(super) results: Vec<Var>,
    /// Loops and labelled blocks around the current statement.
    pub(super) around: Vec<super::loops::EnclosingLoop>,
    /// True if the current statement is unreachable.
    pub(super) left: bool,
    /// True if parts of trees that are values of branches are read as tensors.
    pub(super) as_tensors: bool,
    /// Variables that host code reads.
    pub(super) read: BTreeSet<Var>,
    /// Name of the local that the next branch is bound to.
    pub(super) hint: Option<Ident>,
}

impl FlowState {
    pub(super) fn new() -> FlowState {
        FlowState {
            open: vec![Vec::new()],
            blocks: Vec::new(),
            undeclared: BTreeSet::new(),
            declarations: Vec::new(),
            stored: Vec::new(),
            results: Vec::new(),
            around: Vec::new(),
            left: false,
            as_tensors: false,
            read: BTreeSet::new(),
            hint: None,
        }
    }
}

impl Cx<'_> {
    /// Lowers a body with control flow.
    pub(super) fn flow(&mut self, block: &syn::Block) -> LowerResult<()> {
        let shape = self.func.output.shape.clone();
        for _ in 0..shape.len() {
            let result = self.builder.b.param(Aval::UNKNOWN);
            self.builder.b.name(result, "result");
            self.host.pieces_mut().results.push(result);
        }
        self.function_body(block)?;
        self.flush();
        match self.host.pieces_mut().left {
            true => Ok(()),
            false => Err(Abort::Recorded(
                "its body does not end in a value".to_owned(),
            )),
        }
    }

    /// Lowers code in its own scope, and ends the scope's last block.
    pub(super) fn scope<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> LowerResult<T>,
    ) -> LowerResult<(T, Vec<Node<HostCode>>)> {
        self.host.pieces_mut().open.push(Vec::new());
        self.names.scopes.push(BTreeMap::new());
        let value = inner(self);
        self.flush();
        self.names.scopes.pop();
        let nodes = self
            .host
            .pieces_mut()
            .open
            .pop()
            .expect("the list has been opened");
        Ok((value?, nodes))
    }

    /// Reserves a place for a declaration, which [`Cx::declare`] fills in.
    pub(super) fn declaration(&mut self) -> usize {
        self.flush();
        let pieces = self.host.pieces_mut();
        pieces.declarations.push(Declaration::Nothing);
        let id = pieces.declarations.len() - 1;
        self.host
            .push_node(Node::Host(HostCode::Declare(id, Declaration::Nothing)));
        id
    }

    /// Ends the open block: stores values in their slots, and starts another block.
    pub(super) fn flush(&mut self) {
        self.flush_before(&[]);
    }

    /// Ends the open block before code that may assign to some locals repeatedly, in scopes of its
    /// own.
    pub(super) fn flush_before(&mut self, assigned: &[Ident]) {
        self.keep_old_values(assigned);
        let mut pending = Vec::new();
        for local in self.names.scopes.iter_mut().flat_map(BTreeMap::values_mut) {
            if let Some(slot) = &local.slot {
                settle(slot, &mut local.value, &mut pending);
            }
        }
        for (target, value) in pending {
            let store = match self.host.pieces_mut().undeclared.remove(&target) {
                true => Store::Declare,
                false => Store::Assign,
            };
            self.store(target, value, store);
        }
        let stores = std::mem::take(&mut self.builder.stores);
        if self.builder.b.n_eqns() == 0 && self.builder.hosts.is_empty() && stores.is_empty() {
            return;
        }
        let program = std::mem::take(&mut self.builder.b).finish(Vec::new(), Vec::new());
        self.builder.b = Builder::after(&program);
        // The names are complete only after the whole body is lowered.
        let program = Program {
            names: SecondaryMap::new(),
            ..program
        };
        let is_param = |i: &Input| matches!(i.source, Source::Param(_));
        let params: Vec<Input> = self
            .builder
            .inputs
            .iter()
            .filter(|i| is_param(i))
            .cloned()
            .collect();
        let raw = RawBlock {
            program,
            inputs: std::mem::replace(&mut self.builder.inputs, params),
            hosts: std::mem::take(&mut self.builder.hosts),
            statics: std::mem::take(&mut self.builder.statics),
            static_hosts: std::mem::take(&mut self.builder.static_hosts),
            input_hosts: std::mem::take(&mut self.builder.input_hosts),
            calls: std::mem::take(&mut self.builder.calls),
            spans: std::mem::take(&mut self.builder.spans),
            stores,
            line: self.builder.line,
        };
        self.builder.leaves.clear();
        self.host.pieces_mut().blocks.push(Rc::new(raw));
        let index = self.host.pieces_mut().blocks.len() - 1;
        self.host.push_node(Node::Block(index));
    }
}
