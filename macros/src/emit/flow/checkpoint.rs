//! Emits checkpointed loops: segments of a few iterations, each of which can run again from its
//! initial state.

use super::{FlowCx, steps_ident};
use crate::emit::cx::copy_host;
use crate::input::{Kind, Param, unraw};
use crate::program::checkpoint::{Checkpoint, start};
use crate::program::{Declaration, HostCode, Store};
use gradloom_ir::Var;
use gradloom_ir::flow::Node;
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use std::collections::BTreeSet;

impl FlowCx<'_> {
    pub(crate) fn has_checkpoints(&self) -> bool {
        fn any(nodes: &[Node<HostCode>]) -> bool {
            nodes.iter().any(|node| match node {
                Node::Scope { head, body } => matches!(head, HostCode::Checkpoint(_)) || any(body),
                _ => false,
            })
        }
        any(&self.flowing.flow.body)
    }

    /// Returns the loop cut into segments; `code` is its body as emitted elsewhere.
    pub(crate) fn checkpointed_loop(
        &self,
        loop_: &Checkpoint,
        body: &[Node<HostCode>],
        code: TokenStream,
    ) -> TokenStream {
        let (rt, list) = (self.rt, steps_ident());
        let (head, every, start) = (&loop_.turns.head, &loop_.every, start());
        let condition = &loop_.turns.condition;
        let code = match condition {
            Some(condition) => ours!(if #condition { #code } else { break; }),
            None => code,
        };
        let mut inside = LoopVars::default();
        inside.host_code(head.clone());
        inside.host_code(ours!(#condition));
        self.inside(body, &mut inside);
        let mut mentioned = BTreeSet::new();
        idents(ours!(#head #code), &mut mentioned);

        let TensorLocals { read, changing } = self.tensors(&inside);
        let TreeLocals {
            copies,
            originals,
            references,
        } = self.trees(&mentioned);
        let HostLocals {
            copied,
            borrowed,
            owned,
        } = self.hosts(loop_);
        let hosts_changing = &loop_.changing;
        let owned_again = owned.iter().map(|host| copy_host(rt, host));
        let changing_again = hosts_changing.iter().map(|host| copy_host(rt, host));
        let (head, code) = (without_self(head.clone()), without_self(code));
        ours! {
            let mut #start = 0usize;
            let every: usize = ::core::cmp::max(#every, 1);
            loop {
                let state = #rt::share_tensors(&[#(&#read),*]);
                let segment = {
                    #(let #read = #rt::share_tensor(&#read);)*
                    #(let #copies = #rt::copy(#originals);)*
                    #(#copied)*
                    ::std::sync::Arc::new(move || {
                        #(let #references = &#copies;)*
                        #(#borrowed)*
                        #(let #owned = #owned_again;)*
                        #(let mut #changing = #rt::share_tensor(&#changing);)*
                        #(let mut #hosts_changing = #changing_again;)*
                        let mut #list: ::std::vec::Vec<#rt::Step> = ::std::vec::Vec::new();
                        let (mut turns, mut more) = (0usize, false);
                        #head {
                            if turns == every {
                                more = true;
                                break;
                            }
                            turns += 1;
                            #code
                        }
                        (#list, more, (#(#changing,)*), (#(#hosts_changing,)*))
                    })
                };
                let (_, more, tensors, hosts) = segment();
                #list.push(#rt::Step::segment(state, move || segment().0));
                (#(#changing,)*) = tensors;
                (#(#hosts_changing,)*) = hosts;
                #rt::settle([#(::core::option::Option::Some(&#changing)),*], &#rt::LeafCotangents::new(0));
                if !more {
                    break;
                }
                #start += every;
            }
        }
    }

    /// Returns the tensors from before the loop that the iterations read or assign to.
    fn tensors(&self, inside: &LoopVars) -> TensorLocals {
        let crossing = self.flowing.flow.blocks.iter().flat_map(|b| &b.targets);
        let params = self.flowing.inputs.iter().map(|i| &i.var);
        let is_read = |v: &Var| {
            inside.read.contains(v)
                || inside.assigned.contains(v)
                || inside.host_code.contains(&self.ident(*v).to_string())
        };
        let read: BTreeSet<Var> = crossing
            .chain(params)
            .copied()
            .filter(|v| is_read(v) && !inside.bound.contains(v))
            .collect();
        let changing = inside.assigned.iter().filter(|v| read.contains(v));
        TensorLocals {
            changing: changing.map(|v| self.ident(*v)).collect(),
            read: read.iter().map(|v| self.ident(*v)).collect(),
        }
    }

    /// Returns the tree parameters that the segment reads, which a run accesses through references
    /// to copies.
    fn trees(&self, mentioned: &BTreeSet<String>) -> TreeLocals {
        let params = self.func.params.iter();
        let is_read = |p: &&Param| p.kind == Kind::Tree && mentioned.contains(&p.ident.to_string());
        let mut trees = TreeLocals::default();
        for param in params.filter(is_read) {
            let ident = &param.ident;
            let copy = format_ident!("{}_copy", unraw(ident), span = Span::mixed_site());
            trees.copies.push(copy);
            trees.originals.push(match param.by_ref {
                true => ours!(#ident),
                false => ours!(&#ident),
            });
            trees.references.push(match param.receiver {
                true => this(),
                false => ident.clone(),
            });
        }
        trees
    }

    /// Returns the host locals of the segment.
    ///
    /// Arguments that the user takes by reference are copied into owned values. Each run gets fresh
    /// copies, because an iteration may consume its values.
    fn hosts<'l>(&self, loop_: &'l Checkpoint) -> HostLocals<'l> {
        let is_param = |ident: &Ident| {
            let mut params = self.func.params.iter();
            params.find(|p| p.by_ref && p.ident == *ident)
        };
        let mut hosts = HostLocals::default();
        for host in &loop_.hosts {
            match is_param(host) {
                Some(param) => {
                    let ty = &param.ty;
                    hosts
                        .copied
                        .push(ours!(let #host = ::std::borrow::ToOwned::to_owned(#host);));
                    hosts
                        .borrowed
                        .push(ours!(let #host: #ty = ::core::borrow::Borrow::borrow(&#host);));
                }
                None => {
                    let copy = copy_host(self.rt, host);
                    hosts.copied.push(ours!(let #host = #copy;));
                    if !loop_.changing.contains(host) {
                        hosts.owned.push(host);
                    }
                }
            }
        }
        hosts
    }

    fn inside(&self, nodes: &[Node<HostCode>], inside: &mut LoopVars) {
        for node in nodes {
            match node {
                Node::Block(i) => {
                    let (block, piece) = self.block(*i);
                    inside.read.extend(block.program.params.iter());
                    let hosts = piece.low.hosts.iter();
                    inside.read.extend(hosts.flat_map(|h| &h.reads));
                    for (target, store) in block.targets.iter().zip(&piece.stores) {
                        match store {
                            Store::Assign => inside.assigned.insert(*target),
                            _ => inside.bound.insert(*target),
                        };
                    }
                }
                Node::Host(HostCode::Declare(_, Declaration::Tensor(var))) => {
                    inside.bound.insert(*var);
                }
                Node::Host(code) => inside.host_code(code.to_token_stream()),
                Node::Scope { head, body } => {
                    inside.host_code(head.to_token_stream());
                    self.inside(body, inside);
                }
                _ => {}
            }
        }
    }
}

/// Tensors of a segment.
struct TensorLocals {
    /// Tensors that it reads.
    read: Vec<Ident>,
    /// Slots among them that it assigns to.
    changing: Vec<Ident>,
}

/// Tree parameters that a segment reads, with one entry in each list per parameter.
#[derive(Default)]
struct TreeLocals {
    /// Locals that own copies.
    copies: Vec<Ident>,
    /// References to the parameters.
    originals: Vec<TokenStream>,
    /// Locals that refer to the copies.
    references: Vec<Ident>,
}

/// Host locals of a segment.
#[derive(Default)]
struct HostLocals<'a> {
    /// Statements that copy the locals for the closure.
    copied: Vec<TokenStream>,
    /// Statements of the closure that borrow from the copies.
    borrowed: Vec<TokenStream>,
    /// Copies that each run of the closure copies again.
    owned: Vec<&'a Ident>,
}

/// Variables of a loop.
#[derive(Default)]
struct LoopVars {
    /// Variables that it binds.
    bound: BTreeSet<Var>,
    /// Slots that it assigns to.
    assigned: BTreeSet<Var>,
    /// Variables that its blocks read.
    read: BTreeSet<Var>,
    /// Identifiers in the host code between its blocks.
    host_code: BTreeSet<String>,
}

impl LoopVars {
    fn host_code(&mut self, tokens: TokenStream) {
        idents(tokens, &mut self.host_code);
    }
}

/// Returns the local for a copy of `self`.
fn this() -> Ident {
    Ident::new("this", Span::mixed_site())
}

fn idents(tokens: TokenStream, out: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                out.insert(ident.to_string());
            }
            TokenTree::Group(group) => idents(group.stream(), out),
            _ => {}
        }
    }
}

fn without_self(tokens: TokenStream) -> TokenStream {
    let renamed = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident == "self" => TokenTree::Ident(this()),
        TokenTree::Group(group) => {
            let mut new = Group::new(group.delimiter(), without_self(group.stream()));
            new.set_span(group.span());
            TokenTree::Group(new)
        }
        other => other,
    });
    renamed.collect()
}
