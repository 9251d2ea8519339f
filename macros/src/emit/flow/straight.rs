//! Emits the companions of a straight line, which is a single block: no slots, and no list of steps.

use super::reverse::{Derived, Pull, pulled};
use super::{FlowCx, ReverseParts, results};
use crate::derivative::Costs;
use crate::emit::residuals::ResidualParts;
use crate::emit::statements::{Emitter, tangents_ident};
use crate::program::Source;
use gradloom_ir::Var;
use proc_macro2::TokenStream;

impl FlowCx<'_> {
    /// Returns reverse mode of the only block.
    pub(crate) fn straight_reverse(&self) -> ReverseParts {
        let (low, rt, saved) = (&self.flowing.pieces[0].low, self.rt, self.saved);
        let Derived {
            vjp,
            builder,
            pull,
            residuals,
        } = self.derive(0);
        let primal = Emitter::new(self.func, low, rt, self.places, &vjp.primal);
        let values = self.results_of(&primal, &vjp.primal.outs[..vjp.n_outs]);
        let statements = primal.forward(&[]);
        let ResidualParts {
            fields,
            inits,
            binds,
            elements,
        } = builder.fields();
        let bind = (!binds.is_empty()).then(|| ours!(let Self { #(#binds),* } = self; #elements));
        let pull = pull.map(|pull| match pull {
            Pull::Statements(pull) | Pull::Listing(pull) => pull,
        });
        let (n_params, pulled) = (self.func.params.len(), pulled());
        ReverseParts {
            forward: ours! {
                #statements
                let saved = #saved { #(#inits),* };
                (#values, saved)
            },
            fields,
            pull: ours! {
                #bind
                let mut #pulled = #rt::LeafCotangents::new(#n_params);
                #pull
                #pulled
            },
            costs: Some(Costs::new(&low.program, &vjp)),
            residuals,
        }
    }

    /// Returns the statements and the value of forward mode.
    pub(crate) fn straight_jvp(&self) -> TokenStream {
        let (low, rt) = (&self.flowing.pieces[0].low, self.rt);
        let joint = self.joint(0);
        let mut emit = Emitter::new(self.func, low, rt, self.places, &joint.program);
        let given = tangents_ident();
        for (x, dx) in &joint.tangents {
            if let Some(Source::Param(i)) = low.input(*x).map(|input| &input.source) {
                let (x, dx) = (emit.ident(*x), emit.ident(*dx));
                emit.push(ours!(let #dx = #rt::tangent(&#given[#i], &#x);));
            }
        }
        let (y, dy) = joint.program.outs.split_at(low.program.outs.len());
        let values = self.results_of(&emit, y);
        let tangents = joint.of_results(dy, |dy| {
            let dy = emit.ident(dy);
            ours!(::core::option::Option::Some(#rt::share_tensor(&#dy)))
        });
        let statements = emit.forward(&joint.tangents);
        ours!(#statements (#values, #rt::leaves([#(#tangents),*])))
    }

    /// Returns the results in the structure of the function's type.
    fn results_of(&self, emit: &Emitter, outs: &[Var]) -> TokenStream {
        let rt = self.rt;
        let mut values = outs.iter().map(|v| {
            let y = emit.ident(*v);
            ours!(#rt::share_tensor(&#y))
        });
        results(&self.func.output.shape, &mut values)
    }
}
