//! Builder of the open block: its equations, its inputs and the host statements between them.

use super::kinds::Kinds;
use crate::lower::Choice;
use crate::lower::flow::assemble::RawBlock;
use crate::program::Source;
use crate::program::{Call, HostStmt, Input, Store};
use gradloom_ir::Aval;
use gradloom_ir::Program;
use gradloom_ir::program::RematHint;
use gradloom_ir::{Attr, Builder, SecondaryMap, Var};
use proc_macro2::TokenStream;
use proc_macro2::{Ident, Span};
use std::collections::BTreeMap;

/// Why the operands of an operator may be trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Unclear {
    /// One is the result of a call, which no use so far makes a tensor.
    Result,
    /// They are parts of trees, or one is. Most such parts are tensors.
    Part,
}

/// Block that is being built. A straight-line body is a single block.
#[derive(Clone)]
pub(in crate::lower) struct BlockBuilder {
    pub(in crate::lower) b: Builder,
    pub(in crate::lower) inputs: Vec<Input>,
    /// Variables of the places that ops read, by the text of the place.
    pub(in crate::lower) leaves: BTreeMap<String, Var>,
    pub(in crate::lower) hosts: Vec<HostStmt>,
    pub(in crate::lower) statics: BTreeMap<Attr, Ident>,
    pub(in crate::lower) static_hosts: BTreeMap<Attr, usize>,
    pub(in crate::lower) input_hosts: SecondaryMap<Var, usize>,
    pub(in crate::lower) calls: BTreeMap<Attr, Call>,
    pub(in crate::lower) spans: SecondaryMap<Var, Span>,
    /// Stores at the end of the block.
    pub(in crate::lower) stores: Vec<(Var, Var, Store)>,
    /// Kinds of the results of calls, of all blocks.
    pub(in crate::lower) kinds: Kinds,
    /// Operators whose operands are taken for tensors because nothing tells, by their results, with
    /// how much their operands tell.
    pub(in crate::lower) unclear_operators: BTreeMap<Var, (Choice, Unclear)>,
    /// Results of calls, and of arithmetic on them, with the choice to take the call for host code.
    pub(in crate::lower) may_be_numbers: BTreeMap<Var, Choice>,
    /// Values that the user marked `#[save]` or `#[recompute]`, of all blocks.
    pub(in crate::lower) remat_hints: Vec<(Var, RematHint)>,
}

impl BlockBuilder {
    pub(in crate::lower) fn new() -> BlockBuilder {
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
            kinds: Kinds::default(),
            unclear_operators: BTreeMap::new(),
            may_be_numbers: BTreeMap::new(),
            remat_hints: Vec::new(),
        }
    }

    /// Returns whether the block has no equations and no host statements.
    pub(in crate::lower) fn is_empty(&self) -> bool {
        self.b.n_eqns() == 0 && self.hosts.is_empty()
    }

    pub(in crate::lower) fn push_host(&mut self, reads: Vec<Var>, tokens: TokenStream) {
        self.hosts.push(HostStmt {
            at: self.b.n_eqns(),
            reads,
            tokens,
        });
    }

    pub(in crate::lower) fn set_slot_avals(&mut self, avals: &[(Var, Aval)]) {
        for (slot, aval) in avals {
            self.b.set_aval(*slot, aval.clone());
        }
    }

    /// Ends the block, and starts another with the inputs that are parameters of the function.
    pub(in crate::lower) fn end_block(&mut self) -> RawBlock {
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
        };
        self.leaves.clear();
        block
    }
}
