//! Emits the facts known at compile time as constants: the costs of a function.

use crate::emit::cx::EmitCx;
use crate::emit::docs::{word, words};
use crate::emit::flow::ReverseParts;
use crate::program::Body;
use gradloom_ir::Cost;
use proc_macro2::TokenStream;

impl EmitCx<'_> {
    /// Returns the costs and the named values, as far as they are known.
    pub(crate) fn facts(&self, body: &Body, reverse: Option<&ReverseParts>) -> TokenStream {
        let costs = reverse.and_then(|r| r.costs.as_ref());
        let points = self.debug_points(body, reverse.map_or(&[], |r| &r.residuals));
        let (rt, n, func) = (self.rt, self.names, self.func);
        let user = &func.sig.ident;
        let vis = self.vis();
        let (cost_name, points_name) = (&n.cost, &n.points);
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
        ours! {
            #[doc = #cost_doc]
            #vis const #cost_name: #rt::Cost = #value;

            #[doc = #points_doc]
            #vis const #points_name: &'static [#rt::Point] = #points;
        }
    }

    fn work(&self, cost: &Cost) -> TokenStream {
        let flops = self.formula(&cost.flops);
        let transcendentals = self.formula(&cost.transcendentals);
        let bytes = self.formula(&cost.bytes);
        ours!([#flops, #transcendentals, #bytes])
    }
}
