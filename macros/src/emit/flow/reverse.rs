//! Emits reverse mode under host control flow.
//!
//! Each block that runs saves its residuals. A sweep then goes backwards over the blocks that ran.

use super::{FlowCx, steps_ident};
use crate::derivative::Costs;
use crate::emit::residuals::{Field, ResidualBuilder, ResidualParts};
use crate::emit::statements::Emitter;
use crate::program::{Input, Piece, Source};
use gradloom_ir::ad::{self, Vjp};
use gradloom_ir::flow::Block;
use gradloom_ir::{Program, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;

/// Block in reverse mode.
pub(crate) struct Step {
    pub(crate) primal: Program,
    /// Variant of the step enum for this block.
    pub(crate) variant: Ident,
    pub(crate) fields: Vec<Field>,
    pub(crate) inits: Vec<TokenStream>,
    /// Statements of the pullback, or `None` if the block has no derivative.
    pub(crate) pull: Option<TokenStream>,
    /// `field: local`, for the pullback.
    pub(crate) binds: Vec<TokenStream>,
    /// Variables whose values are residuals.
    pub(crate) residuals: Vec<Var>,
    pub(crate) costs: Costs,
}

impl FlowCx<'_> {
    /// Returns the reverse mode of block `i`.
    pub(crate) fn step(&self, i: usize) -> Step {
        let (block, piece) = self.block(i);
        let rt = self.rt;
        let wrt = block.wrt(&self.active);
        let vjp = ad::vjp(&block.program, &wrt);
        let primal = Emitter::new(self.func, &piece.low, rt, &vjp.primal);
        let pullback = Emitter::new(self.func, &piece.low, rt, &vjp.pullback);
        let mut builder = ResidualBuilder::new(&vjp, &piece.low, rt, &primal, &pullback);
        let pull = self.pull_of(&vjp, block, piece, &wrt, &primal, &mut builder);
        let ResidualParts {
            fields,
            inits,
            binds,
            elements,
        } = builder.finish();
        let pull = pull.map(|pull| ours!(#elements #pull));
        Step {
            variant: format_ident!("Block{i}", span = Span::mixed_site()),
            fields,
            inits,
            pull,
            binds,
            residuals: crate::derivative::residual_vars(&block.program, &vjp),
            costs: Costs::new(&block.program, &vjp),
            primal: vjp.primal,
        }
    }

    /// Returns the statements that pull cotangents back through a block.
    ///
    /// They take the cotangents of the values that the block stored, and add to those of the values
    /// that it read.
    fn pull_of(
        &self,
        vjp: &Vjp,
        block: &Block,
        piece: &Piece,
        wrt: &[Var],
        primal: &Emitter,
        builder: &mut ResidualBuilder,
    ) -> Option<TokenStream> {
        let rt = self.rt;
        let mut emit = Emitter::new(self.func, &piece.low, rt, &vjp.pullback);
        let n_residuals = vjp.primal.outs.len() - vjp.n_outs;
        let cts = &vjp.pullback.params[n_residuals..];
        let straight = self.flowing.straight().is_some();
        // The only result of a function has a cotangent whenever its pullback is called.
        let only = straight && vjp.n_outs == 1;
        if !only {
            emit.with_zeros(cts.iter().copied());
        }

        // The block overwrites these slots, so their earlier values have no cotangent from later
        // blocks.
        let targets = block.targets.iter().zip(&vjp.active);
        let cleared = targets.filter(|(t, active)| !**active && self.is_active(**t));
        let cleared = cleared.map(|(t, _)| {
            let grad = self.grad(*t);
            ours!(#grad = ::core::option::Option::None;)
        });
        let cleared: Vec<TokenStream> = cleared.collect();
        let active: Vec<usize> = (0..vjp.n_outs).filter(|i| vjp.active[*i]).collect();
        if active.is_empty() {
            return (!cleared.is_empty()).then(|| ours!(#(#cleared)*));
        }
        let single = active.len() == 1;
        let mut takes = Vec::new();
        for (ct, i) in cts.iter().zip(&active) {
            let (local, given) = (emit.ident(*ct), given());
            let taken = match straight {
                true => ours!(#rt::given_leaf(#given, #i)),
                false => {
                    let grad = self.grad(block.targets[*i]);
                    ours!(#grad.take())
                }
            };
            takes.push(match (only, single) {
                (true, _) => ours!(let #local = #rt::cotangent(#given, #i);),
                (_, true) => ours!(if let ::core::option::Option::Some(#local) = #taken),
                (_, false) => {
                    emit.zeroable(*ct);
                    ours!(let #local = #taken;)
                }
            });
        }
        for (var, local) in &builder.avals {
            emit.only_aval(*var, local.clone());
        }
        emit.run_pullback();
        let nonzero = wrt
            .iter()
            .zip(&vjp.nonzero)
            .filter(|(_, nonzero)| **nonzero);
        for ((x, _), ct) in nonzero.zip(&vjp.pullback.outs) {
            let local = emit.ident(*ct);
            let put = self.put(*x, &piece.low.inputs, &local, primal, builder);
            match emit.maybe.contains(*ct) && !is_tree(*x, &piece.low.inputs) {
                true => {
                    emit.push(ours!(if let ::core::option::Option::Some(#local) = &#local { #put }))
                }
                false => emit.push(put),
            }
        }
        let statements = emit.tokens;
        Some(match single && !only {
            true => ours!(#(#cleared)* #(#takes)* { #statements }),
            false => ours!(#(#cleared)* #(#takes)* #statements),
        })
    }

    /// Returns the statement that adds to the cotangent of a value that the block read.
    fn put(
        &self,
        x: Var,
        inputs: &[Input],
        ct: &Ident,
        primal: &Emitter,
        builder: &mut ResidualBuilder,
    ) -> TokenStream {
        let rt = self.rt;
        let pulled = pulled();
        let input = inputs.iter().find(|i| i.var == x);
        match input.map(|i| &i.source) {
            Some(Source::Param(i)) => ours!(#pulled.add_tensor(#i, &#ct);),
            Some(source @ Source::Leaf { param, .. }) => {
                let at = builder.at(x, source, primal);
                ours!(#pulled.add_leaf(#param, #at, &#ct);)
            }
            Some(source @ Source::Tree { param, .. }) => {
                let at = builder.at(x, source, primal);
                ours!(#pulled.add_tree(#param, #at, &#ct);)
            }
            Some(Source::Constant) | None => {
                let grad = self.grad(x);
                ours!(#rt::accumulate(&mut #grad, &#ct);)
            }
        }
    }

    /// Returns the enum of the steps, with a variant for each block that has a derivative.
    pub(crate) fn items(&self, steps: &[Step]) -> TokenStream {
        let (step, rt, attr) = (self.step, self.rt, &self.attr);
        let (vis, allow, attrs) = (
            &self.func.vis,
            crate::emit::names::allow(),
            &self.func.attrs,
        );
        let pulled = || {
            steps
                .iter()
                .zip(&self.flowing.pieces)
                .filter(|(s, _)| s.pull.is_some())
        };
        let variants = pulled().map(|(s, piece)| {
            let fields = s
                .fields
                .iter()
                .map(|(name, ty, doc)| ours!(#[doc = #doc] #name: #ty));
            let doc = format!("The block at line {}.", piece.line);
            let variant = &s.variant;
            ours!(#[doc = #doc] #variant { #(#fields),* })
        });
        let keeps = pulled().map(|(s, _)| {
            let (variant, names) = (&s.variant, s.fields.iter().map(|(name, ..)| name));
            let names: Vec<&Ident> = names.collect();
            ours!(Self::#variant { #(#names),* } => { #(#rt::Residual::keep(#names, kept);)* })
        });
        let doc = format!(
            "Block of `{}` that ran, with its residuals.",
            self.func.sig.ident
        );
        let mut keeps: Vec<TokenStream> = keeps.collect();
        let mut variants: Vec<TokenStream> = variants.collect();
        if self.has_checkpoints() {
            let (variant, keep) = self.checkpoint_variant();
            variants.push(variant);
            keeps.push(keep);
        }
        let body = match keeps.is_empty() {
            true => ours!(match *self {}),
            false => ours!(match self { #(#keeps)* }),
        };
        ours! {
            #(#attrs)*
            #allow
            #attr
            #[doc = #doc]
            #[derive(::core::clone::Clone)]
            #vis enum #step { #(#variants),* }

            #(#attrs)*
            #allow
            impl #rt::Residual for #step {
                #[inline]
                fn keep(&self, kept: &mut #rt::ResidualBytes) { #body }
            }
        }
    }

    pub(crate) fn pull(&self, steps: &[Step]) -> TokenStream {
        let (rt, step) = (self.rt, self.step);
        let (given, pulled) = (given(), pulled());
        let n_params = self.func.params.len();
        let results = &self.flowing.flow.results;
        let seeds = results
            .iter()
            .enumerate()
            .filter(|(_, v)| self.is_active(**v));
        let seeds = seeds.map(|(i, v)| {
            let grad = self.grad(*v);
            ours!(let mut #grad = #rt::given_leaf(#given, #i);)
        });
        let mut crossing: Vec<Var> = Vec::new();
        for target in self.flowing.flow.blocks.iter().flat_map(|b| &b.targets) {
            if self.is_active(*target) && !results.contains(target) && !crossing.contains(target) {
                crossing.push(*target);
            }
        }
        let sums = crossing.iter().map(|v| {
            let grad = self.grad(*v);
            ours!(let mut #grad: ::core::option::Option<#rt::Tensor> = ::core::option::Option::None;)
        });
        let arms = steps.iter().filter_map(|s| {
            let (variant, binds, pull) = (&s.variant, &s.binds, s.pull.as_ref()?);
            Some(ours!(#step::#variant { #(#binds,)* .. } => { #pull }))
        });
        let arms: Vec<TokenStream> = arms.collect();
        let list = steps_ident();
        let sums_of: Vec<Ident> = crossing.iter().map(|v| self.grad(*v)).collect();
        let sweep = match (arms.is_empty(), self.has_checkpoints()) {
            (true, _) => TokenStream::new(),
            (_, false) => {
                ours!(for step in ::core::iter::Iterator::rev(self.#list.iter()) { match step { #(#arms)* } })
            }
            // The steps of a segment are computed when the sweep reaches it.
            (_, true) => ours! {
                let mut rest = ::core::clone::Clone::clone(&self.#list);
                while let ::core::option::Option::Some(step) = rest.pop() {
                    match &step {
                        #step::Segment { again, .. } => {
                            #rt::settle([#(#sums_of.as_ref()),*], &#pulled);
                            ::core::iter::Extend::extend(&mut rest, again.run());
                        }
                        #(#arms)*
                    }
                }
            },
        };
        ours! {
            let mut #pulled = #rt::LeafCotangents::new(#n_params);
            #(#seeds)*
            #(#sums)*
            #sweep
            #pulled
        }
    }
}

/// Returns the local with the cotangents of the results.
fn given() -> Ident {
    Ident::new("cotangents", Span::mixed_site())
}

/// Returns the local that accumulates the cotangents of the arguments.
pub(crate) fn pulled() -> Ident {
    Ident::new("pulled", Span::mixed_site())
}

fn is_tree(x: Var, inputs: &[Input]) -> bool {
    let input = inputs.iter().find(|i| i.var == x);
    matches!(input.map(|i| &i.source), Some(Source::Tree { .. }))
}
