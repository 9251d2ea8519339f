//! Emits forward mode under host control flow: each block with its tangents replaces the user's
//! statements.

use super::{FlowCx, NodeKind};
use crate::emit::statements::{Emitter, tangents_ident};
use crate::program::Source;
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Var, pass};
use proc_macro2::{Ident, TokenStream};

impl FlowCx<'_> {
    pub(crate) fn jvp(&self) -> TokenStream {
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
        let rt = self.rt;
        match node {
            NodeKind::Block(i) => self.jvp_block(i),
            // Forward mode needs no residuals, so the loop runs as it is.
            NodeKind::Checkpoint(loop_, body) => {
                let head = &loop_.turns.shown;
                let body = self.nodes(body, &mut |node| self.run_jvp(node));
                ours!(#head { #body })
            }
            NodeKind::Declare(var) => {
                let tan = self.tan(var);
                let declared = ours!(let mut #tan: ::core::option::Option<#rt::Tensor> = ::core::option::Option::None;);
                if self.is_active(var) {
                    declared
                } else {
                    TokenStream::new()
                }
            }
            NodeKind::Return => {
                let values = self.values();
                let tangents = self.flowing.flow.results.iter().map(|v| {
                    let tan = self.tan(*v);
                    match self.is_active(*v) {
                        true => ours!(#tan),
                        false => ours!(::core::option::Option::None),
                    }
                });
                ours!((#values, #rt::leaves([#(#tangents),*])))
            }
        }
    }

    fn jvp_block(&self, i: usize) -> TokenStream {
        let (block, piece) = self.block(i);
        let rt = self.rt;
        let wrt = block.wrt(&self.active);
        let joint = ad::jvp(&block.program, &wrt, Calls::Joint);
        let program = pass::dce(pass::cse(joint.program));
        let n_params = block.program.params.len();
        let dx = program.params[n_params..].iter().copied();
        let tangents: Vec<(Var, Var)> = wrt.iter().copied().zip(dx).collect();
        let mut emit = Emitter::new(self.func, &piece.low, rt, self.places, &program);
        emit.with_zeros(tangents.iter().map(|(_, dx)| *dx));
        for (x, dx) in &tangents {
            let input = piece.low.inputs.iter().find(|i| i.var == *x);
            let bound_here = matches!(
                input.map(|i| &i.source),
                Some(Source::Leaf { .. } | Source::Tree { .. })
            );
            if !bound_here {
                emit.rename(*dx, self.tan(*x));
                emit.zeroable(*dx);
            }
        }
        emit.run_forward(&tangents);
        let (y, dy) = program.outs.split_at(block.targets.len());
        let values: Vec<Ident> = y.iter().map(|v| emit.ident(*v)).collect();
        let mut dy = dy.iter();
        let dy = joint.active.iter().map(|active| match active {
            false => ours!(::core::option::Option::None),
            true => {
                let dy = *dy.next().expect("one tangent for each active result");
                let local = emit.ident(dy);
                match emit.maybe.contains(dy) {
                    true => ours!(::core::clone::Clone::clone(&#local)),
                    false => ours!(::core::option::Option::Some(#rt::own(&#local))),
                }
            }
        });
        let dy: Vec<TokenStream> = dy.collect();
        let statements = emit.tokens;
        let stores = self.stores(i, &values, Some(&dy));
        ours!(#statements #stores)
    }
}
