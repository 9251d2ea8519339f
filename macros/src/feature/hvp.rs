//! Emits the second-order companion: the gradient, and its change along tangents.
//!
//! Forward mode is applied to the macro's own program of the gradient. If that program has calls or
//! control flow, the run time differentiates the reverse-mode companion instead.

use crate::derivative::Wrt;
use crate::emit::annotations::Checks;
use crate::emit::cx::{EmitCx, LoopUse, field, reference};
use crate::emit::internal_items::nested;
use crate::emit::jvp::JvpArguments;
use crate::emit::statements::{Emitter, tangents_ident};
use crate::input::{Func, Kind};
use crate::program::{Body, LoweredProgram, Source};
use gradloom_ir::Var;
use gradloom_ir::ad::{self, Hvp};
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;

/// Returns the second-order program, if it is requested and the body is a straight line of ops.
pub(crate) fn program(func: &Func, low: &LoweredProgram) -> Option<Hvp> {
    let whole_trees = low
        .inputs
        .iter()
        .any(|i| matches!(i.source, Source::Tree { .. }));
    let straight = func.wants_hvp && !whole_trees && !ad::has_calls(&low.program);
    straight.then(|| ad::hvp(&low.program, &Wrt::public().vars(low)))
}

impl EmitCx<'_> {
    /// Returns `hvp`, if it is requested.
    pub(crate) fn hvp_companion(&self, body: &Body, given: &JvpArguments) -> Option<TokenStream> {
        if !self.func.wants_hvp {
            return None;
        }
        Some(match (body.straight(), self.hvp) {
            (Some(low), Some(hvp)) => self.compiled(low, hvp, given),
            _ => self.at_run_time(given),
        })
    }

    /// Returns the public companion around `body`, which evaluates to two structs of gradients.
    fn public_companion(&self, given: &JvpArguments, how: &str, body: TokenStream) -> TokenStream {
        let n = self.names;
        let vis = self.vis();
        let user = &self.func.sig.ident;
        let grads = self.grads_type();
        let pair = ours!((#grads, #grads));
        let returns = self.returns(pair.clone());
        let signature = self.signature(&n.hvp, &given.inputs, &returns);
        let body = self.body(body, &pair);
        let body = self.calls.hvp(&body, &n.grads, &given.tangents);
        let owned = self.owned();
        let doc = self.docs.other(&format!(
            "Second order, forward over reverse: the gradients of the result of `{user}`, a single float, and their change \
             along the tangents, which is the product of the Hessian with them. {how}"
        ));
        ours! {
            #[doc = #doc]
            #[track_caller]
            #[inline]
            #vis #signature { #owned #body }
        }
    }

    fn compiled(&self, low: &LoweredProgram, hvp: &Hvp, given: &JvpArguments) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let vis = self.vis();
        let (hidden, question) = (self.own(&n.internal_hvp), self.question());
        let leaves = &given.leaves;
        let arguments = self.borrowed_args();
        let grads = &n.grads;
        let structs = ["gradient", "change"].map(|local| {
            let local = Ident::new(local, Span::mixed_site());
            let trees = func.diff().filter(|(_, d)| d.kind == Kind::Tree);
            let free = trees.map(|(i, d)| {
                let x = reference(d);
                ours!(let #local = #local.without_frozen(#i, #x);)
            });
            let fields = func.diff().map(|(i, d)| {
                let (field, x) = (field(d), reference(d));
                ours!(#field: #rt::rebuild(#x, &#local, #i))
            });
            ours!({ #(#free)* #grads { #(#fields),* } })
        });
        let recorded = self.run_time_body(given);
        let (traced, forward_points) = (self.also_traced(), self.with_forward_points());
        let body = ours! {
            if #rt::runs_bodies() #traced {
                #recorded
            } else {
                #forward_points
                let given = [#(#leaves),*];
                let (y, (gradient, change)) = #hidden(#(#arguments,)* given)#question;
                #rt::check_single(&y);
                (#(#structs),*)
            }
        };
        let how = "Both are differentiated at compile time.";
        let public = self.public_companion(given, how, body);

        let (out, tangents) = (&func.output.ty, tangents_ident());
        let n_params = func.params.len();
        let mut inputs = self.inputs();
        inputs.push(ours!(#tangents: [#rt::Leaves; #n_params]));
        let pair = ours!((#out, (#rt::LeafCotangents, #rt::LeafCotangents)));
        let returns = self.returns(pair.clone());
        let signature = self.signature(&n.internal_hvp, &inputs, &returns);
        let enter = self.register(&ours!(Self), &[LoopUse::All, LoopUse::Second]);
        let statements = self.statements(low, hvp);
        let statements = ours!(#enter #statements);
        let (statements, tracked) = match Checks::new(func, rt) {
            Some(checks) => (
                checks.wrap_companion(statements, &returns),
                Some(ours!(#[track_caller])),
            ),
            None => (statements, None),
        };
        let statements = self.body(statements, &pair);
        let owned = self.owned();
        ours! {
            #public

            #[doc(hidden)]
            #tracked
            #[inline]
            #vis #signature { #owned #statements }
        }
    }

    /// Returns the statements of the program, and its results as structs of gradients.
    fn statements(&self, low: &LoweredProgram, hvp: &Hvp) -> TokenStream {
        let (rt, func) = (self.rt, self.func);
        let wrt = Wrt::public().vars(low);
        let n_params = low.program.params.len();
        let tangents: Vec<(Var, Var)> = wrt
            .iter()
            .copied()
            .zip(hvp.program.params[n_params..].iter().copied())
            .collect();
        let source = |x: Var| {
            let input = low.inputs.iter().find(|i| i.var == x);
            &input.expect("a differentiated variable is an input").source
        };
        let mut emit = Emitter::new(func, low, rt, self.places, &hvp.program);
        let given = tangents_ident();
        for (x, dx) in &tangents {
            if let Source::Param(i) = source(*x) {
                let (x, dx) = (emit.ident(*x), emit.ident(*dx));
                emit.push(ours!(let #dx = #rt::tangent(&#given[#i], &#x);));
            }
        }

        let [gradient, change] =
            ["gradient", "change"].map(|name| Ident::new(name, Span::mixed_site()));
        let (y, outs) = hvp
            .program
            .outs
            .split_first()
            .expect("the program returns a value");
        let (gradients, changes) = outs.split_at(hvp.active.len());
        let mut changes = changes.iter();
        let nonzero = wrt.iter().zip(&hvp.nonzero).filter(|(_, n)| **n);
        let pairs = nonzero.zip(gradients).zip(&hvp.active);
        let puts = pairs.map(|(((x, _), g), active)| {
            let change_of = active.then(|| changes.next().expect("one change for each active gradient"));
            let parts = [(&gradient, Some(g)), (&change, change_of)];
            let parts = parts.into_iter().filter_map(|(pulled, v)| Some((pulled, v?)));
            let parts = parts.map(|(pulled, v)| {
                let v = emit.ident(*v);
                match source(*x) {
                    Source::Param(i) => ours!(#pulled.add_tensor(#i, &#v);),
                    Source::Leaf { param, .. } => {
                        let at = emit.find(source(*x));
                        ours!(#pulled.add_leaf(#param, &#at, &#v);)
                    }
                    Source::Tree { .. } | Source::Constant => {
                        unreachable!("a part of a tree is read by a call, and a constant is not differentiated")
                    }
                }
            });
            ours!(#(#parts)*)
        });
        let puts: Vec<TokenStream> = puts.collect();
        let y = emit.ident(*y);
        let statements = emit.forward(&tangents);
        let n_params = func.params.len();
        ours! {
            #statements
            let mut #gradient = #rt::LeafCotangents::new(#n_params);
            let mut #change = #rt::LeafCotangents::new(#n_params);
            #(#puts)*
            (#rt::share_tensor(&#y), (#gradient, #change))
        }
    }

    /// Returns a companion that applies the run time's forward mode to the reverse-mode companion.
    fn at_run_time(&self, given: &JvpArguments) -> TokenStream {
        let how = "The first derivative is that of the other companions; the run time differentiates it again.";
        self.public_companion(given, how, self.run_time_body(given))
    }

    fn run_time_body(&self, given: &JvpArguments) -> TokenStream {
        let (n, rt, func) = (self.names, self.rt, self.func);
        let leaves = &given.leaves;
        let tree = Ident::new("tree", Span::mixed_site());
        let question = self.question();
        let diff: Vec<_> = func.diff().collect();
        let parts: Vec<usize> = diff.iter().map(|(i, _)| *i).collect();
        let fwd = self.public_fwd(&self.parts_of(&tree, &parts));
        let trees = diff.iter().enumerate().map(|(k, (i, d))| {
            let (rest, first) = (vec![syn::Index::from(1); k], syn::Index::from(0));
            (*i, *d, ours!(&#tree #(.#rest)* .#first))
        });
        let fwd = self.frozen(ours!(#fwd #question), trees);
        let copies = nested(diff.iter().map(|(_, d)| {
            let x = reference(d);
            ours!(#rt::copy(#x))
        }));
        let tangents = nested(given.tangents.iter().map(|dx| ours!(#rt::copy(#dx))));
        let ty = nested(diff.iter().map(|(_, d)| d.owned.to_token_stream()));
        let part = |of: &Ident, k: usize| {
            let (rest, first) = (vec![syn::Index::from(1); k], syn::Index::from(0));
            ours!(#of #(.#rest)* .#first)
        };
        let gradients = nested(diff.iter().enumerate().map(|(k, (i, _))| {
            let x = part(&tree, k);
            ours!(#rt::rebuild(&#x, &cotangents, #i))
        }));
        let (run, value) = match &func.output.result {
            None => (ours!(trace_jvp), gradients),
            Some(_) => (
                ours!(record_hvp),
                ours!(::core::result::Result::Ok(#gradients)),
            ),
        };
        let closure_returns = self.returns(ty.clone());
        let grads = &n.grads;
        let structs = ["gradient", "change"].map(|local| {
            let local = Ident::new(local, Span::mixed_site());
            let fields = diff.iter().enumerate().map(|(k, (_, d))| {
                let (field, x) = (field(d), part(&local, k));
                ours!(#field: #x)
            });
            ours!(#grads { #(#fields),* })
        });
        ours! {
            // Checks the arguments and tangents first, so that errors name the parameters.
            let _ = [#(#leaves),*];
            let (copies, changes) = (#copies, #tangents);
            let (gradient, change) = #rt::#run(|#tree: &#ty| -> #closure_returns {
                let (_, cotangents) = #rt::gradients(#fwd, |y| y);
                #value
            }, &copies, &changes)#question;
            (#(#structs),*)
        }
    }
}
