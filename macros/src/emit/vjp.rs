//! Emits the reverse-mode companion, which returns the result and its pullback.

use super::cx::{EmitCx, group, reference};
use crate::input::text;
use proc_macro2::{Literal, TokenStream};
use quote::ToTokens;

impl EmitCx<'_> {
    /// Returns `vjp`; `checks` precede its body.
    pub(crate) fn vjp(&self, checks: &TokenStream) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let vis = self.vis();
        let out = &func.output.ty;
        let diff = self.diff();
        let owned: Vec<TokenStream> = diff.iter().map(|d| d.owned.to_token_stream()).collect();
        let (cotangents, captures) = (group(&owned), self.captures());
        let pair = ours!((#out, impl ::core::ops::Fn(&#out) -> #cotangents + #captures));
        let signature = self.signature(&n.vjp, &self.inputs(), &self.returns(pair));

        // The pullback returns trees with the structure of the arguments.
        let structures: Vec<TokenStream> = diff
            .iter()
            .map(|d| {
                let x = reference(d);
                ours!(#rt::structure(#x))
            })
            .collect();
        let structures = group(&structures);
        let like = |k: usize| {
            let k = (diff.len() > 1).then(|| syn::Index::from(k)).into_iter();
            ours!(&like #(.#k)*)
        };
        let likes = func.diff().enumerate().map(|(k, (i, _))| {
            let (like, i) = (like(k), Literal::usize_unsuffixed(i));
            ours!(#i #like)
        });
        // The type of the closure cannot be written, so a `catch` around the whole body is not
        // possible.
        let checked = match &func.output.result {
            None => checks.clone(),
            Some(_) => ours!(#rt::catch(|| { #checks ::core::result::Result::Ok(()) })?;),
        };
        let (fwd, question) = (self.public_fwd(&self.forwarded()), self.question());
        let companion = match &func.owner {
            None => format!("{}::{}", text(&func.sig.ident), n.vjp),
            Some(_) => n.vjp.to_string(),
        };
        let pullback = ours!(#rt::pullback!(#companion, pull: &#out, #(#likes),*));
        let result = self.calls.ok(ours!((y, #pullback)));
        let owned_forms = self.owned();
        let trees = func.diff().enumerate();
        let trees = trees.map(|(k, (i, d))| (i, d, like(k)));
        let forward = self.frozen(ours!(#fwd #question), trees);
        let run = self.calls.pullback(&checked, &forward);
        let doc = self.docs.reverse(&format!(
            "Reverse mode: the result of `{}`, and the pullback from its cotangent to those of its arguments.",
            text(&func.sig.ident)
        ));
        ours! {
            #[doc = #doc]
            #[track_caller]
            #[inline]
            #vis #signature {
                #owned_forms
                let like = #structures;
                #run
                #result
            }
        }
    }
}
