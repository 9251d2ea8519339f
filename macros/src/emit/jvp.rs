//! Emits the forward-mode companion, which returns the result and its tangent.

use super::cached_call::Companion;
use super::cx::{EmitCx, group, reference};
use crate::input::text;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::{FnArg, Pat};

/// Inputs of a forward-mode companion, and its checks.
pub(crate) struct JvpArguments {
    /// Its parameters: the receiver, the arguments, and the tangents of the differentiated ones.
    pub(crate) inputs: Vec<TokenStream>,
    /// Locals of the tangents, one for each differentiated parameter.
    pub(crate) tangents: Vec<Ident>,
    /// Statement that checks that the arguments are differentiable.
    pub(crate) checks: TokenStream,
    /// Leaves of the tangents, for each parameter. They check the arguments too.
    pub(crate) leaves: Vec<TokenStream>,
}

impl EmitCx<'_> {
    /// Returns the inputs of the forward-mode companions; reverse mode shares the checks.
    pub(crate) fn given(&self) -> JvpArguments {
        let rt = self.rt;
        let diff = self.diff();
        let tangents: Vec<Ident> = diff
            .iter()
            .map(|d| format_ident!("d_{}", d.name, span = Span::mixed_site()))
            .collect();
        let checks = diff.iter().map(|d| {
            let (x, name) = (reference(d), d.shown_name());
            ours!(#name #x)
        });
        let mut dx = tangents.iter();
        let leaves = self.func.params.iter().map(|param| match param.diff {
            true => {
                let (x, name) = (reference(param), param.shown_name());
                let dx = dx.next().expect("a tangent for each");
                ours!(#rt::tangent_leaves(#x, #dx, #name))
            }
            false => ours!(#rt::Leaves::new()),
        });
        JvpArguments {
            inputs: self.with_tangents(&tangents),
            checks: ours!(#rt::check_all_floats!(#(#checks),*);),
            leaves: leaves.collect(),
            tangents,
        }
    }

    /// Returns `self, (x, w): (&Tensor, &Tensor), (d_x, d_w): (&Tensor, &Tensor)`.
    fn with_tangents(&self, tangents: &[Ident]) -> Vec<TokenStream> {
        let inputs = self.inputs();
        let mut receiver = Vec::new();
        let (mut idents, mut types) = (Vec::new(), Vec::new());
        for (param, input) in self.func.params.iter().zip(inputs) {
            if param.receiver {
                receiver.push(input);
                continue;
            }
            let ident = &param.ident;
            let written = self.func.sig.inputs.iter().find_map(|i| match i {
                FnArg::Typed(t) if matches!(&*t.pat, Pat::Ident(id) if id.ident == *ident) => {
                    Some(t.ty.to_token_stream())
                }
                _ => None,
            });
            idents.push(ident.to_token_stream());
            types.push(written.unwrap_or_else(|| param.ty.to_token_stream()));
        }
        let (args, args_ty) = (group(&idents), group(&types));
        let dx: Vec<TokenStream> = tangents.iter().map(ToTokens::to_token_stream).collect();
        let dx_types = self.diff().into_iter().map(|d| {
            let ty = &d.owned;
            ours!(&#ty)
        });
        let dx_types: Vec<TokenStream> = dx_types.collect();
        let (dx, dx_ty) = (group(&dx), group(&dx_types));
        receiver.extend([ours!(#args: #args_ty), ours!(#dx: #dx_ty)]);
        receiver
    }

    /// Returns `jvp`.
    pub(crate) fn jvp(&self, given: &JvpArguments) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let vis = self.vis();
        let out = &func.output.ty;
        let pair = ours!((#out, #out));
        let returns = self.returns(pair.clone());
        let signature = self.signature(&n.jvp, &given.inputs, &returns);
        let (hidden, question) = (self.own(&n.internal_jvp), self.question());
        let arguments = self.forwarded();
        let leaves = &given.leaves;
        let statements = ours!(let given = [#(#leaves),*];);
        let value = ours!(#rt::with_tangent(#hidden(#(#arguments,)* given)#question));
        let steps = self.steps(statements, value, &pair);
        let body = (self.calls).results(Companion::Forward, 2, &steps, &given.tangents);
        let owned = self.owned();
        let doc = self.docs.other(&format!(
            "Forward mode: the result of `{}` for the given arguments, and its tangent for theirs.",
            text(&func.sig.ident)
        ));
        ours! {
            #[doc = #doc]
            #[track_caller]
            #[inline]
            #vis #signature { #owned #body }
        }
    }
}
