//! Second runs of a body, for its trace points: with the feature `trace` only.
//!
//! While points are traced, a companion runs the user's body beside its own code, and returns the
//! results of its own code. So tracing changes no bit of a derivative.

use super::cx::{EmitCx, copy_host};
use super::internal_items::asked;
use crate::input::{Kind, Param, classify};
use crate::report::Errors;
use proc_macro2::TokenStream;
use quote::ToTokens;

#[cfg(test)]
thread_local! {
    /// True while a test expands functions with trace points.
    pub(crate) static IN_TEST: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns whether trace points are emitted. The tests of this crate ask for them.
pub(crate) fn are_emitted() -> bool {
    #[cfg(test)]
    return IN_TEST.get();
    #[cfg(not(test))]
    cfg!(feature = "trace")
}

impl EmitCx<'_> {
    /// Returns whether trace points of this function come from a second run of its body.
    ///
    /// A body that may have side effects runs once only, and so does one with a host value that
    /// cannot be copied.
    fn runs_twice(&self) -> bool {
        let is_known = |param: &&Param| {
            let is_static = matches!(param.kind, Kind::Static { .. }) && !param.by_ref;
            let known = classify(&param.owned, &mut Errors::default());
            !is_static || matches!(known, Kind::Static { .. })
        };
        !self.calls.may_have_side_effects() && self.func.params.iter().all(|p| is_known(&p))
    }

    /// Returns the condition under which a body runs, and only runs once, for its trace points.
    pub(crate) fn also_traced(&self) -> Option<TokenStream> {
        let rt = self.rt;
        (are_emitted() && !self.runs_twice()).then(|| ours!(|| #rt::is_tracing()))
    }

    /// Returns copies of the arguments that a call moves.
    fn copies(&self) -> TokenStream {
        let rt = self.rt;
        let moved = self
            .func
            .params
            .iter()
            .filter(|p| !p.by_ref && p.view.is_none() && !p.receiver);
        let copies = moved.map(|param| {
            let ident = &param.ident;
            let copy = match param.kind {
                Kind::Static { .. } => copy_host(rt, ident),
                Kind::Tensor | Kind::Tree => ours!(#rt::copy(&#ident)),
            };
            ours!(let #ident = #copy;)
        });
        copies.collect()
    }

    /// Returns the statement that computes the result and the pullback by the call `real`, and also
    /// records the body, for its trace points.
    pub(super) fn with_shadow(&self, real: &TokenStream) -> Option<TokenStream> {
        if !are_emitted() || !self.runs_twice() {
            return None;
        }
        let (rt, copies, asked, arguments) = (self.rt, self.copies(), asked(), self.record());
        let (vjp, _) = self.recorders();
        Some(ours! {
            if #rt::is_tracing() {
                let shadow = { #copies #rt::#vjp(likes, &#asked, #arguments) };
                let _suspended = #rt::suspend();
                return #rt::Shadowed::with_shadow(#real, shadow);
            }
        })
    }

    /// Returns the statement that runs the body for its trace points, before a companion that
    /// computes other things.
    pub(crate) fn with_forward_points(&self) -> Option<TokenStream> {
        if !are_emitted() || !self.runs_twice() {
            return None;
        }
        let (rt, copies, user) = (self.rt, self.copies(), self.user_function());
        let args = self.func.params.iter().map(|param| match &param.view {
            Some(view) => view.lend(&param.ident.to_token_stream(), rt),
            None => param.ident.to_token_stream(),
        });
        Some(ours! {
            let _suspended = match #rt::is_tracing() {
                true => {
                    { #copies let _ = #user(#(#args),*); }
                    ::core::option::Option::Some(#rt::suspend())
                }
                false => ::core::option::Option::None,
            };
        })
    }
}
