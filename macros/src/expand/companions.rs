//! What stands beside the user's function: the companions, the struct of residuals, the struct of gradients.

use super::annotations::Checks;
use super::cost::Facts;
use super::cx::{Cx, Pieces, group, reference};
use super::docs::Docs;
use super::flow::flowing;
use super::kernels::Loops;
use super::names::{Names, allow};
use super::second::Given;
use super::staged::staged;
use super::static_call::StaticCall;
use crate::lower::Body;
use crate::parse::{Func, OutShape, text};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::FnArg;

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
    let docs = Docs::new(
        func,
        body,
        &program,
        &constant,
        staged.as_ref(),
        calls.recorded(),
    );
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
    let (cost, points, kernels, recorded) = (&n.cost, &n.points, &n.kernels, &n.recorded);
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
            const RECORDED: ::core::option::Option<&'static str> = Self::#recorded;
        }
    };
    Companions {
        associated: TokenStream::new(),
        items,
        register,
    }
}

impl Cx<'_> {
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
        let structures = diff.iter().zip(&likes).map(|(d, like)| {
            let x = reference(d);
            ours!(let #like = #p::structure(#x);)
        });
        let rebuilt: Vec<TokenStream> = func
            .diff()
            .zip(&likes)
            .map(|((i, _), like)| ours!(#p::pulled_back(&#like, &mut cotangents, #i)))
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
        let run = self
            .calls
            .pullback(&checked, &ours!(#fwd(#(#arguments),*)#question));
        let vjp_body = ours! {
            #(#structures)*
            #run
            let pullback = move |ct: &#out| {
                let mut cotangents = pull.call(ct);
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
        let recorded = &n.recorded;
        let recorded_doc = format!(
            "Why each call of `{user}` is recorded. `None`, if a call like one before finds its plan and records nothing."
        );
        let why = match self.calls.recorded() {
            None => ours!(::core::option::Option::None),
            Some(why) => ours!(::core::option::Option::Some(#why)),
        };
        ours! {
            #head
            #[doc = #program_doc]
            #vis const #program_name: &'static str = #program;

            #head
            #[doc = #recorded_doc]
            #vis const #recorded: ::core::option::Option<&'static str> = #why;

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
}
