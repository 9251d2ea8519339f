//! Emits the bodies of the companions, and the struct of residuals.
//!
//! The forward companions run the user's loops and branches, with a block of equations in place of
//! the user's statements. In reverse mode each block that runs appends a *step* to a list: the
//! block's number and its residuals. The pullback walks the steps backwards. The local `grad_h`
//! accumulates the cotangents of `h`, and `tan_h` is its tangent.
//!
//! A straight line is a single block, so its residuals are the fields of the struct, and its
//! pullback takes the cotangents of the results as they are given.

mod checkpoint;
mod jvp;
mod reverse;
mod straight;

use super::names::ItemNames;
use super::program_text::Places;
use super::residuals::{Field, of_result, positions_of_results};
use super::statements::Emitter;
use crate::derivative::{Costs, Wrt};
use crate::input::{Func, OutShape, unraw};
use crate::program::checkpoint::Checkpoint;
use crate::program::{Declaration, HostCode, LoweredFlow, Piece, Store, ident_of};
use gradloom_ir::flow::{Block, Node};
use gradloom_ir::{SecondaryMap, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;
use reverse::Step;

/// Pieces from which the companions are assembled.
pub(crate) struct DerivativeParts {
    /// Reverse mode with respect to the parameters of the public companions.
    pub(crate) reverse: ReverseParts,
    /// Reverse mode with respect to all parameters that callers may differentiate, if these are
    /// more.
    pub(crate) callers: Option<ReverseParts>,
    /// Statements and value of the forward-mode companion: `(results, tangents)`.
    pub(crate) jvp: TokenStream,
    /// True if the forward-mode companion needs the tangents of all arguments.
    pub(crate) needs_all: bool,
}

/// Pieces of reverse mode.
pub(crate) struct ReverseParts {
    /// Statements and value of `forward`: `(results, residuals)`.
    pub(crate) forward: TokenStream,
    /// Fields of the struct of residuals.
    pub(crate) fields: Vec<Field>,
    /// Body of `pull`.
    pub(crate) pull: TokenStream,
    /// Costs, or `None` if they depend on control flow.
    pub(crate) costs: Option<Costs>,
    /// Variables whose values are residuals.
    pub(crate) residuals: Vec<Var>,
}

/// Returns the pieces of the companions.
///
/// `callers` are the parameters that callers may differentiate, if these are more than the public
/// ones.
pub(crate) fn derivatives(
    func: &Func,
    flowing: &LoweredFlow,
    rt: &TokenStream,
    names: &ItemNames,
    places: &Places,
    callers: Option<&Wrt>,
) -> DerivativeParts {
    let cx = FlowCx {
        func,
        flowing,
        rt,
        places,
        saved: &names.saved,
        active: Wrt::public().active(flowing),
    };
    let of_callers = callers.map(|wrt| FlowCx {
        saved: &names.callers_saved,
        active: wrt.active(flowing),
        ..cx
    });
    DerivativeParts {
        reverse: cx.reverse(),
        callers: of_callers.map(|cx| cx.reverse()),
        jvp: cx.jvp(),
        needs_all: flowing.straight().is_some(),
    }
}

/// Returns the results of a function in the structure of its type.
fn results(shape: &OutShape, outs: &mut impl Iterator<Item = TokenStream>) -> TokenStream {
    match shape {
        OutShape::Tuple(parts) => {
            let parts = parts.iter().map(|p| results(p, outs));
            ours!((#(#parts,)*))
        }
        _ => outs.next().expect("as many results as leaves"),
    }
}

pub(crate) struct FlowCx<'a> {
    pub(crate) func: &'a Func,
    pub(crate) flowing: &'a LoweredFlow,
    pub(crate) rt: &'a TokenStream,
    places: &'a Places,
    saved: &'a Ident,
    /// Variables that have a derivative.
    pub(crate) active: SecondaryMap<Var, ()>,
}

pub(crate) fn steps_ident() -> Ident {
    Ident::new("steps", Span::mixed_site())
}

impl<'a> FlowCx<'a> {
    fn reverse(&self) -> ReverseParts {
        if self.flowing.straight().is_some() {
            return self.straight_reverse();
        }
        let pieces = 0..self.flowing.pieces.len();
        let steps: Vec<Step> = pieces.map(|i| self.step(i)).collect();
        let (rt, doc) = (
            self.rt,
            "Blocks that ran, in order, each with its residuals.",
        );
        ReverseParts {
            forward: self.forward(&steps),
            fields: {
                let steps = (
                    steps_ident(),
                    ours!(::std::vec::Vec<#rt::Step>),
                    doc.to_owned(),
                );
                let results = self.results_field(&self.result_locals());
                std::iter::once(steps)
                    .chain(results.map(|(field, _)| field))
                    .collect()
            },
            pull: self.pull(&steps),
            costs: None,
            residuals: steps.iter().flat_map(|s| s.residuals.clone()).collect(),
        }
    }

    /// Returns the local that holds a variable, the user's or an emitted one.
    pub(crate) fn ident(&self, var: Var) -> Ident {
        let Some(piece) = self.flowing.pieces.first() else {
            return Ident::new(&var.to_string(), Span::mixed_site());
        };
        let name = piece.low.program.names.get(var).cloned();
        ident_of(&name.unwrap_or_else(|| var.to_string()), &piece.low.idents)
    }

    /// Returns the local that accumulates the cotangent of a variable.
    pub(crate) fn grad(&self, var: Var) -> Ident {
        format_ident!(
            "grad_{}",
            unraw(&self.ident(var)),
            span = Span::mixed_site()
        )
    }

    /// Returns the local for the tangent of a variable that crosses blocks.
    pub(crate) fn tan(&self, var: Var) -> Ident {
        format_ident!("tan_{}", unraw(&self.ident(var)), span = Span::mixed_site())
    }

    /// Returns whether a variable is emitted as a tree; its tangent is then a list of leaves.
    pub(crate) fn is_tree(&self, var: Var) -> bool {
        self.flowing.trees.contains(&var)
    }

    /// Returns the type of the tangent or cotangent of a variable between blocks, and its zero.
    pub(crate) fn linear(&self, var: Var) -> [TokenStream; 2] {
        let rt = self.rt;
        match self.is_tree(var) {
            true => [ours!(#rt::Leaves), ours!(#rt::Leaves::new())],
            false => [
                ours!(::core::option::Option<#rt::Tensor>),
                ours!(::core::option::Option::None),
            ],
        }
    }

    /// Returns a clone of the handles in a variable.
    fn shared(&self, var: Var, local: &Ident) -> TokenStream {
        let rt = self.rt;
        match self.is_tree(var) {
            true => ours!(#rt::copy(&#local)),
            false => ours!(#rt::share_tensor(&#local)),
        }
    }

    /// Returns the results of which the function's pullback finds the cotangents by position: the
    /// locals of all, if there are several and some are trees.
    pub(crate) fn placed_results(&self) -> bool {
        let results = &self.flowing.flow.results;
        results.len() > 1 && results.iter().any(|v| self.is_tree(*v))
    }

    /// Returns the cotangent of result `i` of the function.
    pub(crate) fn given_result(&self, i: usize) -> TokenStream {
        let (rt, given) = (self.rt, reverse::given());
        let is_tree = self.is_tree(self.flowing.flow.results[i]);
        match (is_tree, self.placed_results()) {
            (true, false) => ours!(::std::vec::Vec::from(#given)),
            (true, true) => ours!(#rt::part(#given, self.results[#i])),
            (false, false) => ours!(#rt::given_leaf(#given, #i)),
            (false, true) => ours!(#rt::given_leaf_at(#given, self.results[#i])),
        }
    }

    /// Returns the field with the positions of the results, and its value for results in `locals`.
    fn results_field(&self, locals: &[Ident]) -> Option<(Field, TokenStream)> {
        let (rt, n) = (self.rt, locals.len());
        let lengths = self.flowing.flow.results.iter().zip(locals);
        let lengths = lengths.map(|(v, local)| self.n_leaves_of(*v, local));
        self.placed_results().then(|| {
            let name = positions_of_results();
            let value = ours!(#name: #rt::positions([#(#lengths),*]));
            let doc = "Positions of the results among all their leaves.".to_owned();
            ((name, ours!([#rt::LeafRange; #n]), doc), value)
        })
    }

    /// Returns the pair of the results and the struct of residuals with these fields.
    fn with_saved(&self, values: &TokenStream, fields: &[TokenStream]) -> TokenStream {
        let (rt, saved, of_result) = (self.rt, self.saved, of_result());
        // No local of the body has this name.
        let local = Ident::new("__returned", Span::mixed_site());
        ours! {
            let #local = #values;
            let saved = #saved { #(#fields,)* #of_result: #rt::avals(&#local) };
            (#local, saved)
        }
    }

    fn n_leaves_of(&self, var: Var, local: &Ident) -> TokenStream {
        let rt = self.rt;
        match self.is_tree(var) {
            true => ours!(#rt::n_leaves(&#local)),
            false => ours!(1usize),
        }
    }

    /// Returns the tangents of the results as one list of leaves.
    fn tangents_of_results(&self, locals: &[Ident], tangents: &[TokenStream]) -> TokenStream {
        let rt = self.rt;
        let results = &self.flowing.flow.results;
        if !results.iter().any(|v| self.is_tree(*v)) {
            return ours!(#rt::leaves([#(#tangents),*]));
        }
        let each = results
            .iter()
            .zip(locals)
            .zip(tangents)
            .map(|((v, y), dy)| {
                let list = match self.is_tree(*v) {
                    true => dy.clone(),
                    false => ours!(::std::vec![#dy]),
                };
                let n = self.n_leaves_of(*v, y);
                ours!((#n, #list))
            });
        ours!(#rt::join_leaves([#(#each),*]))
    }

    pub(crate) fn is_active(&self, var: Var) -> bool {
        self.active.contains(var)
    }

    pub(crate) fn block(&self, i: usize) -> (&'a Block, &'a Piece) {
        (&self.flowing.flow.blocks[i], &self.flowing.pieces[i])
    }

    fn forward(&self, steps: &[Step]) -> TokenStream {
        let list = steps_ident();
        let rt = self.rt;
        let body = self.nodes(&self.flowing.flow.body, &mut |node| {
            self.run_forward(node, steps)
        });
        ours! {
            let mut #list: ::std::vec::Vec<#rt::Step> = ::std::vec::Vec::new();
            #body
        }
    }

    fn run_forward(&self, node: NodeKind, steps: &[Step]) -> TokenStream {
        match node {
            NodeKind::Block(i) => self.forward_block(i, &steps[i]),
            NodeKind::Declare(_) => TokenStream::new(),
            NodeKind::Checkpoint(loop_, body) => {
                let code = self.nodes(body, &mut |node| self.run_forward(node, steps));
                self.checkpointed_loop(loop_, body, code)
            }
            NodeKind::Return => {
                let (values, list) = (self.values(), steps_ident());
                let results = self.results_field(&self.result_locals());
                let results = results.map(|(_, value)| value);
                let fields: Vec<TokenStream> =
                    std::iter::once(ours!(#list)).chain(results).collect();
                let pair = self.with_saved(&values, &fields);
                ours!({ #pair })
            }
        }
    }

    fn forward_block(&self, i: usize, step: &Step) -> TokenStream {
        let (block, piece) = self.block(i);
        let rt = self.rt;
        let emit = Emitter::new(self.func, &piece.low, rt, self.places, &step.primal);
        let values = step.primal.outs.iter().map(|v| emit.ident(*v));
        let values: Vec<Ident> = values.take(block.targets.len()).collect();
        let statements = emit.forward(&[]);
        let (value, list) = (&step.value, steps_ident());
        let record = step.pull.is_some().then(|| ours!(#list.push(#value);));
        let stores = self.stores(i, &values, None);
        ours!(#statements #record #stores)
    }

    /// Returns the statements that store the results of a block and their tangents.
    pub(crate) fn stores(
        &self,
        i: usize,
        values: &[Ident],
        tangents: Option<&[TokenStream]>,
    ) -> TokenStream {
        let (block, piece) = self.block(i);
        let (mut bound, mut targets, mut assigned) = (Vec::new(), Vec::new(), Vec::new());
        for (k, target) in block.targets.iter().enumerate() {
            let (value, local) = (&values[k], self.ident(*target));
            let tangent = tangents.filter(|_| self.is_active(*target)).map(|t| &t[k]);
            let tan = self.tan(*target);
            match piece.stores[k] {
                Store::Assign => {
                    targets.push(ours!(#local));
                    assigned.push(self.shared(*target, value));
                    if let Some(tangent) = tangent {
                        targets.push(ours!(#tan));
                        assigned.push(tangent.clone());
                    }
                }
                store => {
                    let mutable = (store == Store::Declare).then(|| ours!(mut));
                    if *value != local {
                        let value = self.shared(*target, value);
                        bound.push(ours!(let #mutable #local = #value;));
                    }
                    if let Some(tangent) = tangent {
                        let [ty, _] = self.linear(*target);
                        bound.push(ours!(let #mutable #tan: #ty = #tangent;));
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

    /// Returns the results in the structure of the function's type.
    pub(crate) fn values(&self) -> TokenStream {
        let mut values = self
            .flowing
            .flow
            .results
            .iter()
            .map(|v| self.shared(*v, &self.ident(*v)));
        results(&self.func.output.shape, &mut values)
    }

    fn result_locals(&self) -> Vec<Ident> {
        self.flowing
            .flow
            .results
            .iter()
            .map(|v| self.ident(*v))
            .collect()
    }

    /// Returns the host code; `run` emits the nodes that depend on the companion.
    pub(crate) fn nodes(
        &self,
        nodes: &[Node<HostCode>],
        run: &mut dyn FnMut(NodeKind) -> TokenStream,
    ) -> TokenStream {
        let rt = self.rt;
        let mut tokens = TokenStream::new();
        for node in nodes {
            tokens.extend(match node {
                Node::Block(i) => run(NodeKind::Block(*i)),
                Node::Host(HostCode::Declare(_, Declaration::Nothing)) => TokenStream::new(),
                Node::Host(HostCode::Declare(_, Declaration::Host(ident))) => {
                    ours!(let mut #ident;)
                }
                Node::Host(HostCode::Declare(_, Declaration::Tensor(var))) => {
                    let (local, more) = (self.ident(*var), run(NodeKind::Declare(*var)));
                    let ty = (!self.is_tree(*var)).then(|| ours!(: #rt::Tensor));
                    ours!(let mut #local #ty; #more)
                }
                Node::Host(HostCode::Code(code) | HostCode::Fail(code) | HostCode::Head(code)) => {
                    ours!(#code;)
                }
                Node::Host(HostCode::Checkpoint(_)) => unreachable!("a loop has a body"),
                Node::Scope { head, body } => match head {
                    HostCode::Checkpoint(loop_) => run(NodeKind::Checkpoint(loop_, body)),
                    HostCode::Head(head) | HostCode::Code(head) | HostCode::Fail(head) => {
                        let body = self.nodes(body, run);
                        ours!(#head { #body })
                    }
                    HostCode::Declare(..) => unreachable!("a declaration opens no scope"),
                },
                Node::Return(_) => {
                    let value = run(NodeKind::Return);
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

/// Node that each companion emits in its own way.
pub(crate) enum NodeKind<'n> {
    Block(usize),
    Checkpoint(&'n Checkpoint, &'n [Node<HostCode>]),
    /// Declares a slot that has no value yet.
    Declare(Var),
    Return,
}
