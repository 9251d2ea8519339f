//! Emits the hidden functions for callers of a traced function, and the struct of residuals.

use super::annotations::Checks;
use super::cx::{EmitCx, InternalItems, LoopUse, reference};
use super::flow::{DerivativeParts, ReverseParts};
use super::names::allow;
use super::residuals::of_result;
use crate::derivative::Wrt;
use crate::input::Kind;
use proc_macro2::{Ident, Span, TokenStream};

impl EmitCx<'_> {
    /// Returns a struct of residuals; `size` is the formula of its bytes.
    fn saved_struct(
        &self,
        Struct { saved, attr }: Struct<'_>,
        fields: &[(Ident, TokenStream, String)],
        size: &TokenStream,
        pull: &TokenStream,
    ) -> TokenStream {
        let (vis, allow, attrs, rt) = (&self.func.vis, allow(), &self.func.attrs, self.rt);
        let doc = format!(
            "Residuals of `{}`: values that the derivative keeps between the forward and the reverse pass.",
            self.func.sig.ident
        );
        let declared = fields
            .iter()
            .map(|(name, ty, doc)| ours!(#[doc = #doc] pub #name: #ty));
        let names = fields.iter().map(|(name, ..)| name);
        let of_result = of_result();
        let all = names.clone();
        ours! {
            #(#attrs)*
            #allow
            #attr
            #[doc = #doc]
            #[derive(::core::clone::Clone, ::core::fmt::Debug)]
            #vis struct #saved {
                #(#declared,)*
                #[doc = "Dtypes and shapes of the leaves of the result, which a cotangent has to have."]
                pub #of_result: ::std::vec::Vec<#rt::Aval>,
            }

            #(#attrs)*
            #allow
            impl #rt::Tree for #saved {
                #rt::residual_tree!([#(#all),*]);
            }

            #(#attrs)*
            #allow
            impl #saved {
                #rt::sizes!(#size, [#(#names),*]);

                #pull
            }
        }
    }

    /// Returns the hidden companions of a function that is differentiated at compile time.
    pub(crate) fn internal_items(&self, staged: DerivativeParts) -> InternalItems {
        let DerivativeParts {
            reverse,
            callers,
            jvp,
            needs_all,
        } = staged;
        let (n, rt, func) = (self.names, self.rt, self.func);
        let (jvp, tracked) = match Checks::new(func, rt) {
            Some(checks) => {
                let out = &func.output.ty;
                let returns = self.returns(ours!((#out, #rt::Leaves)));
                (
                    checks.wrap_companion(jvp, &returns),
                    Some(ours!(#[track_caller])),
                )
            }
            None => (jvp, None),
        };
        let vis = self.vis();
        let own = self.residuals(Struct::public(&n.saved), &n.forward, reverse);
        let callers = callers.map(|reverse| {
            let saved = Struct::internal(&n.callers_saved);
            self.residuals(saved, &n.callers_forward, reverse)
        });
        let (callers_items, callers_forward) = callers.map(|r| (r.items, r.forward)).unzip();
        let callers_forward = callers_forward.map(|forward| ours!(#[doc(hidden)] #forward));
        let (jvp_signature, jvp) = self.jvp_companion(jvp, needs_all);
        let (doc, forward, fwd) = (self.forward_doc(), own.forward, self.fwd());
        let associated = ours! {
            #[doc = #doc]
            #forward

            #callers_forward

            #fwd

            #[doc(hidden)]
            #tracked
            #[inline]
            #vis #jvp_signature { #jvp }
        };
        let items = own.items;
        InternalItems {
            associated,
            items: ours!(#items #callers_items),
        }
    }

    /// Returns the struct of residuals, and the function `name` that returns it with the result.
    fn residuals(&self, residuals: Struct<'_>, name: &Ident, reverse: ReverseParts) -> Residuals {
        let ReverseParts {
            forward,
            fields,
            pull,
            costs,
            ..
        } = reverse;
        let (rt, out, saved) = (self.rt, &self.func.output.ty, residuals.saved);
        let pair = ours!((#out, #saved));
        let returns = self.returns(pair.clone());
        let (forward, tracked) = match Checks::new(self.func, rt) {
            Some(checks) => (
                checks.wrap_companion(forward, &returns),
                Some(ours!(#[track_caller])),
            ),
            None => (forward, None),
        };
        let given = Ident::new("cotangents", Span::mixed_site());
        let size = self.formula(&costs.and_then(|costs| costs.saved));
        let pull = ours! {
            #[track_caller]
            #[inline]
            fn pull(&self, #given: &[::core::option::Option<#rt::Tensor>]) -> #rt::LeafCotangents { #pull }
        };
        let items = self.saved_struct(residuals, &fields, &size, &pull);
        let vis = self.vis();
        let signature = self.signature(name, &self.inputs(), &returns);
        let (owned, mutable) = (self.owned(), self.mutable());
        let enter = self.enter(&[LoopUse::All, LoopUse::Reverse]);
        let forward = self.body(ours!(#enter #owned #mutable #forward), &pair);
        Residuals {
            items,
            forward: ours! {
                #tracked
                #[inline]
                #vis #signature { #forward }
            },
        }
    }

    /// Returns the statement that records the user's body if the user asked to run it.
    fn when_bodies_run(&self) -> TokenStream {
        let (rt, recorded) = (self.rt, self.record_fwd());
        // The rules of ops are valid for floats only. A frozen leaf may have another dtype.
        let trees = self.func.diff().filter(|(_, d)| d.kind == Kind::Tree);
        let others = trees.map(|(i, d)| {
            let (x, asked) = (reference(d), asked());
            ours!(#asked[#i] && !#rt::all_floats(#x))
        });
        let traced = self.also_traced();
        ours!(if #rt::runs_bodies() #traced #(|| #others)* { #recorded })
    }

    /// Returns the functions with which callers start reverse mode.
    fn fwd(&self) -> TokenStream {
        let (n, func) = (self.names, self.func);
        let (likes, recorded) = (self.likes(), self.when_bodies_run());
        let own = self.begin(&n.forward);
        let arguments = self.forwarded();
        let Some(callers) = self.callers else {
            let (again, asked) = (self.own(&n.internal_fwd), asked());
            let shadow = self.with_shadow(&ours!(#again(#(#arguments,)* #asked)));
            let own = ours!(#likes #recorded #shadow #own);
            return self.fwd_function(&n.internal_fwd, &self.asking(), &own);
        };
        let (asked, diff) = (asked(), func.params.iter().map(|param| param.diff));
        let again = self.own(&n.internal_own);
        let shadow = self.with_shadow(&ours!(#again(#(#arguments),*)));
        let own = ours!(let #asked = [#(#diff),*]; #likes #recorded #shadow #own);
        let own = self.fwd_function(&n.internal_own, &self.inputs(), &own);
        let body = self.begin_asked(callers);
        let fwd = self.fwd_function(&n.internal_fwd, &self.asking(), &body);
        ours!(#own #fwd)
    }

    fn fwd_function(
        &self,
        name: &Ident,
        inputs: &[TokenStream],
        body: &TokenStream,
    ) -> TokenStream {
        let (rt, out) = (self.rt, &self.func.output.ty);
        let (vis, owned) = (self.vis(), self.owned());
        let signature = self.signature(
            name,
            inputs,
            &self.returns(ours!((#out, #rt::CompanionPullback))),
        );
        ours! {
            #[doc(hidden)]
            #[track_caller]
            #[inline]
            #vis #signature { #owned #body }
        }
    }

    /// Returns the parameters, followed by an array of flags for the cotangents that the caller
    /// requests.
    fn asking(&self) -> Vec<TokenStream> {
        let (asked, n_params) = (asked(), self.func.params.len());
        let mut inputs = self.inputs();
        inputs.push(ours!(#asked: [bool; #n_params]));
        inputs
    }

    /// Returns the body that computes the result and the pullback of the residuals that `forward`
    /// returns.
    fn begin(&self, forward: &Ident) -> TokenStream {
        let rt = self.rt;
        let (run, question, args) = (self.own(forward), self.question(), self.borrowed_args());
        let run = ours!(#run(#(#args),*)#question);
        self.calls.ok(ours! {
            #rt::saved_pullback(likes, #run, |saved| saved.bytes(), |saved, ct| saved.pull(ct))
        })
    }

    /// Returns the body for callers that may differentiate more than the public parameters.
    ///
    /// Values that are not floats have no derivative, even if the caller requests one.
    fn begin_asked(&self, callers: &Wrt) -> TokenStream {
        let (rt, asked) = (self.rt, asked());
        let param = |i: &usize| reference(&self.func.params[*i]);
        let more = callers.nodiff.iter().map(|i| {
            let x = param(i);
            ours!(#asked[#i] && #rt::any_float(#x))
        });
        let floats = callers.floats.iter().map(|i| {
            let x = param(i);
            ours!(#rt::all_floats(#x))
        });
        let (likes, recorded) = (self.likes(), self.record_fwd());
        let (own, arguments) = (self.own(&self.names.internal_own), self.forwarded());
        let begin = self.begin(&self.names.callers_forward);
        let again = self.own(&self.names.internal_fwd);
        let shadow = self.with_shadow(&ours!(#again(#(#arguments,)* #asked)));
        let traced = self.also_traced();
        ours! {
            if !(#(#more)||*) {
                return #own(#(#arguments),*);
            }
            #likes
            if #rt::runs_bodies() #traced #(|| !#floats)* { #recorded }
            #shadow
            #begin
        }
    }

    /// Returns the statement that records the user's function and returns the result and the
    /// pullback.
    fn record_fwd(&self) -> TokenStream {
        let (rt, asked, arguments) = (self.rt, asked(), self.record());
        let (vjp, _) = self.recorders();
        ours!(return #rt::#vjp(likes, &#asked, #arguments);)
    }

    /// Returns the statement that binds the avals of the leaves of each parameter, for zero
    /// cotangents.
    fn likes(&self) -> TokenStream {
        let rt = self.rt;
        let likes = self.func.params.iter().map(|param| match param.kind {
            Kind::Static { .. } => ours!(::core::default::Default::default()),
            // A caller sees no differentiable leaves in such a tree.
            Kind::Tree if !param.diff => ours!(::core::default::Default::default()),
            Kind::Tensor | Kind::Tree => {
                let x = reference(param);
                ours!(#rt::avals(#x))
            }
        });
        ours!(let likes = [#(#likes),*];)
    }

    fn jvp_companion(&self, body: TokenStream, needs_all: bool) -> (TokenStream, TokenStream) {
        let (rt, out) = (self.rt, &self.func.output.ty);
        let given = super::statements::tangents_ident();
        let n_params = self.func.params.len();
        let mut inputs = self.inputs();
        inputs.push(ours!(#given: [#rt::Leaves; #n_params]));
        let pair = ours!((#out, #rt::Leaves));
        let signature = self.signature(
            &self.names.internal_jvp,
            &inputs,
            &self.returns(pair.clone()),
        );
        let mutable = self.mutable();
        let enter = self.enter(&[LoopUse::All, LoopUse::Forward]);
        let body = self.body(ours!(#enter #mutable #body), &pair);
        // A missing tangent is zero. It is not a tensor of zeros, because the rules would multiply
        // these by infinity.
        //
        // Forward mode with respect to `#[nodiff]` parameters is rare, so the function is recorded
        // instead of emitting code for it.
        let partial = self.func.diff().filter(|_| needs_all).map(|(i, d)| {
            let x = reference(d);
            ours!(#rt::is_partial(&#given[#i], #x))
        });
        let nodiff = self.callers.iter().flat_map(|callers| &callers.nodiff);
        let nodiff = nodiff.map(|i| ours!(#rt::any_given(&#given[#i])));
        let conditions = partial.chain(nodiff);
        let arguments = self.record();
        let (_, jvp) = self.recorders();
        let owned = self.owned();
        let (traced, forward_points) = (self.also_traced(), self.with_forward_points());
        let body = ours! {
            #owned
            if #rt::runs_bodies() #traced #(|| #conditions)* {
                return #rt::#jvp(&#given, #arguments);
            }
            #forward_points
            #body
        };
        (signature, body)
    }

    /// Returns the last arguments of a function of the run time that records the user's function.
    ///
    /// The arguments that callers may differentiate are copied into a tree, and the function is
    /// called on its parts.
    pub(super) fn record(&self) -> TokenStream {
        let (rt, func) = (self.rt, self.func);
        let user = self.user_function();
        let tree = Ident::new("tree", Span::mixed_site());
        let call = self.parts_of(&tree, self.asked_for);
        let arguments = self.asked_for.iter().map(|i| {
            let x = reference(&func.params[*i]);
            ours!(#i #x)
        });
        ours!(#rt::arguments![#(#arguments),*], |#tree| #user(#(#call),*))
    }

    /// Returns the path of the user's function, with the generic arguments that cannot be inferred.
    pub(crate) fn user_function(&self) -> TokenStream {
        let (name, generics) = (&self.func.sig.ident, self.generics());
        match (self.func.path_in_trait(), &self.func.owner) {
            (Some(path), _) => ours!(#path #generics),
            (None, Some(_)) => self.own(name),
            (None, None) => ours!(#name #generics),
        }
    }

    /// Returns the arguments of a call; those of the parameters `parts` are read from a nested
    /// tuple, in order.
    pub(crate) fn parts_of(&self, tree: &Ident, parts: &[usize]) -> Vec<TokenStream> {
        let rt = self.rt;
        let call = self.func.params.iter().enumerate().map(|(i, param)| {
            let ident = &param.ident;
            let part = parts.iter().position(|part| *part == i).map(|k| {
                let (rest, first) = (vec![syn::Index::from(1); k], syn::Index::from(0));
                ours!(&#tree #(.#rest)* .#first)
            });
            match (part, &param.view) {
                (part, Some(view)) => view.lend(&part.unwrap_or(ours!(#ident)), rt),
                (None, None) => ours!(#ident),
                (Some(part), None) if param.by_ref => part,
                (Some(part), None) => ours!(#rt::copy(#part)),
            }
        });
        call.collect()
    }

    /// Returns the functions of the run time that record.
    pub(super) fn recorders(&self) -> (TokenStream, TokenStream) {
        match self.func.output.result {
            None => (ours!(record_vjp), ours!(record_jvp)),
            Some(_) => (ours!(record_vjp_as), ours!(record_jvp_as)),
        }
    }

    /// Returns the hidden companions of a function that is traced at run time.
    pub(crate) fn recorded(&self) -> InternalItems {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let saved = &n.saved;
        let vis = self.vis();
        let field = Ident::new("pull", Span::mixed_site());
        let given = Ident::new("cotangents", Span::mixed_site());
        let doc = "Residuals of the recorded program.".to_owned();
        let items = self.saved_struct(
            Struct::public(saved),
            &[(field.clone(), ours!(#rt::CompanionPullback), doc)],
            &ours!(::core::option::Option::None),
            &ours! {
                #[track_caller]
                fn pull(&self, #given: &[::core::option::Option<#rt::Tensor>]) -> #rt::LeafCotangents {
                    self.#field.call(#given)
                }
            },
        );
        let out = &func.output.ty;
        let inputs = self.inputs();
        let arguments = self.record();
        let (_, jvp) = self.recorders();
        let (likes, recorded) = (self.likes(), self.record_fwd());
        let fwd = ours!(#likes #recorded);
        let fwd = self.fwd_function(&n.internal_fwd, &self.asking(), &fwd);
        let given = super::statements::tangents_ident();
        let n_params = func.params.len();
        let mut jvp_inputs = inputs.clone();
        jvp_inputs.push(ours!(#given: [#rt::Leaves; #n_params]));
        let jvp_signature = self.signature(
            &n.internal_jvp,
            &jvp_inputs,
            &self.returns(ours!((#out, #rt::Leaves))),
        );
        let pair = ours!((#out, #saved));
        let forward_signature = self.signature(&n.forward, &inputs, &self.returns(pair));
        let forward_doc = self.forward_doc();
        let (begun, question) = (self.public_fwd(&self.forwarded()), self.question());
        let owned = self.owned();
        let of_result = of_result();
        let pair = ours!((y, #saved { #field, #of_result }));
        let pair = match &func.output.result {
            None => pair,
            Some(_) => ours!(::core::result::Result::Ok(#pair)),
        };
        let associated = ours! {
            #[doc = #forward_doc]
            #[track_caller]
            #[inline]
            #vis #forward_signature {
                #owned
                let (y, #field) = #begun #question;
                let #of_result = #rt::avals(&y);
                #pair
            }

            #fwd

            #[doc(hidden)]
            #[track_caller]
            #[inline]
            #vis #jvp_signature {
                #owned
                #rt::#jvp(&#given, #arguments)
            }
        };
        InternalItems { associated, items }
    }
}

/// Struct of residuals: its name, and an attribute.
struct Struct<'a> {
    saved: &'a Ident,
    attr: Option<TokenStream>,
}

impl<'a> Struct<'a> {
    fn public(saved: &'a Ident) -> Struct<'a> {
        Struct { saved, attr: None }
    }

    /// Returns a struct that does not appear in the documentation.
    fn internal(saved: &'a Ident) -> Struct<'a> {
        let attr = Some(ours!(#[doc(hidden)]));
        Struct { saved, attr }
    }
}

/// Struct of residuals, and the function that returns it.
struct Residuals {
    items: TokenStream,
    forward: TokenStream,
}

/// Returns the parameter with the flags for the requested cotangents.
pub(super) fn asked() -> Ident {
    Ident::new("asked", Span::mixed_site())
}

/// Returns `(x, (y, ()))`, because `Tree` is not implemented for tuples of every length.
pub(crate) fn nested(parts: impl DoubleEndedIterator<Item = TokenStream>) -> TokenStream {
    let parts = parts.rev();
    parts.fold(ours!(()), |rest, part| ours!((#part, #rest)))
}
