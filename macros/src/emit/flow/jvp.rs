//! Emits forward mode under host control flow: each block with its tangents replaces the user's
//! statements.

use super::{FlowCx, NodeKind};
use crate::emit::statements::{Emitter, tangents_ident};
use crate::program::Source;
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Program, Var, pass};
use proc_macro2::{Ident, TokenStream};

/// Block in forward mode.
pub(crate) struct Joint {
    /// Program of the values and their tangents.
    pub(crate) program: Program,
    /// Variables and their tangents.
    pub(crate) tangents: Vec<(Var, Var)>,
    /// Whether each result has a tangent.
    active: Vec<bool>,
}

impl Joint {
    /// Returns the tangent of each result; `tokens` gives those that are not zero.
    pub(crate) fn of_results(
        &self,
        tangents: &[Var],
        zeros: impl Iterator<Item = TokenStream>,
        tokens: impl Fn(Var) -> TokenStream,
    ) -> Vec<TokenStream> {
        let mut tangents = tangents.iter();
        let active = self
            .active
            .iter()
            .zip(zeros)
            .map(|(active, zero)| match active {
                false => zero,
                true => tokens(*tangents.next().expect("one tangent for each active result")),
            });
        active.collect()
    }
}

impl FlowCx<'_> {
    pub(crate) fn jvp(&self) -> TokenStream {
        if self.flowing.straight().is_some() {
            return self.straight_jvp();
        }
        let rt = self.rt;
        let given = tangents_ident();
        let params = self.flowing.inputs.iter().filter(|i| i.diff);
        let params = params.map(|input| {
            let Source::Param(i) = input.source else {
                return TokenStream::new();
            };
            let tan = self.tan(input.var);
            ours!(let #tan = #rt::given_leaf(&#given[#i], 0);)
        });
        let params: Vec<TokenStream> = params.collect();
        let body = self.nodes(&self.flowing.flow.body, &mut |node| self.run_jvp(node));
        ours!(#(#params)* #body)
    }

    fn run_jvp(&self, node: NodeKind) -> TokenStream {
        match node {
            NodeKind::Block(i) => self.jvp_block(i),
            // Forward mode needs no residuals, so the loop runs as it is.
            NodeKind::Checkpoint(loop_, body) => {
                let head = &loop_.turns.shown;
                let body = self.nodes(body, &mut |node| self.run_jvp(node));
                ours!(#head { #body })
            }
            NodeKind::Declare(var) => {
                let (tan, [ty, zero]) = (self.tan(var), self.linear(var));
                let declared = ours!(let mut #tan: #ty = #zero;);
                if self.is_active(var) {
                    declared
                } else {
                    TokenStream::new()
                }
            }
            NodeKind::Return => {
                let values = self.values();
                let tangents = self.flowing.flow.results.iter().map(|v| {
                    let (tan, [_, zero]) = (self.tan(*v), self.linear(*v));
                    match self.is_active(*v) {
                        true => ours!(#tan),
                        false => zero,
                    }
                });
                let tangents: Vec<TokenStream> = tangents.collect();
                let tangents = self.tangents_of_results(&self.result_locals(), &tangents);
                ours!((#values, #tangents))
            }
        }
    }

    /// Returns forward mode of block `i`.
    pub(crate) fn joint(&self, i: usize) -> Joint {
        let (block, _) = self.block(i);
        let wrt = block.wrt(&self.active);
        let joint = ad::jvp(&block.program, &wrt, Calls::Joint);
        let program = pass::dce(pass::cse(joint.program));
        let dx = program.params[block.program.params.len()..].iter().copied();
        Joint {
            tangents: wrt.into_iter().zip(dx).collect(),
            program,
            active: joint.active,
        }
    }

    fn jvp_block(&self, i: usize) -> TokenStream {
        let (block, piece) = self.block(i);
        let rt = self.rt;
        let joint = self.joint(i);
        let mut emit = Emitter::new(self.func, &piece.low, rt, self.places, &joint.program);
        emit.with_zeros(joint.tangents.iter().map(|(_, dx)| *dx));
        let mut lists = Vec::new();
        for (x, dx) in &joint.tangents {
            let source = piece.low.input(*x).map(|input| &input.source);
            let bound_here = matches!(source, Some(Source::Leaf { .. } | Source::Tree { .. }));
            if !bound_here {
                emit.rename(*dx, self.tan(*x));
                match self.is_tree(*x) {
                    true => lists.push(*dx),
                    false => emit.zeroable(*dx),
                }
            }
        }
        emit.with_lists(lists);
        emit.run_forward(&joint.tangents);
        let (y, dy) = joint.program.outs.split_at(block.targets.len());
        let values: Vec<Ident> = y.iter().map(|v| emit.ident(*v)).collect();
        let zeros = block.targets.iter().map(|v| self.linear(*v)[1].clone());
        let dy = joint.of_results(dy, zeros, |dy| {
            let local = emit.ident(dy);
            match emit.maybe.contains(dy) || emit.lists.contains(dy) {
                true => ours!(::core::clone::Clone::clone(&#local)),
                false => ours!(::core::option::Option::Some(#rt::share_tensor(&#local))),
            }
        });
        let statements = emit.tokens;
        let stores = self.stores(i, &values, Some(&dy));
        ours!(#statements #stores)
    }
}
