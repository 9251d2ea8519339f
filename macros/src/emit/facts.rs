//! Emits the constants that a function's callers read: its hash, and the reason why its calls are
//! recorded.
//!
//! These facts cover the callees. Only rustc knows the type that a method belongs to, so the
//! companions contain the body a second time, in a function that never runs. In this copy each
//! method call also returns a marker type, from which the callee's facts follow.

use super::cached_call::Cause;
use super::cached_call::unmarked;
use super::call::{apart, companion_of};
use super::cx::EmitCx;
use crate::digest::Digest;
use crate::input::generic::{names_in, without_lifetimes};
use crate::input::{text, unraw};
use crate::program::{Body, Call, Callee};
use crate::purity::{Question, mark_of};
use proc_macro2::{Ident, LineColumn, Span, TokenStream};
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, ReturnType, Token};

/// Last level of facts in `core/src/call/facts.rs`.
///
/// Levels bound the recursion of constants: the facts of a function that may call itself read those
/// of its callees one level below.
const LAST: &str = "LEVEL_8";

/// Items emitted for the facts of a function.
pub(crate) struct FactItems {
    /// Items for the impl block of the companions.
    pub(crate) associated: TokenStream,
    /// Items beside the function or the impl block.
    pub(crate) items: TokenStream,
    /// Callees that make each call of the function recorded.
    pub(crate) causes: Vec<Cause>,
}

/// Callee of the body.
struct CalleeMarker {
    /// The callee as the user wrote it, and its span.
    name: String,
    span: Span,
    /// Text that precedes the callee's reason.
    words: String,
    /// Slot that holds the callee's marker.
    slot: MarkerSlot,
}

enum MarkerSlot {
    /// Path of the function that returns the marker.
    Known(TokenStream),
    /// The same for an associated function or a method called by path.
    Associated(TokenStream),
    /// Local that holds the slot, decided by the body, and the position of the method's name.
    Method(Ident, LineColumn),
    /// Query whether a function that a traced-at-run-time body calls is itself `#[traced]`.
    Asked(Question),
}

impl EmitCx<'_> {
    /// Returns the items for the facts of a function; `block` is its body as the user wrote it.
    pub(crate) fn fact_items(&self, body: &Body, block: &Block, digest: &Digest) -> FactItems {
        let called = self.called(body);
        let callees = (!called.is_empty()).then(|| self.callees(&called, block));
        let associated = [
            self.own_facts(digest),
            self.marker_functions(),
            callees.unwrap_or_default(),
            self.public_facts(&called),
        ];
        FactItems {
            associated: associated.into_iter().collect(),
            items: self.facts_of_marker(body, &called),
            causes: self.causes(&called),
        }
    }

    /// Returns one cause per callee, which applies if that callee is the first that is recorded.
    ///
    /// Returns nothing for a generic function, because the answer may depend on the instance.
    fn causes(&self, called: &[CalleeMarker]) -> Vec<Cause> {
        if self.func.generics().decide() {
            return Vec::new();
        }
        let rt = self.rt;
        let (call, last) = (self.call_callees(called), last());
        let causes = called.iter().enumerate().map(|(i, called)| Cause {
            why: format!(
                "it calls `{name}`, which is recorded at each call (see its `RECORDED`); if `{name}` has no side effects, write `#[traced(pure)]` on it",
                name = called.name
            ),
            span: called.span,
            unless: Some(ours!(!#rt::callees::#last(#call).is_first(#i))),
        });
        causes.collect()
    }

    /// Returns a closure, never called, around the call of the function that returns the slots.
    fn call_callees(&self, called: &[CalleeMarker]) -> TokenStream {
        let callees = &self.names.callees;
        let owner = match &self.func.owner {
            None => self.func.sig.ident.to_token_stream(),
            Some(owner) => without_lifetimes(&owner.self_ty),
        };
        let never = std::iter::repeat_n(ours!(loop {}), self.n_callee_params(called));
        ours!(&|| <#owner>::#callees(#(#never),*))
    }

    /// Returns the constants for the function itself, without its callees: its hash and its reason.
    fn own_facts(&self, digest: &Digest) -> TokenStream {
        let (n, rt) = (self.names, self.rt);
        let vis = self.vis();
        let hash = blake3::hash(digest.text.as_bytes()).to_hex();
        let hash = hash.as_str();
        let constants = &digest.constants;
        let (why, own) = (self.calls.impure(), &n.own_facts);
        ours! {
            #[doc(hidden)]
            #vis const #own: #rt::OwnFacts = #rt::own_facts!(#hash [#(#constants),*], #why);
        }
    }

    /// Returns the functions that return the marker: one for calls by path, unless `asking` emits it,
    /// and one for method calls.
    fn marker_functions(&self) -> TokenStream {
        let (n, rt) = (self.names, self.rt);
        let vis = self.vis();
        let marker = self.marker(ours!(Self));
        let marker = ours!(#rt::Marker<#marker>);
        let facts = &n.facts;
        let receiver = self.func.params.iter().any(|param| param.receiver);
        let typed = receiver.then(|| {
            let ReturnType::Type(_, ty) = &self.func.sig.output else {
                return TokenStream::new();
            };
            let signature = self.signature(&n.typed, &self.inputs(), &ours!((#ty, #marker)));
            ours! {
                #[doc(hidden)]
                #[inline]
                #vis #signature { loop {} }
            }
        });
        match self.func.owner {
            Some(_) => typed.unwrap_or_default(),
            None => ours! {
                #[doc(hidden)]
                #vis fn #facts() -> #marker { loop {} }
            },
        }
    }

    /// Returns the constant expression that is true if neither the function nor a callee may have side effects.
    pub(super) fn is_pure(&self) -> TokenStream {
        let (rt, marker, last) = (self.rt, self.marker(ours!(Self)), last());
        ours!(<#marker as #rt::Facts>::#last.why.is_none())
    }

    /// Returns the type that carries the facts: the enum of a function, or a struct beside a
    /// method's impl block.
    pub(crate) fn marker(&self, owner: TokenStream) -> TokenStream {
        let marker = &self.names.marker;
        match &self.func.owner {
            None => owner,
            Some(_) => ours!(#marker<#owner>),
        }
    }

    /// Returns the constants `HASH` and `RECORDED`.
    fn public_facts(&self, called: &[CalleeMarker]) -> TokenStream {
        let (n, rt) = (self.names, self.rt);
        let vis = self.vis();
        let (name, recorded) = (&n.hash, &n.recorded);
        let marker = self.marker(ours!(Self));
        let last = last();
        let user = text(&self.func.sig.ident);
        let doc = format!(
            "The hash of `{user}`: of its source, the constants that it names, and its callees."
        );
        let recorded_doc = format!(
            "Reason why each call of `{user}` is recorded, or `None` if calls can reuse plans."
        );
        let siteless = self.calls.siteless();
        let own = &n.own_facts;
        let (words, why) = match called {
            [] => (TokenStream::new(), ours!(Self::#own.or(#siteless))),
            _ => {
                let words = &n.why;
                let constant = ours! {
                    #[doc(hidden)]
                    #vis const #words: &'static #rt::Text =
                        &#rt::Text::of(<#marker as #rt::Facts>::#last.why);
                };
                (constant, ours!(Self::#words.or(#siteless)))
            }
        };
        ours! {
            #[doc = #doc]
            #vis const #name: [u8; 32] = <#marker as #rt::Facts>::HASH;

            #words

            #[doc = #recorded_doc]
            #vis const #recorded: ::core::option::Option<&'static str> = #why;
        }
    }

    /// Returns the facts of the marker, level by level.
    fn facts_of_marker(&self, body: &Body, called: &[CalleeMarker]) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let (allow, attrs, vis) = (super::names::allow(), &func.attrs, &func.vis);
        let own = &n.own_facts;
        let (owner, generics, marker_item) = match &func.owner {
            None => (func.sig.ident.to_token_stream(), None, TokenStream::new()),
            Some(owner) => {
                let marker = &n.marker;
                let item = ours! {
                    #(#attrs)*
                    #allow
                    #[doc(hidden)]
                    #vis struct #marker<T: ?::core::marker::Sized>(::core::marker::PhantomData<fn(&T)>);
                };
                (owner.self_ty.to_token_stream(), Some(&owner.generics), item)
            }
        };
        let own = ours!(<#owner>::#own);
        let consts = match called {
            [] => ours!(const LEVEL_0: #rt::Fact = #rt::Fact::own(#own);),
            _ => {
                let words = called.iter().map(|called| &called.words);
                let call = self.call_callees(called);
                let level = match body.straight() {
                    Some(_) => ours!(same),
                    None => ours!(below),
                };
                ours!(#rt::levels! { #level #own, #call, &[#(#words),*] })
            }
        };
        let marker = self.marker(owner);
        let (params, bounds) = match generics {
            Some(generics) => {
                let (params, _, bounds) = generics.split_for_impl();
                (params.to_token_stream(), bounds.to_token_stream())
            }
            None => Default::default(),
        };
        ours! {
            #marker_item

            #(#attrs)*
            #allow
            impl #params #rt::Facts for #marker #bounds { #consts }
        }
    }

    /// Returns the functions that the body calls, each once.
    ///
    /// A body that is traced at run time may also call functions that are not `#[traced]`.
    fn called(&self, body: &Body) -> Vec<CalleeMarker> {
        let mut calls: Vec<&Call> = body.programs().flat_map(|p| p.calls.values()).collect();
        calls.sort_by_key(|call| call.span.start());
        let generics = &self.func.sig.generics;
        let asked = self.calls.callees().iter();
        // Queries that mention generic parameters are left out: their answers depend on the
        // instance.
        let asked = asked.filter(|question| !names_in(generics, &question.tokens));
        let mut found: Vec<CalleeMarker> = asked.map(CalleeMarker::asked).collect();
        for call in calls {
            let i = found.len();
            let Some(slot) = self.slot(call, i) else {
                continue;
            };
            if found.iter().any(|other| slot.is_that_of(&other.slot)) {
                continue;
            }
            let (name, line) = (name(&call.callee), call.span.start().line);
            let words = format!("`{name}` at line {line} is recorded: ");
            found.push(CalleeMarker {
                name,
                span: call.span,
                words,
                slot,
            });
        }
        found
    }

    /// Returns the slot of a callee, or `None` if its type depends on the generic parameters of the
    /// function.
    fn slot(&self, call: &Call, i: usize) -> Option<MarkerSlot> {
        let generics = &self.func.sig.generics;
        match &call.callee {
            Callee::Function(path) => {
                let facts = Ident::new("__facts", call.span);
                let (path, _) = apart(path);
                Some(MarkerSlot::Known(companion_of(&path, &facts, self.rt)))
            }
            Callee::Associated { ty, name, .. } => {
                let mut mark = mark_of(&unraw(name));
                mark.set_span(name.span());
                let known = !names_in(generics, ty);
                known.then(|| MarkerSlot::Associated(ours!(#ty::#mark)))
            }
            Callee::Method { name, .. } => {
                let known = generics.type_params().next().is_none()
                    && generics.const_params().next().is_none();
                let slot = Ident::new(&format!("slot_{i}"), Span::mixed_site());
                known.then(|| MarkerSlot::Method(slot, name.span().start()))
            }
            Callee::Part { .. } | Callee::Inline(_) => None,
        }
    }

    /// Returns the number of parameters of the function that returns the slots.
    ///
    /// It contains the user's body, and so the user's parameters, only if a callee is a method.
    fn n_callee_params(&self, called: &[CalleeMarker]) -> usize {
        match called.iter().any(CalleeMarker::is_method) {
            true => self.func.sig.inputs.len(),
            false => 0,
        }
    }

    /// Returns the function that returns the slots of all callees; it is never called.
    fn callees(&self, called: &[CalleeMarker], block: &Block) -> TokenStream {
        let (n, rt) = (self.names, self.rt);
        let vis = self.vis();
        let name = &n.callees;
        let slots = called.iter().rev().fold(ours!(()), |rest, called| {
            let slot = match &called.slot {
                MarkerSlot::Known(facts) => ours!(#rt::CalleeSlot::of(#facts)),
                MarkerSlot::Associated(mark) => ours!(#rt::CalleeSlot::of_method(#mark)),
                MarkerSlot::Method(slot, _) => slot.to_token_stream(),
                MarkerSlot::Asked(question) => {
                    let unmarked = unmarked(&question.marks, rt);
                    let tokens = &question.tokens;
                    ours! {
                        #rt::CalleeSlot::answered(&|| {
                            use #rt::by_type::*;
                            #unmarked
                            #tokens
                        })
                    }
                }
            };
            ours!((#slot, #rest))
        });
        let list = ours!(impl #rt::Callees);
        if !called.iter().any(CalleeMarker::is_method) {
            return ours! {
                #[doc(hidden)]
                #vis fn #name() -> #list { #slots }
            };
        }
        let mut block = block.clone();
        let mut typed = MarkerVisitor {
            called,
            rt,
            marks: BTreeSet::new(),
        };
        typed.visit_block_mut(&mut block);
        let unmarked = unmarked(&typed.marks, rt);
        let methods = called.iter().filter_map(|called| match &called.slot {
            MarkerSlot::Method(slot, _) => Some(slot),
            _ => None,
        });
        let output = &self.func.sig.output;
        let mut sig = self.func.sig.clone();
        sig.ident = name.clone();
        sig.output = syn::parse_quote!(-> #list);
        ours! {
            #[doc(hidden)]
            #vis #sig {
                #(let #methods = #rt::CalleeSlot::new();)*
                {
                    #unmarked
                    let _ = || #output {
                        loop {}
                        #block
                    };
                }
                #slots
            }
        }
    }
}

impl CalleeMarker {
    fn asked(question: &Question) -> CalleeMarker {
        let name = question.callee.clone().unwrap_or_default();
        let line = question.span.start().line;
        CalleeMarker {
            words: format!("`{name}` at line {line} is recorded: "),
            name,
            span: question.span,
            slot: MarkerSlot::Asked(question.clone()),
        }
    }

    fn is_method(&self) -> bool {
        matches!(self.slot, MarkerSlot::Method(..))
    }
}

impl MarkerSlot {
    fn is_that_of(&self, other: &MarkerSlot) -> bool {
        match (self, other) {
            (MarkerSlot::Known(a), MarkerSlot::Known(b))
            | (MarkerSlot::Associated(a), MarkerSlot::Associated(b)) => {
                a.to_string() == b.to_string()
            }
            (MarkerSlot::Method(_, a), MarkerSlot::Method(_, b)) => a == b,
            _ => false,
        }
    }
}

/// Replaces method calls by calls of the functions that also return markers.
struct MarkerVisitor<'a> {
    called: &'a [CalleeMarker],
    rt: &'a TokenStream,
    /// Names of marker methods that all types get from [`unmarked`], with the answer "no".
    marks: BTreeSet<Ident>,
}

impl MarkerVisitor<'_> {
    /// Returns a statement that compiles only if the receiver itself has the traced method.
    ///
    /// Method calls look through `Deref`, so that a wrapper may have an untraced method of the same
    /// name, which the user's code calls. Pointers of the standard library have no such methods.
    fn nearest(&mut self, receiver: &Expr, method: &Ident) -> Option<TokenStream> {
        if !is_place(receiver) {
            return None;
        }
        let rt = self.rt;
        let span = Span::mixed_site().located_at(method.span());
        let mut mark = mark_of(&unraw(method));
        self.marks.insert(mark.clone());
        mark.set_span(method.span());
        let receiver = quote::quote_spanned!(span=> &#receiver);
        let peeled = (0..4).fold(
            receiver,
            |e, _| quote::quote_spanned!(span=> (&&#rt::Probe(#e)).peel()),
        );
        Some(quote::quote_spanned! {span=>
            {
                use #rt::by_type::*;
                #rt::nearest((#peeled).#mark());
            }
        })
    }
}

/// Returns whether an expression is a local or a part of a local, so that it may be written twice.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(e) => is_place(&e.base),
        Expr::Paren(e) => is_place(&e.expr),
        Expr::Reference(e) => is_place(&e.expr),
        Expr::Index(e) => is_place(&e.expr) && matches!(&*e.index, Expr::Lit(_) | Expr::Path(_)),
        _ => false,
    }
}

impl VisitMut for MarkerVisitor<'_> {
    /// Visits the elements of `vec![..]`, which the program computes too.
    fn visit_macro_mut(&mut self, mac: &mut syn::Macro) {
        let elems = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone());
        if let (true, Ok(mut elems)) = (mac.path.is_ident("vec"), elems) {
            elems.iter_mut().for_each(|elem| self.visit_expr_mut(elem));
            mac.tokens = elems.into_token_stream();
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        syn::visit_mut::visit_expr_mut(self, expr);
        let Expr::MethodCall(call) = expr else { return };
        let at = call.method.span().start();
        let slot = self.called.iter().find_map(|called| match &called.slot {
            MarkerSlot::Method(slot, place) if *place == at => Some(slot),
            _ => None,
        });
        let Some(slot) = slot else { return };
        let nearest = self.nearest(&call.receiver, &call.method);
        let name = format!("__traced_{}_typed", unraw(&call.method));
        call.method = Ident::new(&name, call.method.span());
        *expr = Expr::Verbatim(match nearest {
            Some(nearest) => ours!(({ #nearest #slot.result(#call) })),
            None => ours!(#slot.result(#call)),
        });
    }
}

/// Returns a callee as the user names it.
fn name(callee: &Callee) -> String {
    match callee {
        Callee::Function(path) => text(path),
        Callee::Associated { ty, name, .. } => format!("{}::{name}", text(ty)),
        Callee::Method { name, .. } => name.to_string(),
        Callee::Part { .. } | Callee::Inline(_) => unreachable!("code of the body has no name"),
    }
}

fn last() -> Ident {
    Ident::new(LAST, Span::mixed_site())
}
