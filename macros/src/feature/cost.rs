//! Emits the facts known at compile time as constants: the costs of a function.

use crate::emit::cx::EmitCx;
use crate::emit::docs::{word, words};
use crate::emit::flow::ReverseParts;
use crate::emit::names::allow;
use crate::program::Body;
use gradloom_ir::{Cost, Poly};
use proc_macro2::{Literal, TokenStream};

/// Constants of a function other than its derivatives.
pub(crate) struct CostItems {
    /// Associated constants beside the companions.
    pub(crate) constants: TokenStream,
    /// Size methods of the struct of residuals.
    pub(crate) sizes: TokenStream,
}

impl EmitCx<'_> {
    /// Returns the costs and the named values, as far as they are known.
    pub(crate) fn facts(&self, body: &Body, reverse: Option<&ReverseParts>) -> CostItems {
        let costs = reverse.and_then(|r| r.costs.as_ref());
        let points = self.debug_points(body, reverse.map_or(&[], |r| &r.residuals));
        let (rt, n, func) = (self.rt, self.names, self.func);
        let user = &func.sig.ident;
        let vis = self.vis();
        let (cost_name, points_name, saved) = (&n.cost, &n.points, &n.saved);
        let value = match costs {
            None => ours!(#rt::Cost::UNKNOWN),
            Some(costs) => {
                let (value, pullback) = (self.work(&costs.value), self.work(&costs.pullback));
                let saved = self.formula(&costs.saved);
                ours!(#rt::cost(#value, #pullback, #saved))
            }
        };
        let cost_doc = match costs {
            None => format!("Costs of `{user}`, which are not known at compile time."),
            Some(costs) => format!(
                "Costs of `{user}`.\n\n- value: {}\n- pullback: {}\n- saved: {} bytes",
                words(&costs.value),
                words(&costs.pullback),
                word(&costs.saved)
            ),
        };
        let points_doc = format!("The named values of `{user}`.");
        let constants = ours! {
            #[doc = #cost_doc]
            #vis const #cost_name: #rt::Cost = #value;

            #[doc = #points_doc]
            #vis const #points_name: &'static [#rt::Point] = #points;
        };
        let bytes = match costs {
            None => ours!(::core::option::Option::None),
            Some(costs) => self.formula(&costs.saved),
        };
        let (attrs, allow) = (&func.attrs, allow());
        let sizes = ours! {
            #(#attrs)*
            #allow
            impl #saved {
                /// Returns the bytes of the residuals for these lengths of the named dims, if the shapes are known.
                #[inline]
                pub fn bytes_for(dims: &[(&str, u64)]) -> ::core::option::Option<u64> {
                    let bytes: ::core::option::Option<#rt::Formula> = #bytes;
                    bytes?.eval(dims)
                }
            }
        };
        CostItems { constants, sizes }
    }

    fn work(&self, cost: &Cost) -> TokenStream {
        let flops = self.formula(&cost.flops);
        let transcendentals = self.formula(&cost.transcendentals);
        let bytes = self.formula(&cost.bytes);
        ours!([#flops, #transcendentals, #bytes])
    }

    fn formula(&self, poly: &Option<Poly>) -> TokenStream {
        let rt = self.rt;
        let Some(poly) = poly else {
            return ours!(::core::option::Option::None);
        };
        let terms = poly.terms().iter().map(|term| {
            let coefficient = Literal::i128_unsuffixed(term.coefficient);
            let dims = term.names.iter().map(|name| name.as_str());
            ours!(#rt::term(#coefficient, &[#(#dims),*]))
        });
        ours!(#rt::formula(&[#(#terms),*]))
    }
}
