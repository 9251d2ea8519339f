//! Emits the companion that applies the function to each lane of its arguments.

use super::cached_call::Companion;
use super::cx::{EmitCx, Steps, reference};
use crate::input::{Param, text};
use proc_macro2::{Ident, Span, TokenStream};

impl EmitCx<'_> {
    /// Returns `vmap`.
    pub(crate) fn vmap(&self) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let (vis, owned, out) = (self.vis(), self.owned(), &func.output.ty);
        let axes = in_axes();
        let receivers = func.params.iter().filter(|p| p.receiver).count();
        let mut inputs = self.inputs();
        let any_axes = ours!(#axes: impl ::core::convert::Into<#rt::VmapAxes>);
        inputs.insert(receivers, any_axes);
        let signature = self.signature(&n.vmap, &inputs, &self.returns(ours!(#out)));

        let mapped = func.params.iter().enumerate();
        let mapped: Vec<(usize, &Param)> = mapped.filter(|(_, p)| p.has_lanes()).collect();
        let names: Vec<&str> = mapped.iter().map(|(_, p)| p.shown_name()).collect();
        let given = mapped.iter().map(|(_, p)| {
            let (name, x) = (p.shown_name(), reference(p));
            ours!(#name #x)
        });
        let positions: Vec<usize> = mapped.iter().map(|(i, _)| *i).collect();
        let lane = Ident::new("lane", Span::mixed_site());
        let (user, arguments) = (self.user_function(), self.parts_of(&lane, &positions));
        let run = match &func.output.result {
            None => ours!(vmap),
            Some(_) => ours!(vmap_as),
        };
        let value = ours! {
            #rt::#run(&#axes, #rt::lanes![#(#given),*], |#lane| #user(#(#arguments),*))
        };
        let steps = Steps {
            statements: TokenStream::new(),
            value,
        };
        let body = self.calls.results(Companion::Lanes, 1, &steps, &[]);
        let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let several = match listed.len() {
            1 => "",
            _ => ", in a tuple, or one for all",
        };
        let doc = self.docs.other(&format!(
            "The results of `{}` for many examples, the lanes, along axis 0. `in_axes` has the axis of the lanes in \
             {}{several}. All lanes share a value with `None`. `VmapAxes` has the axes of results and the number of lanes too.",
            text(&func.sig.ident),
            listed.join(", "),
        ));
        ours! {
            #[doc = #doc]
            #[track_caller]
            #[inline]
            #vis #signature {
                let #axes: #rt::VmapAxes = ::core::convert::Into::into(#axes);
                #owned
                #body
            }
        }
    }
}

/// Returns the parameter with the axes of the lanes.
pub(crate) fn in_axes() -> Ident {
    Ident::new("in_axes", Span::mixed_site())
}
