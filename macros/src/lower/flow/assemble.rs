//! Assembles the pieces of a body once all of it is lowered and the variables that cross blocks are
//! known.

use crate::lower::Cx;
use crate::program::{Declaration, HostCode, LoweredFlow, Numbers, Piece, Store};
use crate::program::{Input, LoweredProgram, Source};
use gradloom_ir::flow::{Block, Flow, Node};
use gradloom_ir::{Program, SecondaryMap, Var};
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Block before the variables that other blocks read are known.
#[derive(Clone)]
pub(in crate::lower) struct RawBlock {
    pub(in crate::lower) program: Program,
    pub(in crate::lower) inputs: Vec<Input>,
    pub(in crate::lower) hosts: Vec<crate::program::HostStmt>,
    pub(in crate::lower) statics: BTreeMap<gradloom_ir::Attr, Ident>,
    pub(in crate::lower) static_hosts: BTreeMap<gradloom_ir::Attr, usize>,
    pub(in crate::lower) input_hosts: SecondaryMap<Var, usize>,
    pub(in crate::lower) calls: BTreeMap<gradloom_ir::Attr, crate::program::Call>,
    pub(in crate::lower) spans: SecondaryMap<Var, Span>,
    pub(in crate::lower) stores: Vec<(Var, Var, Store)>,
}

impl Cx<'_> {
    /// Assembles the pieces of a body that has been lowered completely.
    pub(in crate::lower) fn pieces(mut self) -> LoweredFlow {
        let mut state = self.host.flow;
        let mut body = state.open.pop().expect("the outermost list is open");
        // In a straight line each result is computed once, so it needs no slot.
        let straight = match (&*body, &mut *state.blocks) {
            ([Node::Block(0), Node::Return(outs)], [block]) => {
                for (target, value, _) in &mut Rc::make_mut(block).stores {
                    *target = *value;
                }
                state.results = outs.clone();
                true
            }
            _ => false,
        };
        for result in &state.results {
            if self.builder.b.name_of(*result).is_none() {
                let name = if straight { "y" } else { "result" };
                self.builder.b.name(*result, name);
            }
        }
        let names = std::mem::take(&mut self.builder.b)
            .finish(Vec::new(), Vec::new())
            .names;
        let idents = Rc::new(self.names.idents);
        declared(&mut body, &state.declarations);
        let raws: Vec<RawBlock> = state.blocks.into_iter().map(Rc::unwrap_or_clone).collect();
        let bound: Vec<BTreeSet<Var>> = raws.iter().map(RawBlock::bound).collect();
        let free = raws.iter().zip(&bound).map(|(raw, bound)| raw.free(bound));
        let free: Vec<BTreeSet<Var>> = free.collect();
        let crossing: BTreeSet<Var> = free.iter().flatten().copied().collect();
        // Host statements are emitted in the block that computes the variables they read.
        let hosts = raws.iter().flat_map(|b| &b.hosts);
        state
            .read
            .extend(hosts.flat_map(|h| h.reads.iter().copied()));
        let trees = Rc::new(self.builder.kinds.trees(!has_checkpoint(&body)));
        let (mut blocks, mut pieces) = (Vec::new(), Vec::new());
        let n_eqns = raws.iter().map(|raw| raw.program.eqns.len()).sum();
        for (mut raw, (bound, free)) in raws.into_iter().zip(bound.iter().zip(&free)) {
            let kept = bound
                .intersection(&crossing)
                .map(|v| (*v, *v, Store::Fresh));
            let stores: Vec<(Var, Var, Store)> = raw.stores.iter().copied().chain(kept).collect();
            let reads: Vec<Var> = bound.intersection(&state.read).copied().collect();
            if !reads.is_empty() {
                raw.hosts.push(crate::program::HostStmt {
                    at: raw.program.eqns.len(),
                    reads,
                    tokens: TokenStream::new(),
                });
            }
            let inputs = raw.inputs.iter().map(|i| i.var);
            let params = match straight {
                // In the order of the function's parameters, with those that it does not read.
                true => inputs.collect(),
                false => {
                    let inputs: BTreeSet<Var> = inputs.filter(|v| !free.contains(v)).collect();
                    free.iter().chain(&inputs).copied().collect()
                }
            };
            let mut program = Program {
                params,
                outs: stores.iter().map(|s| s.1).collect(),
                names: names.clone(),
                ..raw.program
            };
            for (var, keep) in &self.builder.remat_hints {
                if bound.contains(var) {
                    program.remat_hints.insert(*var, *keep);
                }
            }
            blocks.push(Block {
                program: program.clone(),
                targets: stores.iter().map(|s| s.0).collect(),
            });
            pieces.push(Piece {
                low: LoweredProgram {
                    program,
                    n_eqns,
                    inputs: raw.inputs,
                    hosts: raw.hosts,
                    statics: raw.statics,
                    static_hosts: raw.static_hosts,
                    input_hosts: raw.input_hosts,
                    calls: raw.calls,
                    trees: trees.clone(),
                    spans: raw.spans,
                    idents: idents.clone(),
                },
                stores: stores.iter().map(|s| s.2).collect(),
            });
        }
        let is_param = |i: &&Input| matches!(i.source, Source::Param(_));
        let inputs: Vec<Input> = self
            .builder
            .inputs
            .iter()
            .filter(is_param)
            .cloned()
            .collect();
        LoweredFlow {
            flow: Flow {
                params: inputs.iter().map(|i| i.var).collect(),
                blocks,
                body,
                results: state.results,
            },
            pieces,
            inputs,
            trees,
            numbers: Numbers::default(),
        }
    }
}

impl RawBlock {
    /// Returns the variables that the block binds.
    fn bound(&self) -> BTreeSet<Var> {
        let eqns = self.program.eqns.iter().flat_map(|e| &e.outs).copied();
        let inputs = self
            .inputs
            .iter()
            .filter(|i| !matches!(i.source, Source::Param(_)));
        eqns.chain(inputs.map(|i| i.var)).collect()
    }

    /// Returns the variables that the block reads and does not bind, including slots and
    /// parameters.
    fn free(&self, bound: &BTreeSet<Var>) -> BTreeSet<Var> {
        let args = self.program.eqns.iter().flat_map(|e| &e.args);
        let stored = self.stores.iter().map(|s| &s.1);
        args.chain(stored)
            .copied()
            .filter(|v| !bound.contains(v))
            .collect()
    }
}

/// Returns whether a loop is cut into segments. These keep tensors, and no trees, as their state.
pub(in crate::lower) fn has_checkpoint(nodes: &[Node<HostCode>]) -> bool {
    nodes.iter().any(|node| match node {
        Node::Scope { head, body } => {
            matches!(head, HostCode::Checkpoint(_)) || has_checkpoint(body)
        }
        _ => false,
    })
}

/// Fills in the declarations, which are known only at the end.
fn declared(nodes: &mut [Node<HostCode>], declarations: &[Declaration]) {
    for node in nodes {
        match node {
            Node::Host(HostCode::Declare(id, what)) => *what = declarations[*id].clone(),
            Node::Scope { body, .. } => declared(body, declarations),
            _ => {}
        }
    }
}
