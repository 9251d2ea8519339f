//! What stands beside the user's function: the companions, the struct of residuals, the struct of gradients.

use super::annotations::Checks;
use super::cost::Facts;
use super::docs::Docs;
use super::flow::flowing;
use super::kernels::Loops;
use super::names::{Names, allow};
use super::second::Given;
use super::staged::staged;
use super::static_call::StaticCall;
use crate::lower::{Body, text};
use crate::parse::{Func, Kind, OutShape, Param};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, GenericParam, Type};

/// The companions of one function.
pub(crate) struct Companions {
    /// Items for the impl block of the companions: that of `enum dense`, or the user's own.
    pub(crate) associated: TokenStream,
    /// Items beside the function or the impl block.
    pub(crate) items: TokenStream,
    /// The statement that makes the compiled loops known, where there are any.
    pub(crate) register: Option<TokenStream>,
}

/// The companions of a function whose body has been lowered.
pub(crate) fn companions(
    func: &Func,
    body: &Body,
    private: &TokenStream,
    source: &str,
    calls: &StaticCall<'_>,
) -> Companions {
    let names = Names::new(func);
    let (program, staged) = match body {
        Body::Straight(low) => (
            low.program.to_string(),
            Some(staged(func, low, private, &names.saved)),
        ),
        Body::Flow(low) => (
            low.flow.to_string(),
            Some(flowing(func, low, private, &names.saved, &names.step)),
        ),
        Body::Recorded(reason) => (format!("recorded at run time: {reason}"), None),
    };
    let constant = names.program.to_string();
    let docs = Docs::new(func, body, &program, &constant, staged.as_ref());
    let cx = Cx {
        func,
        names: &names,
        p: private,
        docs: &docs,
        calls,
    };
    let Facts { constants, sizes } = cx.facts(body, staged.as_ref());
    let loops = Loops::of(body);
    let kernels = cx.kernels(&loops);
    let (register_own, register) = match loops.is_empty() {
        false => (
            Some(cx.register(ours!(Self))),
            Some(cx.register(cx.owner())),
        ),
        true => (None, None),
    };
    let loops = (!loops.is_empty()).then(|| cx.loops(&loops.register(private)));
    let pieces = match staged {
        Some(staged) => cx.straight(staged, register_own.as_ref()),
        None => cx.recorded(),
    };
    let public = cx.public(&program, body);
    let hash = cx.hash(body, &program, source);
    let constants = ours!(#hash #constants #kernels);
    let Pieces { hidden, items } = pieces;
    let annotations = Checks::of(func, private).map(|checks| checks.item());
    let hidden = ours!(#hidden #annotations #loops);
    let grads = cx.grads_struct();
    let (allow, attrs) = (allow(), &func.attrs);
    let function = &func.sig.ident;
    let vis = &func.vis;
    let n = &names;
    if func.owner.is_some() {
        return Companions {
            associated: ours!(#public #constants #hidden),
            items: ours!(#items #sizes #grads),
            register,
        };
    }
    let doc =
        format!("The companions of the function `{function}`: its derivatives, and its program.");
    let doc = docs.other(&doc);
    let (program, hash, saved) = (&n.program, &n.hash, &n.saved);
    let (cost, points, kernels) = (&n.cost, &n.points, &n.kernels);
    let items = ours! {
        #(#attrs)*
        #allow
        #[doc = #doc]
        #vis enum #function {}

        #items
        #sizes
        #grads

        #(#attrs)*
        #allow
        impl #function {
            #public
            #constants
            #hidden
        }

        #(#attrs)*
        #allow
        impl #private::Traced for #function {
            type Saved = #saved;
            const PROGRAM: &'static str = Self::#program;
            const HASH: [u8; 32] = Self::#hash;
            const COST: #private::Cost = Self::#cost;
            const POINTS: &'static [#private::Point] = Self::#points;
            const KERNELS: &'static [&'static str] = Self::#kernels;
        }
    };
    Companions {
        associated: TokenStream::new(),
        items,
        register,
    }
}

pub(super) struct Pieces {
    /// What callers use, and the function that returns the residuals.
    pub(super) hidden: TokenStream,
    /// The struct of residuals.
    pub(super) items: TokenStream,
}

/// A call of the run time that records: the statement before it, and its last arguments.
pub(super) struct Record {
    pub(super) copies: TokenStream,
    pub(super) arguments: TokenStream,
}

pub(super) struct Cx<'a> {
    pub(super) func: &'a Func,
    pub(super) names: &'a Names,
    pub(super) p: &'a TokenStream,
    pub(super) docs: &'a Docs,
    pub(super) calls: &'a StaticCall<'a>,
}

impl Cx<'_> {
    /// The type that has the companions.
    fn owner(&self) -> TokenStream {
        match &self.func.owner {
            Some(_) => ours!(Self),
            None => self.func.sig.ident.to_token_stream(),
        }
    }

    /// The function that registers the compiled loops. A build without optimisation has none: they would be slower than the
    /// loops of the run time.
    fn loops(&self, body: &TokenStream) -> TokenStream {
        let (head, vis) = self.associated();
        let name = &self.names.loops;
        ours! {
            #head
            #[cfg(not(debug_assertions))]
            #[doc(hidden)]
            #vis fn #name() { #body }
        }
    }

    fn register(&self, owner: TokenStream) -> TokenStream {
        let name = &self.names.loops;
        ours!(#[cfg(not(debug_assertions))] #owner::#name();)
    }

    /// The parameters of a companion: those of the user's function, each with a name.
    pub(super) fn inputs(&self) -> Vec<TokenStream> {
        let inputs = self.func.sig.inputs.iter().zip(&self.func.params);
        let inputs = inputs.map(|(input, param)| match input {
            FnArg::Receiver(r) => {
                let mut r = r.clone();
                r.mutability = None;
                r.to_token_stream()
            }
            FnArg::Typed(p) => {
                let (ident, ty) = (&param.ident, &p.ty);
                ours!(#ident: #ty)
            }
        });
        inputs.collect()
    }

    /// Host code may assign to a static parameter that the user declared so.
    pub(super) fn mutable(&self) -> TokenStream {
        let names = self
            .func
            .params
            .iter()
            .filter(|p| p.mutable)
            .map(|p| &p.ident);
        ours!(#(let mut #names = #names;)*)
    }

    /// The arguments of one companion for another, without the receiver.
    pub(super) fn arguments(&self) -> Vec<&Ident> {
        self.func
            .params
            .iter()
            .filter(|p| !p.receiver)
            .map(|p| &p.ident)
            .collect()
    }

    /// A call of an associated function of ours, with the generic arguments that cannot be inferred.
    pub(super) fn own(&self, name: &Ident) -> TokenStream {
        let generics = self.generics();
        ours!(Self::#name #generics)
    }

    /// `::<T, N>`, or nothing.
    pub(super) fn generics(&self) -> TokenStream {
        let generics = self
            .func
            .sig
            .generics
            .params
            .iter()
            .filter_map(|g| match g {
                GenericParam::Type(t) => Some(&t.ident),
                GenericParam::Const(c) => Some(&c.ident),
                GenericParam::Lifetime(_) => None,
            });
        let generics: Vec<_> = generics.collect();
        if generics.is_empty() {
            TokenStream::new()
        } else {
            ours!(::<#(#generics),*>)
        }
    }

    /// The type and const parameters that an `impl Fn` may mention, and the lifetimes that its arguments and its result do.
    fn captures(&self) -> TokenStream {
        let types = self.func.diff().map(|(_, d)| &d.owned);
        let types: Vec<String> = types.chain([&self.func.output.ty]).map(text).collect();
        let owner = self.func.owner.iter().flat_map(|o| &o.generics.params);
        let generics: Vec<&GenericParam> = owner.chain(&self.func.sig.generics.params).collect();
        let lifetimes = generics.iter().filter_map(|g| match g {
            GenericParam::Lifetime(l) => Some(l.lifetime.to_token_stream()),
            _ => None,
        });
        let lifetimes = lifetimes.filter(|l| types.iter().any(|ty| ty.contains(&l.to_string())));
        let others = generics.iter().filter_map(|g| match g {
            GenericParam::Type(t) => Some(t.ident.to_token_stream()),
            GenericParam::Const(c) => Some(c.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        });
        let generics = lifetimes.chain(others);
        ours!(use<#(#generics),*>)
    }

    /// `Result<ty>` as the user wrote it, or the type itself.
    pub(super) fn returns(&self, ty: TokenStream) -> TokenStream {
        let Some(path) = &self.func.output.result else {
            return ty;
        };
        let mut path = path.clone();
        let last = path
            .path
            .segments
            .last_mut()
            .expect("`Result` is a segment");
        if let syn::PathArguments::AngleBracketed(args) = &mut last.arguments {
            let slot = args
                .args
                .iter_mut()
                .find(|a| matches!(a, syn::GenericArgument::Type(_)));
            if let Some(slot) = slot {
                *slot = syn::GenericArgument::Type(Type::Verbatim(ty));
            }
        }
        path.to_token_stream()
    }

    /// A body that gives a `Result` where the function does.
    pub(super) fn body(&self, body: TokenStream, ty: &TokenStream) -> TokenStream {
        if self.func.output.result.is_none() {
            return body;
        }
        let (p, returns) = (self.p, self.returns(ty.clone()));
        let body = ours!({ #body });
        ours!(#p::catch_as(|| -> #returns { ::core::result::Result::Ok(#body) }))
    }

    pub(super) fn question(&self) -> Option<TokenStream> {
        self.func.output.result.as_ref().map(|_| ours!(?))
    }

    pub(super) fn diff(&self) -> Vec<&Param> {
        self.func.diff().map(|(_, p)| p).collect()
    }

    pub(super) fn signature(
        &self,
        name: &Ident,
        inputs: &[TokenStream],
        returns: &TokenStream,
    ) -> TokenStream {
        let generics = &self.func.sig.generics;
        let written = generics.where_clause.iter().flat_map(|w| &w.predicates);
        let written = written.map(ToTokens::to_token_stream);
        let bounds: Vec<TokenStream> = written.chain(self.trees()).collect();
        let bounds = (!bounds.is_empty()).then(|| ours!(where #(#bounds),*));
        ours!(fn #name #generics (#(#inputs),*) -> #returns #bounds)
    }

    /// What the macro takes for trees has to be trees. As a bound, rustc reports what is none at the type in the
    /// signature, once, and not at each use.
    fn trees(&self) -> Vec<TokenStream> {
        let p = self.p;
        let params = self.func.params.iter().filter(|p| p.kind == Kind::Tree);
        let output = (self.func.output.shape == OutShape::Opaque).then_some(&self.func.output.ty);
        let types = params
            .filter(|p| !p.receiver)
            .map(|p| &p.owned)
            .chain(output);
        types
            // A lifetime that is not named cannot stand in a bound.
            .filter(|ty| !text(ty).contains(['\'', '&']))
            .map(|ty| {
                let p = super::emit::at(p, ty.span());
                quote_spanned!(ty.span()=> #ty: #p::Tree)
            })
            .collect()
    }

    /// The attributes and the visibility of an associated item. In `enum dense` the impl block has the attributes, and
    /// the enum decides who sees its items; in the user's own type each method has those of the user's method.
    pub(super) fn associated(&self) -> (TokenStream, TokenStream) {
        if self.func.owner.is_none() {
            return (TokenStream::new(), ours!(pub));
        }
        let (allow, attrs) = (allow(), &self.func.attrs);
        (ours!(#(#attrs)* #allow), self.func.vis.to_token_stream())
    }

    /// The documentation of the function that returns the residuals.
    pub(super) fn forward_doc(&self) -> String {
        let function = &self.func.sig.ident;
        let sentence = format!("The result of `{function}`, and what its derivative keeps.");
        self.docs.reverse(&sentence)
    }

    /// What users call.
    fn public(&self, program: &str, body: &Body) -> TokenStream {
        let (n, p, func) = (self.names, self.p, self.func);
        let (head, vis) = self.associated();
        let program_name = &n.program;
        let user = text(&func.sig.ident);
        let out = func.output.ty.to_token_stream();
        let inputs = self.inputs();
        let diff = self.diff();

        // Reverse mode.
        let owned: Vec<TokenStream> = diff.iter().map(|d| d.owned.to_token_stream()).collect();
        let cotangents = group(&owned);
        let captures = self.captures();
        let pair = ours!((#out, impl ::core::ops::Fn(&#out) -> #cotangents + #captures));
        let returns = self.returns(pair.clone());
        let signature = self.signature(&n.vjp, &inputs, &returns);
        let fwd = self.own(&n.hidden_fwd);
        let question = self.question();
        let arguments = self.forwarded();
        let checks: Vec<TokenStream> = diff
            .iter()
            .map(|d| {
                let (x, name) = (reference(d), if d.receiver { "self" } else { &d.name });
                ours!(#p::check_floats(#x, #name);)
            })
            .collect();
        let likes: Vec<Ident> = diff
            .iter()
            .map(|d| format_ident!("{}_like", d.name, span = Span::mixed_site()))
            .collect();
        let zeros = diff.iter().zip(&likes).map(|(d, like)| {
            let x = reference(d);
            ours!(let #like = #p::zeros_tree(#x);)
        });
        let rebuilt: Vec<TokenStream> = func
            .diff()
            .zip(&likes)
            .map(|((i, _), like)| ours!(#p::rebuild(&#like, &cotangents, #i)))
            .collect();
        let rebuilt = group(&rebuilt);
        // The type of the closure cannot be written, so the body is not caught as a whole.
        let (checked, result) = match &func.output.result {
            None => (ours!(#(#checks)*), ours!((y, pullback))),
            Some(_) => (
                ours!(#p::catch(|| { #(#checks)* ::core::result::Result::Ok(()) })?;),
                ours!(::core::result::Result::Ok((y, pullback))),
            ),
        };
        let vjp_body = ours! {
            #checked
            #(#zeros)*
            let (y, pull) = #fwd(#(#arguments),*)#question;
            let likes = #p::avals(&y);
            let pullback = move |ct: &#out| {
                let cotangents = pull.call_tree(ct, &likes);
                #rebuilt
            };
            #result
        };
        let vjp_doc = self.docs.reverse(&format!(
            "Reverse mode: the result of `{user}`, and the pullback from its cotangent to those of its arguments."
        ));

        // Forward mode.
        let (others, receiver): (Vec<_>, Vec<_>) = inputs
            .iter()
            .zip(&func.params)
            .partition(|(_, p)| !p.receiver);
        let receiver: Vec<TokenStream> = receiver.into_iter().map(|(r, _)| r.clone()).collect();
        let (idents, types): (Vec<TokenStream>, Vec<TokenStream>) = others.iter().map(|(_, p)| {
            let ident = &p.ident;
            let written = func.sig.inputs.iter().find_map(|i| match i {
                FnArg::Typed(t) if matches!(&*t.pat, syn::Pat::Ident(id) if id.ident == p.ident) => Some(t.ty.to_token_stream()),
                _ => None,
            });
            (ours!(#ident), written.unwrap_or_else(|| p.ty.to_token_stream()))
        }).unzip();
        let (args, args_ty) = (group(&idents), group(&types));
        let dx: Vec<Ident> = diff
            .iter()
            .map(|d| format_ident!("d_{}", d.name, span = Span::mixed_site()))
            .collect();
        let dx_tokens: Vec<TokenStream> = dx.iter().map(|d| ours!(#d)).collect();
        let dx_types: Vec<TokenStream> = diff
            .iter()
            .map(|d| {
                let t = &d.owned;
                ours!(&#t)
            })
            .collect();
        let (dx_pattern, dx_ty) = (group(&dx_tokens), group(&dx_types));
        let jvp_inputs: Vec<TokenStream> = receiver
            .into_iter()
            .chain([ours!(#args: #args_ty), ours!(#dx_pattern: #dx_ty)])
            .collect();
        let jvp_pair = ours!((#out, #out));
        let jvp_returns = self.returns(jvp_pair.clone());
        let jvp_signature = self.signature(&n.jvp, &jvp_inputs, &jvp_returns);
        let hidden_jvp = self.own(&n.hidden_jvp);
        let given: Vec<TokenStream> = func
            .params
            .iter()
            .map(
                |param| match diff.iter().position(|d| d.name == param.name && param.diff) {
                    Some(k) => {
                        let (x, dx, name) = (reference(param), &dx[k], &param.name);
                        ours!(#p::given(#x, #dx, #name))
                    }
                    None => ours!(#p::Leaves::new()),
                },
            )
            .collect();
        let jvp_arguments = self.forwarded();
        let jvp_body = self.body(
            ours! {
                #(#checks)*
                let given = [#(#given),*];
                let (y, dy) = #hidden_jvp(#(#jvp_arguments,)* given)#question;
                let dy = #p::tangent_tree(&y, &dy);
                (y, dy)
            },
            &jvp_pair,
        );
        let jvp_body = self.calls.tangents(&jvp_body, &dx);
        let jvp_doc = self.docs.other(&format!(
            "Forward mode: the result of `{user}` for the given arguments, and its tangent for theirs."
        ));

        let grads = (func.output.shape == OutShape::Tensor)
            .then(|| self.grad_functions(&head, &vis, &checks));
        let second = self.second_order(
            body,
            &Given {
                inputs: &jvp_inputs,
                tangents: &dx,
                checks: &checks,
                leaves: &given,
            },
        );
        let program_doc = self.docs.other(&format!("The program of `{user}`."));
        ours! {
            #head
            #[doc = #program_doc]
            #vis const #program_name: &'static str = #program;

            #head
            #[doc = #vjp_doc]
            #[track_caller]
            #vis #signature { #vjp_body }

            #head
            #[doc = #jvp_doc]
            #[track_caller]
            #vis #jvp_signature { #jvp_body }

            #grads

            #second
        }
    }

    /// The arguments for a hidden companion: everything, the receiver first, moved where it is taken by value.
    pub(super) fn forwarded(&self) -> Vec<TokenStream> {
        self.func
            .params
            .iter()
            .map(|p| p.ident.to_token_stream())
            .collect()
    }

    /// The same where the arguments are needed afterwards.
    pub(super) fn kept(&self) -> Vec<TokenStream> {
        let p = self.p;
        let kept = self.func.params.iter().map(|param| {
            let ident = &param.ident;
            match param.diff && !param.by_ref {
                true => ours!(#p::copy(&#ident)),
                false => ours!(#ident),
            }
        });
        kept.collect()
    }
}

/// One type bare, several as a tuple.
pub(super) fn group(parts: &[TokenStream]) -> TokenStream {
    match parts {
        [one] => one.clone(),
        parts => ours!((#(#parts),*)),
    }
}

/// A reference to a parameter.
pub(super) fn reference(param: &Param) -> TokenStream {
    let ident = &param.ident;
    if param.by_ref {
        ours!(#ident)
    } else {
        ours!(&#ident)
    }
}

/// The field of the struct of gradients.
pub(super) fn field(param: &Param) -> Ident {
    if param.receiver {
        Ident::new(&param.name, Span::call_site())
    } else {
        param.ident.clone()
    }
}
