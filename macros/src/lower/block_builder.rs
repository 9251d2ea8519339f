//! Builder of the open block: its equations, its inputs and the host statements between them.

use super::assemble::RawBlock;
use crate::program::Source;
use crate::program::{Call, HostStmt, Input, Store};
use gradloom_ir::Aval;
use gradloom_ir::Program;
use gradloom_ir::program::Keep;
use gradloom_ir::{Attr, Builder, SecondaryMap, Var};
use proc_macro2::TokenStream;
use proc_macro2::{Ident, Span};
use std::collections::BTreeMap;

/// Block that is being built. A straight-line body is a single block.
#[derive(Clone)]
pub(super) struct BlockBuilder {
    pub(super) b: Builder,
    pub(super) inputs: Vec<Input>,
    /// Variables of the places that ops read, by the text of the place.
    pub(super) leaves: BTreeMap<String, Var>,
    pub(super) hosts: Vec<HostStmt>,
    pub(super) statics: BTreeMap<Attr, Ident>,
    pub(super) static_hosts: BTreeMap<Attr, usize>,
    pub(super) input_hosts: SecondaryMap<Var, usize>,
    pub(super) calls: BTreeMap<Attr, Call>,
    pub(super) spans: SecondaryMap<Var, Span>,
    /// Stores at the end of the block.
    pub(super) stores: Vec<(Var, Var, Store)>,
    /// First source line of the block.
    pub(super) line: usize,
    /// Values that the user marked `#[save]` or `#[recompute]`, of all blocks.
    pub(super) remat_hints: Vec<(Var, Keep)>,
}

impl BlockBuilder {
    pub(super) fn new() -> BlockBuilder {
        BlockBuilder {
            b: Builder::new(),
            inputs: Vec::new(),
            leaves: BTreeMap::new(),
            hosts: Vec::new(),
            statics: BTreeMap::new(),
            static_hosts: BTreeMap::new(),
            input_hosts: SecondaryMap::new(),
            calls: BTreeMap::new(),
            spans: SecondaryMap::new(),
            stores: Vec::new(),
            line: 0,
            remat_hints: Vec::new(),
        }
    }

    /// Returns whether the block has no equations and no host statements.
    pub(super) fn is_empty(&self) -> bool {
        self.b.n_eqns() == 0 && self.hosts.is_empty()
    }

    /// Sets the line of the open block, if it is still empty.
    pub(super) fn at_line(&mut self, span: Span) {
        if self.is_empty() {
            self.line = span.start().line;
        }
    }

    pub(super) fn push_host(&mut self, reads: Vec<Var>, tokens: TokenStream) {
        self.hosts.push(HostStmt {
            at: self.b.n_eqns(),
            reads,
            tokens,
        });
    }

    pub(super) fn set_slot_avals(&mut self, avals: &[(Var, Aval)]) {
        for (slot, aval) in avals {
            self.b.set_aval(*slot, aval.clone());
        }
    }

    /// Ends the block, and starts another with the inputs that are parameters of the function.
    pub(super) fn end_block(&mut self) -> RawBlock {
        let program = std::mem::take(&mut self.b).finish(Vec::new(), Vec::new());
        self.b = Builder::after(&program);
        // The names are complete only after the whole body is lowered.
        let program = Program {
            names: SecondaryMap::new(),
            ..program
        };
        let is_param = |i: &Input| matches!(i.source, Source::Param(_));
        let params: Vec<Input> = self
            .inputs
            .iter()
            .filter(|i| is_param(i))
            .cloned()
            .collect();
        let block = RawBlock {
            program,
            inputs: std::mem::replace(&mut self.inputs, params),
            hosts: std::mem::take(&mut self.hosts),
            statics: std::mem::take(&mut self.statics),
            static_hosts: std::mem::take(&mut self.static_hosts),
            input_hosts: std::mem::take(&mut self.input_hosts),
            calls: std::mem::take(&mut self.calls),
            spans: std::mem::take(&mut self.spans),
            stores: std::mem::take(&mut self.stores),
            line: self.line,
        };
        self.leaves.clear();
        block
    }
}
