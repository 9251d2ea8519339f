//! Emits the struct that holds the gradients of a function, and the companions that return it.

use super::cx::{EmitCx, field, reference};
use super::internal_items::nested;
use super::names::allow;
use crate::input::{Kind, OutShape, text};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident};
use syn::Type;

impl EmitCx<'_> {
    /// Returns `grad` and `value_and_grad`.
    pub(crate) fn grad_functions(&self, vis: &TokenStream, checks: &TokenStream) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let user = text(&func.sig.ident);
        let out = &func.output.ty;
        let inputs = self.inputs();
        let grads_ty = self.grads_type();
        let (fwd, question) = (self.public_fwd(&self.borrowed_args()), self.question());
        let fields = func.diff().map(|(i, d)| {
            let x = reference(d);
            ours!(#rt::rebuild(#x, &cts, #i))
        });
        let returns = self.returns(ours!((#out, #grads_ty)));
        let fields = nested(fields);
        let types = nested(func.diff().map(|(_, d)| d.owned.to_token_stream()));
        let pair = ours!((#out, #types));
        let trees = func.diff().map(|(i, d)| (i, d, reference(d)));
        let fwd = self.frozen(ours!(#fwd #question), trees);
        let (loss, of_loss) = match func.output.shape {
            OutShape::Tensor => (ours!(y), "a single float"),
            _ => (ours!(&y.0), "whose first part is a single float"),
        };
        let both_signature = self.signature(&n.value_and_grad, &inputs, &returns);
        let statements = ours! {
            #checks
            let (y, cts) = #rt::gradients(#fwd, |y| #loss);
        };
        let steps = self.steps(statements, ours!((y, #fields)), &pair);
        let both = self.calls.gradients(&steps, &n.grads);
        let owned = self.owned();
        let grad_returns = self.returns(grads_ty);
        let grad_signature = self.signature(&n.grad, &inputs, &grad_returns);
        let value_and_grad = self.own(&n.value_and_grad);
        let receiver = func.params.iter().find(|p| p.receiver).map(|p| &p.ident);
        let all = receiver.into_iter().chain(self.arguments());
        let take = match func.output.result {
            None => ours!(#value_and_grad(#(#all),*).1),
            Some(_) => ours!(::core::result::Result::Ok(#value_and_grad(#(#all),*)?.1)),
        };
        let both_doc = self.docs.reverse(&format!(
            "The result of `{user}`, {of_loss}, and its gradients."
        ));
        let grad_doc = self.docs.reverse(&format!(
            "The gradients of the result of `{user}`, {of_loss}."
        ));
        ours! {
            #[doc = #both_doc]
            #[track_caller]
            #[inline]
            #vis #both_signature { #owned #both }

            #[doc = #grad_doc]
            #[track_caller]
            #[inline]
            #vis #grad_signature { #take }
        }
    }

    /// Returns a type parameter for each field whose type needs generic arguments or lifetimes.
    fn generic_fields(&self) -> Vec<Option<Ident>> {
        let owner = self.func.owner.iter().flat_map(|o| &o.generics.params);
        let generic = owner.chain(&self.func.sig.generics.params).next().is_some();
        let fields = self.func.diff().enumerate().map(|(k, (_, p))| {
            let lifetime = text(&p.owned).contains('\'');
            ((generic || lifetime) && p.kind == Kind::Tree).then(|| format_ident!("T{k}"))
        });
        fields.collect()
    }

    /// Returns the type of the struct, with its generic arguments.
    pub(crate) fn grads_type(&self) -> TokenStream {
        let grads = &self.names.grads;
        let generic = self.generic_fields();
        let types: Vec<&Type> = self
            .diff()
            .into_iter()
            .zip(&generic)
            .filter(|(_, g)| g.is_some())
            .map(|(d, _)| &d.owned)
            .collect();
        if types.is_empty() {
            ours!(#grads)
        } else {
            ours!(#grads<#(#types),*>)
        }
    }

    /// Returns the struct of gradients, or `None` if the result does not start with a tensor or no
    /// parameter is differentiated.
    ///
    /// It is `Tree`, `Clone` and `Debug` if its fields are.
    pub(crate) fn grads_struct(&self) -> Option<TokenStream> {
        if !self.func.output.shape.starts_with_tensor() || !self.func.has_derivative() {
            return None;
        }
        let (vis, grads, allow, attrs) =
            (&self.func.vis, &self.names.grads, allow(), &self.func.attrs);
        let generic = self.generic_fields();
        let params: Vec<&Ident> = generic.iter().flatten().collect();
        let (declared, params) = match params.is_empty() {
            true => Default::default(),
            false => (ours!(<#(#params),*>), ours!([#(#params),*])),
        };
        let diff = self.diff();
        let types = diff.iter().zip(&generic).map(|(d, generic)| {
            let written = d.owned.to_token_stream();
            generic.as_ref().map_or(written, ToTokens::to_token_stream)
        });
        let types: Vec<TokenStream> = types.collect();
        let fields: Vec<Ident> = diff.iter().map(|d| field(d)).collect();
        let docs = diff
            .iter()
            .map(|d| format!("The gradient with respect to `{}`.", d.shown_name()));
        let doc = format!("The gradients of `{}`.", self.func.sig.ident);
        let rt = self.rt;
        // The constant keeps the macro out of an impl block, if the user's function is in one that is
        // not traced.
        Some(ours! {
            #(#attrs)*
            #allow
            #[doc = #doc]
            #vis struct #grads #declared { #(#[doc = #docs] pub #fields: #types),* }

            const _: () = {
                #rt::grads! { #(#attrs)* #allow #grads #params { #(#fields: #types),* } }
            };
        })
    }
}
