//! The bodies of the companions of a function with host control flow.
//!
//! The forward companions run the user's loops and branches, with a block of equations where the user's statements
//! were. For reverse mode each block that runs adds a *step* to a list: which block it was, and its residuals. The
//! pullback goes through the steps backwards. `grad_h` is the sum of the cotangents of `h` so far, `tan_h` its tangent.

use super::emit::{Emit, tangents_ident};
use super::kept::{Field, Kept, Made};
use super::staged::{Staged, results};
use crate::lower::checkpoint::Checkpoint;
use crate::lower::{Declaration, Flowing, HostCode, Input, Piece, Source, Store, ident_of};
use crate::parse::{Func, unraw};
use gradloom_ir::ad::{self, Calls, Vjp};
use gradloom_ir::flow::{self, Block, Node};
use gradloom_ir::{Program, SecondaryMap, Var, pass};
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;

/// The pieces of the companions of a function with control flow.
pub(super) fn flowing(
    func: &Func,
    flowing: &Flowing,
    private: &TokenStream,
    saved: &Ident,
    step: &Ident,
) -> Staged {
    let cx = Cx::new(func, flowing, private, saved, step);
    let steps: Vec<Step> = (0..flowing.pieces.len()).map(|i| cx.step(i)).collect();
    let forward = cx.forward(&steps);
    let doc = "The blocks that ran, in order, each with what its derivative needs.".to_owned();
    Staged {
        forward,
        fields: vec![(steps_ident(), ours!(::std::vec::Vec<#step>), doc)],
        pull: cx.pull(&steps),
        jvp: cx.jvp(),
        needs_all: false,
        items: cx.items(&steps),
        costs: None,
        kept: steps.iter().flat_map(|s| s.kept.clone()).collect(),
    }
}

pub(super) struct Cx<'a> {
    pub(super) func: &'a Func,
    pub(super) flowing: &'a Flowing,
    pub(super) p: &'a TokenStream,
    saved: &'a Ident,
    pub(super) step: &'a Ident,
    /// The variables that have a derivative.
    active: SecondaryMap<Var, ()>,
}

/// A block in reverse mode.
struct Step {
    primal: Program,
    /// Where the results of the block stand among those of `primal`: all of them, first.
    variant: Ident,
    fields: Vec<Field>,
    inits: Vec<TokenStream>,
    /// What the pullback does, if it does anything.
    pull: Option<TokenStream>,
    /// `field: local`.
    pattern: TokenStream,
    /// The variables whose values are residuals.
    kept: Vec<Var>,
}

pub(super) fn steps_ident() -> Ident {
    Ident::new("steps", Span::mixed_site())
}

impl<'a> Cx<'a> {
    fn new(
        func: &'a Func,
        flowing: &'a Flowing,
        p: &'a TokenStream,
        saved: &'a Ident,
        step: &'a Ident,
    ) -> Cx<'a> {
        let inputs = flowing.pieces.iter().flat_map(|piece| &piece.low.inputs);
        let wrt = inputs.chain(&flowing.inputs).filter(|i| i.diff);
        let wrt: Vec<Var> = wrt.map(|i| i.var).collect();
        Cx {
            func,
            flowing,
            p,
            saved,
            step,
            active: flow::active(&flowing.flow.blocks, &wrt),
        }
    }

    /// The local of the user's, or ours, that holds a variable.
    pub(super) fn ident(&self, var: Var) -> Ident {
        let Some(piece) = self.flowing.pieces.first() else {
            return Ident::new(&var.to_string(), Span::mixed_site());
        };
        let name = piece.low.program.names.get(var).cloned();
        ident_of(&name.unwrap_or_else(|| var.to_string()), &piece.low.idents)
    }

    /// The local for the cotangent of a variable, as far as it has been added up.
    fn grad(&self, var: Var) -> Ident {
        format_ident!(
            "grad_{}",
            unraw(&self.ident(var)),
            span = Span::mixed_site()
        )
    }

    /// The local for the tangent of a variable that crosses blocks.
    fn tan(&self, var: Var) -> Ident {
        format_ident!("tan_{}", unraw(&self.ident(var)), span = Span::mixed_site())
    }

    fn is_active(&self, var: Var) -> bool {
        self.active.contains(var)
    }

    pub(super) fn block(&self, i: usize) -> (&'a Block, &'a Piece) {
        (&self.flowing.flow.blocks[i], &self.flowing.pieces[i])
    }

    /// What reverse mode makes of a block.
    fn step(&self, i: usize) -> Step {
        let (block, piece) = self.block(i);
        let p = self.p;
        let wrt = block.wrt(&self.active);
        let vjp = ad::vjp(&block.program, &wrt);
        let mut primal = Emit::new(self.func, &piece.low, p, &vjp.primal);
        primal.with_zeros([]);
        let pullback = Emit::new(self.func, &piece.low, p, &vjp.pullback);
        let mut kept = Kept::new(&vjp, &piece.low, p, &primal, &pullback);
        let pull = self.pull_of(&vjp, block, piece, &wrt, &primal, &mut kept);
        let Made {
            fields,
            inits,
            binds,
            elements,
        } = kept.finish();
        let pattern = ours!({ #(#binds,)* .. });
        let pull = pull.map(|pull| ours!(#elements #pull));
        Step {
            variant: format_ident!("Block{i}", span = Span::mixed_site()),
            fields,
            inits,
            pull,
            pattern,
            kept: super::cost::kept(&block.program, &vjp),
            primal: vjp.primal,
        }
    }

    /// The statements that take the cotangents of what a block stored, and add to those of what it read.
    fn pull_of(
        &self,
        vjp: &Vjp,
        block: &Block,
        piece: &Piece,
        wrt: &[Var],
        primal: &Emit,
        kept: &mut Kept,
    ) -> Option<TokenStream> {
        let p = self.p;
        let mut emit = Emit::new(self.func, &piece.low, p, &vjp.pullback);
        let n_residuals = vjp.primal.outs.len() - vjp.n_outs;
        let cts = &vjp.pullback.params[n_residuals..];
        emit.with_zeros(cts.iter().copied());

        // What is overwritten has no cotangent before.
        let targets = block.targets.iter().zip(&vjp.active);
        let cleared = targets.filter(|(t, active)| !**active && self.is_active(**t));
        let cleared = cleared.map(|(t, _)| {
            let grad = self.grad(*t);
            ours!(#grad = ::core::option::Option::None;)
        });
        let cleared: Vec<TokenStream> = cleared.collect();
        let active: Vec<Var> = block
            .targets
            .iter()
            .zip(&vjp.active)
            .filter(|(_, active)| **active)
            .map(|(t, _)| *t)
            .collect();
        if active.is_empty() {
            return (!cleared.is_empty()).then(|| ours!(#(#cleared)*));
        }
        let single = active.len() == 1;
        let mut takes = Vec::new();
        for (ct, target) in cts.iter().zip(&active) {
            let (local, grad) = (emit.ident(*ct), self.grad(*target));
            match single {
                true => {
                    takes.push(ours!(if let ::core::option::Option::Some(#local) = #grad.take()))
                }
                false => {
                    emit.zeroable(*ct);
                    takes.push(ours!(let #local = #grad.take();));
                }
            }
        }
        for (var, local) in &kept.avals {
            emit.only_aval(*var, local.clone());
        }
        emit.run_pullback();
        let nonzero = wrt
            .iter()
            .zip(&vjp.nonzero)
            .filter(|(_, nonzero)| **nonzero);
        for ((x, _), ct) in nonzero.zip(&vjp.pullback.outs) {
            let local = emit.ident(*ct);
            let put = self.put(*x, &piece.low.inputs, &local, primal, kept);
            match emit.maybe.contains(*ct) && !is_tree(*x, &piece.low.inputs) {
                true => {
                    emit.push(ours!(if let ::core::option::Option::Some(#local) = &#local { #put }))
                }
                false => emit.push(put),
            }
        }
        let statements = emit.tokens;
        Some(match single {
            true => ours!(#(#cleared)* #(#takes)* { #statements }),
            false => ours!(#(#cleared)* #(#takes)* #statements),
        })
    }

    /// The statement that adds to the cotangent of what a block read.
    fn put(
        &self,
        x: Var,
        inputs: &[Input],
        ct: &Ident,
        primal: &Emit,
        kept: &mut Kept,
    ) -> TokenStream {
        let p = self.p;
        let pulled = Ident::new("pulled", Span::mixed_site());
        let input = inputs.iter().find(|i| i.var == x);
        match input.map(|i| &i.source) {
            Some(Source::Param(i)) => ours!(#pulled.add_tensor(#i, &#ct);),
            Some(source @ Source::Leaf { param, .. }) => {
                let at = kept.at(x, source, primal);
                ours!(#pulled.add_leaf(#param, #at, &#ct);)
            }
            Some(source @ Source::Tree { param, .. }) => {
                let at = kept.at(x, source, primal);
                ours!(#pulled.add_tree(#param, #at, &#ct);)
            }
            Some(Source::Constant) | None => {
                let grad = self.grad(x);
                ours!(#p::accumulate(&mut #grad, &#ct);)
            }
        }
    }

    /// The struct of a step's residuals: an enum, with a variant for each block that has a derivative.
    fn items(&self, steps: &[Step]) -> TokenStream {
        let (step, p) = (self.step, self.p);
        let (vis, allow, attrs) = (&self.func.vis, super::names::allow(), &self.func.attrs);
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
            ours!(Self::#variant { #(#names),* } => { #(#p::Residual::keep(#names, kept);)* })
        });
        let doc = format!(
            "A block of `{}` that ran, with what its derivative keeps.",
            self.func.sig.ident
        );
        let mut keeps: Vec<TokenStream> = keeps.collect();
        let mut variants: Vec<TokenStream> = variants.collect();
        if self.has_checkpoints() {
            let (variant, keep) = self.segment_variant();
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
            #[doc = #doc]
            #[derive(::core::clone::Clone)]
            #vis enum #step { #(#variants),* }

            #(#attrs)*
            #allow
            impl #p::Residual for #step {
                fn keep(&self, kept: &mut #p::Kept) { #body }
            }
        }
    }

    fn forward(&self, steps: &[Step]) -> TokenStream {
        let list = steps_ident();
        let step = self.step;
        let body = self.nodes(&self.flowing.flow.body, &mut |node| {
            self.run_forward(node, steps)
        });
        ours! {
            let mut #list: ::std::vec::Vec<#step> = ::std::vec::Vec::new();
            #body
        }
    }

    fn run_forward(&self, node: Run, steps: &[Step]) -> TokenStream {
        match node {
            Run::Block(i) => self.forward_block(i, &steps[i]),
            Run::Declare(_) => TokenStream::new(),
            Run::Checkpoint(loop_, body) => {
                let code = self.nodes(body, &mut |node| self.run_forward(node, steps));
                self.segments(loop_, body, code)
            }
            Run::Return => {
                let (values, saved, list) = (self.values(), self.saved, steps_ident());
                ours!((#values, #saved { #list }))
            }
        }
    }

    fn forward_block(&self, i: usize, step: &Step) -> TokenStream {
        let (block, piece) = self.block(i);
        let p = self.p;
        let emit = Emit::new(self.func, &piece.low, p, &step.primal);
        let values = step.primal.outs.iter().map(|v| emit.ident(*v));
        let values: Vec<Ident> = values.take(block.targets.len()).collect();
        let statements = emit.forward(&[]);
        let (name, variant, inits, list) = (self.step, &step.variant, &step.inits, steps_ident());
        let record = step
            .pull
            .is_some()
            .then(|| ours!(#list.push(#name::#variant { #(#inits),* });));
        let stores = self.stores(i, &values, None);
        ours!(#statements #record #stores)
    }

    /// The statements that store the results of a block, and their tangents.
    fn stores(&self, i: usize, values: &[Ident], tangents: Option<&[TokenStream]>) -> TokenStream {
        let (block, piece) = self.block(i);
        let p = self.p;
        let (mut bound, mut targets, mut assigned) = (Vec::new(), Vec::new(), Vec::new());
        for (k, target) in block.targets.iter().enumerate() {
            let (value, local) = (&values[k], self.ident(*target));
            let tangent = tangents.filter(|_| self.is_active(*target)).map(|t| &t[k]);
            let tan = self.tan(*target);
            match piece.stores[k] {
                Store::Assign => {
                    targets.push(ours!(#local));
                    assigned.push(ours!(#p::own(&#value)));
                    if let Some(tangent) = tangent {
                        targets.push(ours!(#tan));
                        assigned.push(tangent.clone());
                    }
                }
                store => {
                    let mutable = (store == Store::Declare).then(|| ours!(mut));
                    if *value != local {
                        bound.push(ours!(let #mutable #local = #p::own(&#value);));
                    }
                    if let Some(tangent) = tangent {
                        bound.push(ours!(let #mutable #tan: ::core::option::Option<#p::Tensor> = #tangent;));
                    }
                }
            }
        }
        let assigned = match &*targets {
            [] => TokenStream::new(),
            [one] => ours!(#one = #(#assigned)*;),
            targets => ours!((#(#targets),*) = (#(#assigned),*);),
        };
        ours!(#(#bound)* #assigned)
    }

    /// The results in the structure of the function's type.
    fn values(&self) -> TokenStream {
        let p = self.p;
        let mut values = self.flowing.flow.results.iter().map(|v| {
            let result = self.ident(*v);
            ours!(#p::own(&#result))
        });
        results(&self.func.output.shape, &mut values)
    }

    fn pull(&self, steps: &[Step]) -> TokenStream {
        let (p, step) = (self.p, self.step);
        let given = Ident::new("cotangents", Span::mixed_site());
        let pulled = Ident::new("pulled", Span::mixed_site());
        let n_params = self.func.params.len();
        let results = &self.flowing.flow.results;
        let seeds = results
            .iter()
            .enumerate()
            .filter(|(_, v)| self.is_active(**v));
        let seeds = seeds.map(|(i, v)| {
            let grad = self.grad(*v);
            ours!(let mut #grad = #p::given_leaf(#given, #i);)
        });
        let mut crossing: Vec<Var> = Vec::new();
        for target in self.flowing.flow.blocks.iter().flat_map(|b| &b.targets) {
            if self.is_active(*target) && !results.contains(target) && !crossing.contains(target) {
                crossing.push(*target);
            }
        }
        let sums = crossing.iter().map(|v| {
            let grad = self.grad(*v);
            ours!(let mut #grad: ::core::option::Option<#p::Tensor> = ::core::option::Option::None;)
        });
        let arms = steps.iter().filter_map(|s| {
            let (variant, pattern, pull) = (&s.variant, &s.pattern, s.pull.as_ref()?);
            Some(ours!(#step::#variant #pattern => { #pull }))
        });
        let arms: Vec<TokenStream> = arms.collect();
        let list = steps_ident();
        let sums_of: Vec<Ident> = crossing.iter().map(|v| self.grad(*v)).collect();
        let sweep = match (arms.is_empty(), self.has_checkpoints()) {
            (true, _) => TokenStream::new(),
            (_, false) => {
                ours!(for step in ::core::iter::Iterator::rev(self.#list.iter()) { match step { #(#arms)* } })
            }
            // The steps of a segment are made when the sweep comes to it.
            (_, true) => ours! {
                let mut rest = ::core::clone::Clone::clone(&self.#list);
                while let ::core::option::Option::Some(step) = rest.pop() {
                    match &step {
                        #step::Segment { again, .. } => {
                            #p::settle([#(#sums_of.as_ref()),*], &#pulled);
                            ::core::iter::Extend::extend(&mut rest, again.run());
                        }
                        #(#arms)*
                    }
                }
            },
        };
        ours! {
            let mut #pulled = #p::Pulled::new(#n_params);
            #(#seeds)*
            #(#sums)*
            #sweep
            #pulled
        }
    }

    fn jvp(&self) -> TokenStream {
        let p = self.p;
        let given = tangents_ident();
        let params = self.flowing.inputs.iter().filter(|i| i.diff);
        let params = params.map(|input| {
            let Source::Param(i) = input.source else {
                return TokenStream::new();
            };
            let tan = self.tan(input.var);
            ours!(let #tan = #p::given_leaf(&#given[#i], 0);)
        });
        let params: Vec<TokenStream> = params.collect();
        let body = self.nodes(&self.flowing.flow.body, &mut |node| self.run_jvp(node));
        ours!(#(#params)* #body)
    }

    fn run_jvp(&self, node: Run) -> TokenStream {
        let p = self.p;
        match node {
            Run::Block(i) => self.jvp_block(i),
            // Forward mode keeps nothing.
            Run::Checkpoint(loop_, body) => {
                let head = &loop_.shown;
                let body = self.nodes(body, &mut |node| self.run_jvp(node));
                ours!(#head { #body })
            }
            Run::Declare(var) => {
                let tan = self.tan(var);
                let declared = ours!(let mut #tan: ::core::option::Option<#p::Tensor> = ::core::option::Option::None;);
                if self.is_active(var) {
                    declared
                } else {
                    TokenStream::new()
                }
            }
            Run::Return => {
                let values = self.values();
                let tangents = self.flowing.flow.results.iter().map(|v| {
                    let tan = self.tan(*v);
                    match self.is_active(*v) {
                        true => ours!(#tan),
                        false => ours!(::core::option::Option::None),
                    }
                });
                ours!((#values, #p::leaves([#(#tangents),*])))
            }
        }
    }

    fn jvp_block(&self, i: usize) -> TokenStream {
        let (block, piece) = self.block(i);
        let p = self.p;
        let wrt = block.wrt(&self.active);
        let joint = ad::jvp(&block.program, &wrt, Calls::Joint);
        let program = pass::dce(pass::cse(joint.program));
        let n_params = block.program.params.len();
        let dx = program.params[n_params..].iter().copied();
        let tangents: Vec<(Var, Var)> = wrt.iter().copied().zip(dx).collect();
        let mut emit = Emit::new(self.func, &piece.low, p, &program);
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
                    false => ours!(::core::option::Option::Some(#p::own(&#local))),
                }
            }
        });
        let dy: Vec<TokenStream> = dy.collect();
        let statements = emit.tokens;
        let stores = self.stores(i, &values, Some(&dy));
        ours!(#statements #stores)
    }

    /// The host code, with what `run` makes of the rest.
    fn nodes(
        &self,
        nodes: &[Node<HostCode>],
        run: &mut dyn FnMut(Run) -> TokenStream,
    ) -> TokenStream {
        let p = self.p;
        let mut tokens = TokenStream::new();
        for node in nodes {
            tokens.extend(match node {
                Node::Block(i) => run(Run::Block(*i)),
                Node::Host(HostCode::Declare(_, Declaration::Nothing)) => TokenStream::new(),
                Node::Host(HostCode::Declare(_, Declaration::Host(ident))) => {
                    ours!(let mut #ident;)
                }
                Node::Host(HostCode::Declare(_, Declaration::Tensor(var))) => {
                    let (local, more) = (self.ident(*var), run(Run::Declare(*var)));
                    ours!(let mut #local: #p::Tensor; #more)
                }
                Node::Host(HostCode::Code(code) | HostCode::Fail(code) | HostCode::Head(code)) => {
                    ours!(#code;)
                }
                Node::Host(HostCode::Checkpoint(_)) => unreachable!("a loop has a body"),
                Node::Scope { head, body } => match head {
                    HostCode::Checkpoint(loop_) => run(Run::Checkpoint(loop_, body)),
                    HostCode::Head(head) | HostCode::Code(head) | HostCode::Fail(head) => {
                        let body = self.nodes(body, run);
                        ours!(#head { #body })
                    }
                    HostCode::Declare(..) => unreachable!("a declaration opens no scope"),
                },
                Node::Return(_) => {
                    let value = run(Run::Return);
                    match &self.func.output.result {
                        None => ours!(return #value;),
                        Some(_) => ours!(return ::core::result::Result::Ok(#value);),
                    }
                }
            });
        }
        tokens
    }
}

/// What a companion does in its own way.
enum Run<'n> {
    Block(usize),
    Checkpoint(&'n Checkpoint, &'n [Node<HostCode>]),
    /// A slot without a value yet.
    Declare(Var),
    Return,
}

fn is_tree(x: Var, inputs: &[Input]) -> bool {
    let input = inputs.iter().find(|i| i.var == x);
    matches!(input.map(|i| &i.source), Some(Source::Tree { .. }))
}
