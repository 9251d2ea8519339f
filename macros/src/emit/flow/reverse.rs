//! Emits reverse mode under host control flow.
//!
//! Each block that runs saves its residuals. A sweep then goes backwards over the blocks that ran.

use super::{FlowCx, steps_ident};
use crate::emit::program_text::is_long;
use crate::emit::residuals::{ResidualBuilder, step_ident};
use crate::emit::statements::Emitter;
use crate::program::{Input, Piece, Source};
use gradloom_ir::ad::{self, Vjp};
use gradloom_ir::flow::Block;
use gradloom_ir::{Program, Var};
use proc_macro2::{Ident, Span, TokenStream};

/// Block in reverse mode.
pub(crate) struct Step {
    pub(crate) primal: Program,
    /// The step with its residuals.
    pub(crate) value: TokenStream,
    /// Statements of the pullback, or `None` if the block has no derivative.
    pub(crate) pull: Option<TokenStream>,
    /// Variables whose values are residuals.
    pub(crate) residuals: Vec<Var>,
}

/// Block in reverse mode before its residuals are put in a struct or in a step.
pub(crate) struct Derived<'a> {
    pub(crate) vjp: Vjp,
    pub(crate) builder: ResidualBuilder<'a>,
    /// The pullback, or `None` if the block has no derivative.
    pub(crate) pull: Option<Pull>,
    /// Variables whose values are residuals.
    pub(crate) residuals: Vec<Var>,
}

/// Pullback of a block.
pub(crate) enum Pull {
    /// Statements that read the residuals from locals.
    Statements(TokenStream),
    /// A listing that reads the residuals from the step.
    Listing(TokenStream),
}

impl FlowCx<'_> {
    /// Returns reverse mode of block `i`, with its residuals in a step.
    pub(crate) fn step(&self, i: usize) -> Step {
        let derived = self.derive(i);
        let (value, binds) = derived.builder.step(i);
        let pull = derived.pull.map(|pull| match pull {
            Pull::Statements(pull) => ours!(#binds #pull),
            Pull::Listing(pull) => pull,
        });
        Step {
            value,
            pull,
            residuals: derived.residuals,
            primal: derived.vjp.primal,
        }
    }

    /// Returns reverse mode of block `i`.
    pub(crate) fn derive(&self, i: usize) -> Derived<'_> {
        let (block, piece) = self.block(i);
        let rt = self.rt;
        let wrt = block.wrt(&self.active);
        let vjp = ad::vjp(&block.program, &wrt);
        let primal = Emitter::new(self.func, &piece.low, rt, self.places, &vjp.primal);
        let pullback = Emitter::new(self.func, &piece.low, rt, self.places, &vjp.pullback);
        let mut builder = ResidualBuilder::new(&vjp, &piece.low, rt, &primal, &pullback);
        let pull = self.pull_of(&vjp, block, piece, &wrt, &primal, &mut builder);
        Derived {
            residuals: crate::derivative::residual_vars(&block.program, &vjp),
            builder,
            pull,
            vjp,
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
    ) -> Option<Pull> {
        let rt = self.rt;
        let mut emit = Emitter::new(self.func, &piece.low, rt, self.places, &vjp.pullback);
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
            let (grad, [_, zero]) = (self.grad(*t), self.linear(*t));
            ours!(#grad = #zero;)
        });
        let cleared: Vec<TokenStream> = cleared.collect();
        let active: Vec<usize> = (0..vjp.n_outs).filter(|i| vjp.active[*i]).collect();
        let lists = cts.iter().zip(&active);
        let lists = lists.filter(|(_, i)| self.is_tree(block.targets[**i]));
        let lists: Vec<Var> = lists.map(|(ct, _)| *ct).collect();
        let passes_trees = !lists.is_empty();
        emit.with_lists(lists);
        if active.is_empty() {
            return (!cleared.is_empty()).then(|| Pull::Statements(ours!(#(#cleared)*)));
        }
        let nonzero = wrt
            .iter()
            .zip(&vjp.nonzero)
            .filter(|(_, nonzero)| **nonzero);
        let nonzero: Vec<(Var, Var)> = nonzero
            .map(|(x, _)| *x)
            .zip(vjp.pullback.outs.iter().copied())
            .collect();
        let trees = || passes_trees || nonzero.iter().any(|(x, _)| is_tree(*x, &piece.low.inputs));
        let long = is_long(&vjp.pullback, &piece.low);
        // The residuals of a straight line are fields, not a step.
        if long && !straight && !ad::has_calls(&vjp.pullback) && !trees() {
            let grads = active.iter().map(|i| self.grad(block.targets[*i]));
            let takes: Vec<TokenStream> = grads.map(|grad| ours!(#grad.take())).collect();
            let pull =
                self.pull_listing(vjp, &emit, &piece.low.inputs, &nonzero, (primal, builder));
            let step = step_ident();
            let (listing, locals, params) = pull;
            let pulled = pulled();
            return Some(Pull::Listing(ours! {
                #(#cleared)*
                #listing.pull(&#step, &[#(#takes),*], &mut [#(&mut #locals),*], &[#(#params),*], &mut #pulled);
            }));
        }
        let single = active.len() == 1;
        let mut takes = Vec::new();
        for (ct, i) in cts.iter().zip(&active) {
            let (local, given) = (emit.ident(*ct), given());
            let is_list = emit.lists.contains(*ct);
            let taken = match straight {
                true => self.given_result(*i),
                false if is_list => {
                    let grad = self.grad(block.targets[*i]);
                    ours!(::core::mem::take(&mut #grad))
                }
                false => {
                    let grad = self.grad(block.targets[*i]);
                    ours!(#grad.take())
                }
            };
            takes.push(match (only, single) {
                _ if is_list => ours!(let #local = #taken;),
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
        for (x, ct) in &nonzero {
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
        Some(Pull::Statements(match single && !only && !passes_trees {
            true => ours!(#(#cleared)* #(#takes)* { #statements }),
            false => ours!(#(#cleared)* #(#takes)* #statements),
        }))
    }

    /// Returns the pullback of a block as a listing, the locals to which it adds its first results,
    /// and the positions in parameters to which it adds the others.
    fn pull_listing(
        &self,
        vjp: &Vjp,
        emit: &Emitter,
        inputs: &[Input],
        nonzero: &[(Var, Var)],
        (primal, builder): (&Emitter, &mut ResidualBuilder),
    ) -> (TokenStream, Vec<Ident>, Vec<TokenStream>) {
        let (mut locals, mut params) = (Vec::new(), Vec::new());
        let (mut of_locals, mut of_params) = (Vec::new(), Vec::new());
        for (x, ct) in nonzero {
            let source = inputs.iter().find(|i| i.var == *x).map(|i| &i.source);
            if let Some(Source::Constant) | None = source {
                locals.push(self.grad(*x));
                of_locals.push(*ct);
                continue;
            }
            of_params.push(*ct);
            params.push(match source {
                Some(source @ Source::Leaf { param, .. }) => {
                    let place = builder.n_places();
                    builder.at(*x, source, primal);
                    ours!((#param, ::core::option::Option::Some(#place)))
                }
                Some(Source::Param(i)) => ours!((#i, ::core::option::Option::None)),
                _ => unreachable!("a listing has no cotangents of trees"),
            });
        }
        let outs = of_locals.into_iter().chain(of_params).collect();
        let (listing, _) = emit.listing(builder.step_params(vjp), &vjp.pullback.eqns, outs);
        (listing, locals, params)
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
                match self.is_tree(x) {
                    true => ours!(#grad = #rt::sum_leaves(&#grad, &#ct);),
                    false => ours!(#rt::accumulate(&mut #grad, &#ct);),
                }
            }
        }
    }

    pub(crate) fn pull(&self, steps: &[Step]) -> TokenStream {
        let rt = self.rt;
        let pulled = pulled();
        let n_params = self.func.params.len();
        let results = &self.flowing.flow.results;
        let seeds = results
            .iter()
            .enumerate()
            .filter(|(_, v)| self.is_active(**v));
        let seeds = seeds.map(|(i, v)| {
            let (grad, ct) = (self.grad(*v), self.given_result(i));
            ours!(let mut #grad = #ct;)
        });
        let mut crossing: Vec<Var> = Vec::new();
        for target in self.flowing.flow.blocks.iter().flat_map(|b| &b.targets) {
            if self.is_active(*target) && !results.contains(target) && !crossing.contains(target) {
                crossing.push(*target);
            }
        }
        let sums = crossing.iter().map(|v| {
            let (grad, [ty, zero]) = (self.grad(*v), self.linear(*v));
            ours!(let mut #grad: #ty = #zero;)
        });
        let arms = steps.iter().enumerate().filter_map(|(i, s)| {
            let pull = s.pull.as_ref()?;
            Some(ours!(#i => { #pull }))
        });
        let arms: Vec<TokenStream> = arms.collect();
        let (list, step) = (steps_ident(), step_ident());
        let tensors = crossing.iter().filter(|v| !self.is_tree(**v));
        let sums_of: Vec<Ident> = tensors.map(|v| self.grad(*v)).collect();
        let sweep = match (arms.is_empty(), self.has_checkpoints()) {
            (true, _) => TokenStream::new(),
            (_, false) => {
                ours!(for #step in ::core::iter::Iterator::rev(self.#list.iter()) {
                    match #step.block() { #(#arms)* _ => {} }
                })
            }
            // The steps of a segment are computed when the sweep reaches it.
            (_, true) => ours! {
                let mut rest = ::core::clone::Clone::clone(&self.#list);
                while let ::core::option::Option::Some(#step) = rest.pop() {
                    match #step.block() {
                        #(#arms)*
                        _ => {
                            #rt::settle([#(#sums_of.as_ref()),*], &#pulled);
                            ::core::iter::Extend::extend(&mut rest, #step.run_again());
                        }
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
pub(super) fn given() -> Ident {
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
