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
    /// Returns the condition under which trace points of this function come from a second run of its body, or `None` if
    /// they never do.
    ///
    /// A body that may have side effects runs once only, and so does one with an argument that
    /// cannot be copied.
    fn runs_twice(&self) -> Option<TokenStream> {
        let copied = |(i, param): (usize, &Param)| {
            let known = classify(&param.owned, &mut Errors::default());
            param.by_ref
                || match param.kind {
                    Kind::Static { .. } => matches!(known, Kind::Static { .. }) && !param.receiver,
                    Kind::Tensor | Kind::Tree => !param.receiver || self.asked_for.contains(&i),
                }
        };
        if !self.func.params.iter().enumerate().all(copied) {
            return None;
        }
        let own = self.calls.has_no_effects()?;
        let own = (!own.is_empty()).then(|| ours!(&& #own));
        let callees = self.is_pure();
        Some(ours!(#callees #own))
    }

    /// Returns the condition under which a body runs, and only runs once, for its trace points.
    pub(crate) fn also_traced(&self) -> Option<TokenStream> {
        let rt = self.rt;
        if !are_emitted() {
            return None;
        }
        let once = self.runs_twice().map(|twice| ours!(&& !(#twice)));
        Some(ours!(|| #rt::is_tracing() #once))
    }

    /// Returns the condition under which a body also runs for its trace points.
    fn traces_twice(&self) -> Option<TokenStream> {
        if !are_emitted() {
            return None;
        }
        let rt = self.rt;
        let twice = self.runs_twice()?;
        Some(ours!(#rt::is_tracing() && #twice))
    }

    /// Returns a copy of an argument that a call moves.
    fn copy_of(&self, param: &Param) -> TokenStream {
        let (rt, ident) = (self.rt, &param.ident);
        match param.kind {
            Kind::Static { .. } => copy_host(rt, ident),
            Kind::Tensor | Kind::Tree => ours!(#rt::copy(&#ident)),
        }
    }

    /// Returns the statements that rebind the arguments that a call moves to copies.
    fn copies(&self) -> TokenStream {
        let moved = |p: &&Param| !p.by_ref && p.view.is_none() && !p.receiver;
        let copies = self.func.params.iter().filter(moved).map(|param| {
            let (ident, copy) = (&param.ident, self.copy_of(param));
            ours!(let #ident = #copy;)
        });
        copies.collect()
    }

    /// Returns the statement that computes the result and the pullback by the call `real`, and also
    /// records the body, for its trace points.
    pub(super) fn with_shadow(&self, real: &TokenStream) -> Option<TokenStream> {
        let condition = self.traces_twice()?;
        let (rt, copies, asked, arguments) = (self.rt, self.copies(), asked(), self.record());
        let (vjp, _) = self.recorders();
        Some(ours! {
            if #condition {
                let shadow = { #copies #rt::#vjp(likes, &#asked, #arguments) };
                let _suspended = #rt::suspend();
                return #rt::Shadowed::with_shadow(#real, shadow);
            }
        })
    }

    /// Returns the statement that runs the body for its trace points, before a companion that
    /// computes other things.
    pub(crate) fn with_forward_points(&self) -> Option<TokenStream> {
        let condition = self.traces_twice()?;
        let (rt, user) = (self.rt, self.user_function());
        let args = self.func.params.iter().map(|param| match &param.view {
            Some(view) => view.lend(&param.ident.to_token_stream(), rt),
            None if param.by_ref => param.ident.to_token_stream(),
            None => self.copy_of(param),
        });
        Some(ours! {
            let _suspended = match #condition {
                true => {
                    let _ = #user(#(#args),*);
                    ::core::option::Option::Some(#rt::suspend())
                }
                false => ::core::option::Option::None,
            };
        })
    }
}
