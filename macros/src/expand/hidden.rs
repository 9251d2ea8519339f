//! What callers of a traced function use, and the struct of residuals.

use super::annotations::Checks;
use super::cx::{Cx, Pieces, Record, reference};
use super::names::allow;
use super::staged::Staged;
use crate::parse::Kind;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;

impl Cx<'_> {
    fn saved_struct(
        &self,
        fields: &[(Ident, TokenStream, String)],
        pull: &TokenStream,
    ) -> TokenStream {
        let (vis, saved, allow, attrs, p) = (
            &self.func.vis,
            &self.names.saved,
            allow(),
            &self.func.attrs,
            self.p,
        );
        let doc = format!(
            "What the derivative of `{}` keeps between the forward and the reverse pass.",
            self.func.sig.ident
        );
        let declared = fields
            .iter()
            .map(|(name, ty, doc)| ours!(#[doc = #doc] pub #name: #ty));
        let names = fields.iter().map(|(name, ..)| name);
        ours! {
            #(#attrs)*
            #allow
            #[doc = #doc]
            #[derive(::core::clone::Clone)]
            #vis struct #saved { #(#declared),* }

            #(#attrs)*
            #allow
            impl #saved {
                /// The number of bytes of the tensors in it.
                pub fn bytes(&self) -> usize {
                    #p::bytes(&[#(&self.#names),*])
                }

                #pull
            }
        }
    }

    /// The hidden companions of a straight-line function.
    pub(super) fn straight(&self, staged: Staged, register: Option<&TokenStream>) -> Pieces {
        let Staged {
            forward,
            fields,
            pull,
            jvp,
            needs_all,
            items: more,
            ..
        } = staged;
        let (n, p, func) = (self.names, self.p, self.func);
        let (forward, jvp, tracked) = match Checks::of(func, p) {
            Some(checks) => {
                let out = &func.output.ty;
                let (saved, dy) = (&n.saved, ours!(#p::Leaves));
                let forward_returns = self.returns(ours!((#out, #saved)));
                let jvp_returns = self.returns(ours!((#out, #dy)));
                (
                    checks.around(forward, &forward_returns),
                    checks.around(jvp, &jvp_returns),
                    Some(ours!(#[track_caller])),
                )
            }
            None => (forward, jvp, None),
        };
        let saved = &n.saved;
        let (head, vis) = self.associated();
        let given = Ident::new("cotangents", Span::mixed_site());
        let pull = ours! {
            #[track_caller]
            fn pull(&self, #given: &[::core::option::Option<#p::Tensor>]) -> #p::Pulled { #pull }
        };
        let saved_struct = self.saved_struct(&fields, &pull);
        let items = ours!(#saved_struct #more);
        let out = &func.output.ty;
        let inputs = self.inputs();
        let pair = ours!((#out, #saved));
        let forward_signature = self.signature(&n.forward, &inputs, &self.returns(pair.clone()));
        let mutable = self.mutable();
        let mark = self.calls.mark();
        let forward = self.body(ours!(#mark #register #mutable #forward), &pair);
        let forward_doc = self.forward_doc();

        let pair = ours!((#out, #p::Pull));
        let fwd_signature = self.signature(&n.hidden_fwd, &inputs, &self.returns(pair));
        let (run, question, kept) = (self.own(&n.forward), self.question(), self.kept());
        let likes = self.likes();
        let ok = |value: TokenStream| match &func.output.result {
            None => value,
            Some(_) => ours!(::core::result::Result::Ok(#value)),
        };
        let result = ok(
            ours!((y, #p::Pull::new(likes, saved.bytes(), move |cotangents| saved.pull(cotangents)))),
        );

        let (jvp_signature, jvp) = self.jvp_companion(ours!(#register #jvp), needs_all);
        let hidden = ours! {
            #head
            #[doc = #forward_doc]
            #tracked
            #vis #forward_signature { #forward }

            #head
            #[doc(hidden)]
            #[track_caller]
            #vis #fwd_signature {
                let likes = [#(#likes),*];
                let (y, saved) = #run(#(#kept),*)#question;
                #result
            }

            #head
            #[doc(hidden)]
            #tracked
            #vis #jvp_signature { #jvp }
        };
        Pieces { hidden, items }
    }

    /// The avals of the leaves of each parameter, for cotangents that are zero.
    fn likes(&self) -> Vec<TokenStream> {
        let p = self.p;
        let likes = self.func.params.iter().map(|param| match param.kind {
            Kind::Static { .. } => ours!(::core::default::Default::default()),
            // A caller asks a tree for the leaves that it has, which are none.
            Kind::Tree if !param.diff => ours!(::core::default::Default::default()),
            Kind::Tensor | Kind::Tree => {
                let x = reference(param);
                ours!(#p::avals(#x))
            }
        });
        likes.collect()
    }

    fn jvp_companion(&self, body: TokenStream, needs_all: bool) -> (TokenStream, TokenStream) {
        let (p, out) = (self.p, &self.func.output.ty);
        let given = super::emit::tangents_ident();
        let n_params = self.func.params.len();
        let mut inputs = self.inputs();
        inputs.push(ours!(#given: [#p::Leaves; #n_params]));
        let pair = ours!((#out, #p::Leaves));
        let signature =
            self.signature(&self.names.hidden_jvp, &inputs, &self.returns(pair.clone()));
        let mutable = self.mutable();
        let mark = self.calls.mark();
        let body = self.body(ours!(#mark #mutable #body), &pair);
        if !needs_all {
            return (signature, body);
        }
        // A tangent that is not given is zero, and no tensor of zeros: the rules would multiply it by infinity.
        let Record { copies, arguments } = self.record();
        let (_, jvp) = self.recorders();
        let partial = self.func.diff().map(|(i, d)| {
            let x = reference(d);
            ours!(#p::is_partial(&#given[#i], #x))
        });
        let body = ours! {
            if #(#partial)||* {
                #copies
                return #p::#jvp(&#given, #arguments);
            }
            #body
        };
        (signature, body)
    }

    /// What runs the user's function and records it. The differentiated arguments are copied into a tree, and the
    /// function is called on its parts.
    fn record(&self) -> Record {
        let (p, func) = (self.p, self.func);
        let user = match func.owner {
            Some(_) => self.own(&func.sig.ident),
            None => {
                let (name, generics) = (&func.sig.ident, self.generics());
                ours!(#name #generics)
            }
        };
        let tree = Ident::new("tree", Span::mixed_site());
        let call = self.parts_of(&tree);
        let diff = self.diff();
        let copies = diff.iter().map(|d| {
            let x = reference(d);
            ours!(#p::copy(#x))
        });
        let positions = func.diff().map(|(i, _)| i);
        let copies = nested(copies);
        let types = nested(diff.iter().map(|d| d.owned.to_token_stream()));
        Record {
            copies: ours!(let copies = #copies;),
            arguments: ours!(&[#(#positions),*], &copies, |#tree: &#types| #user(#(#call),*)),
        }
    }

    /// The arguments of a call, where the differentiated ones are copied into a nested tree.
    pub(super) fn parts_of(&self, tree: &Ident) -> Vec<TokenStream> {
        let p = self.p;
        let mut k = 0usize;
        let call = self.func.params.iter().map(|param| {
            let ident = &param.ident;
            if !param.diff {
                return ours!(#ident);
            }
            let (rest, first) = (vec![syn::Index::from(1); k], syn::Index::from(0));
            k += 1;
            match param.by_ref {
                true => ours!(&#tree #(.#rest)* .#first),
                false => ours!(#p::copy(&#tree #(.#rest)* .#first)),
            }
        });
        call.collect()
    }

    /// The functions of the run time that record.
    fn recorders(&self) -> (TokenStream, TokenStream) {
        match self.func.output.result {
            None => (ours!(record_vjp), ours!(record_jvp)),
            Some(_) => (ours!(record_vjp_as), ours!(record_jvp_as)),
        }
    }

    /// The hidden companions of a function that is run to be known.
    pub(super) fn recorded(&self) -> Pieces {
        let (n, p, func) = (self.names, self.p, self.func);
        let saved = &n.saved;
        let (head, vis) = self.associated();
        let field = Ident::new("pull", Span::mixed_site());
        let kept = "What the recorded program keeps.".to_owned();
        let items = self.saved_struct(
            &[(field.clone(), ours!(#p::Pull), kept)],
            &TokenStream::new(),
        );
        let out = &func.output.ty;
        let inputs = self.inputs();
        let likes = self.likes();
        let Record { copies, arguments } = self.record();
        let (vjp, jvp) = self.recorders();
        let pair = ours!((#out, #p::Pull));
        let fwd_signature = self.signature(&n.hidden_fwd, &inputs, &self.returns(pair));
        let given = super::emit::tangents_ident();
        let n_params = func.params.len();
        let mut jvp_inputs = inputs.clone();
        jvp_inputs.push(ours!(#given: [#p::Leaves; #n_params]));
        let jvp_signature = self.signature(
            &n.hidden_jvp,
            &jvp_inputs,
            &self.returns(ours!((#out, #p::Leaves))),
        );
        let pair = ours!((#out, #saved));
        let forward_signature = self.signature(&n.forward, &inputs, &self.returns(pair));
        let forward_doc = self.forward_doc();
        let (fwd, question, forwarded) =
            (self.own(&n.hidden_fwd), self.question(), self.forwarded());
        let result = match &func.output.result {
            None => ours!((y, #saved { #field })),
            Some(_) => ours!(::core::result::Result::Ok((y, #saved { #field }))),
        };
        let hidden = ours! {
            #head
            #[doc = #forward_doc]
            #[track_caller]
            #vis #forward_signature {
                let (y, #field) = #fwd(#(#forwarded),*)#question;
                #result
            }

            #head
            #[doc(hidden)]
            #[track_caller]
            #vis #fwd_signature {
                let likes = [#(#likes),*];
                #copies
                #p::#vjp(likes, #arguments)
            }

            #head
            #[doc(hidden)]
            #[track_caller]
            #vis #jvp_signature {
                #copies
                #p::#jvp(&#given, #arguments)
            }
        };
        Pieces { hidden, items }
    }
}

/// `(x, (y, ()))`: a tuple of any number of arguments is no tree.
pub(super) fn nested(parts: impl DoubleEndedIterator<Item = TokenStream>) -> TokenStream {
    let parts = parts.rev();
    parts.fold(ours!(()), |rest, part| ours!((#part, #rest)))
}
