//! Emits the companions of a straight line, which is a single block: no slots, and no list of steps.

use super::reverse::{Derived, Pull, pulled};
use super::{FlowCx, ReverseParts, results};
use crate::derivative::Costs;
use crate::emit::residuals::ResidualParts;
use crate::emit::statements::{Emitter, tangents_ident};
use crate::program::Source;
use gradloom_ir::Var;
use proc_macro2::{Ident, TokenStream};

impl FlowCx<'_> {
    /// Returns reverse mode of the only block.
    pub(crate) fn straight_reverse(&self) -> ReverseParts {
        let (low, rt) = (&self.flowing.pieces[0].low, self.rt);
        let Derived {
            vjp,
            builder,
            pull,
            residuals,
        } = self.derive(0);
        let primal = Emitter::new(self.func, low, rt, self.places, &vjp.primal);
        let outs = &vjp.primal.outs[..vjp.n_outs];
        let values = self.results_of(&primal, outs);
        let locals: Vec<Ident> = outs.iter().map(|v| primal.ident(*v)).collect();
        let statements = primal.forward(&[]);
        let ResidualParts {
            mut fields,
            mut inits,
            mut binds,
            elements,
        } = builder.fields();
        // The fields of the results are read through `self`.
        if !binds.is_empty() {
            binds.push(ours!(..));
        }
        let bind = (!binds.is_empty()).then(|| ours!(let Self { #(#binds),* } = self; #elements));
        if let Some((field, value)) = self.results_field(&locals) {
            fields.push(field);
            inits.push(value);
        }
        let pull = pull.map(|pull| match pull {
            Pull::Statements(pull) | Pull::Listing(pull) => pull,
        });
        let (n_params, pulled) = (self.func.params.len(), pulled());
        let pair = self.with_saved(&values, &inits);
        ReverseParts {
            forward: ours! {
                #statements
                #pair
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
        emit.with_lists([]);
        let values = self.results_of(&emit, y);
        let zeros = low.program.outs.iter().map(|v| self.linear(*v)[1].clone());
        let tangents = joint.of_results(dy, zeros, |dy| {
            let local = emit.ident(dy);
            match emit.lists.contains(dy) {
                true => ours!(::core::clone::Clone::clone(&#local)),
                false => ours!(::core::option::Option::Some(#rt::share_tensor(&#local))),
            }
        });
        let locals: Vec<Ident> = y.iter().map(|v| emit.ident(*v)).collect();
        let tangents = self.tangents_of_results(&locals, &tangents);
        let statements = emit.forward(&joint.tangents);
        ours!(#statements (#values, #tangents))
    }

    /// Returns the results in the structure of the function's type.
    fn results_of(&self, emit: &Emitter, outs: &[Var]) -> TokenStream {
        let of = self.flowing.flow.results.iter();
        let mut values = outs
            .iter()
            .zip(of)
            .map(|(v, of)| self.shared(*of, &emit.ident(*v)));
        results(&self.func.output.shape, &mut values)
    }
}
