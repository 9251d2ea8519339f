//! Emits reverse mode of a straight-line function: its residuals, and the body of `pull`.

use super::results;
use crate::emit::program_text::Places;
use crate::emit::residuals::{Field, ResidualBuilder, ResidualParts};
use crate::emit::statements::Emitter;
use crate::input::Func;
use crate::program::{LoweredProgram, Source};
use gradloom_ir::{Program, Var, ad};
use proc_macro2::{Ident, Span, TokenStream};

/// Returns the statements and the value of `forward`, the fields of the struct of residuals, and
/// the body of `pull`.
///
/// `vjp` is taken with respect to `wrt`.
pub(crate) fn reverse(
    func: &Func,
    low: &LoweredProgram,
    rt: &TokenStream,
    places: &Places,
    saved: &Ident,
    vjp: &ad::Vjp,
    wrt: &[Var],
) -> (TokenStream, Vec<Field>, TokenStream) {
    let primal = Emitter::new(func, low, rt, places, &vjp.primal);
    let pullback = Emitter::new(func, low, rt, places, &vjp.pullback);
    let outs = &vjp.primal.outs[..vjp.n_outs];
    let mut builder = ResidualBuilder::new(vjp, low, rt, &primal, &pullback);
    // Results that depend on a parameter. If there are several, the caller may omit the cotangent
    // of one, which is zero.
    let active: Vec<usize> = (0..vjp.n_outs).filter(|i| vjp.active[*i]).collect();
    let zeros = active.iter().filter(|_| vjp.n_outs > 1);
    let zeros = zeros.map(|&i| builder.result(i, primal.ident(outs[i])));
    let zeros = zeros.collect();
    let puts = cotangent_sinks(low, vjp, wrt, &primal, &mut builder);
    let pull = PullbackCx {
        func,
        low,
        rt,
        places,
        vjp,
        active,
        zeros,
        avals: std::mem::take(&mut builder.avals),
        puts,
    };
    let pull = pull.body();

    let mut values = outs.iter().map(|v| {
        let y = primal.ident(*v);
        ours!(#rt::own(&#y))
    });
    let values = results(&func.output.shape, &mut values);
    let ResidualParts {
        fields,
        inits,
        binds,
        elements,
    } = builder.fields();
    let statements = primal.forward(&[]);
    let forward = ours! {
        #statements
        let saved = #saved { #(#inits),* };
        (#values, saved)
    };
    let pattern = match binds.is_empty() {
        true => TokenStream::new(),
        false => ours!(let Self { #(#binds),* } = self; #elements),
    };
    let (n_params, pulled) = (func.params.len(), pulled());
    let pull = ours! {
        #pattern
        let mut #pulled = #rt::Pulled::new(#n_params);
        #pull
        #pulled
    };
    (forward, fields, pull)
}

/// Returns the local that accumulates the cotangents of the arguments.
fn pulled() -> Ident {
    Ident::new("pulled", Span::mixed_site())
}

/// Statement that adds a cotangent to those of a parameter.
type CotangentSink = Box<dyn Fn(&Ident) -> TokenStream>;

/// Returns the destinations of the cotangents that are not always zero.
///
/// A tensor parameter has one cotangent, a tree has one for each leaf.
fn cotangent_sinks(
    low: &LoweredProgram,
    vjp: &ad::Vjp,
    wrt: &[Var],
    primal: &Emitter,
    builder: &mut ResidualBuilder<'_>,
) -> Vec<CotangentSink> {
    let nonzero = wrt.iter().zip(&vjp.nonzero).filter(|(_, n)| **n);
    let puts = nonzero.map(|(&var, _)| -> CotangentSink {
        let input = low.inputs.iter().find(|i| i.var == var);
        let input = input.expect("a differentiated variable is an input");
        let pulled = pulled();
        let (param, put) = match &input.source {
            Source::Param(i) => {
                let i = *i;
                return Box::new(move |ct| ours!(#pulled.add_tensor(#i, &#ct);));
            }
            Source::Leaf { param, .. } => (*param, ours!(add_leaf)),
            Source::Tree { param, .. } => (*param, ours!(add_tree)),
            Source::Constant => unreachable!("a constant is not differentiated"),
        };
        let field = builder.at(var, &input.source, primal);
        Box::new(move |ct| ours!(#pulled.#put(#param, #field, &#ct);))
    });
    puts.collect()
}

/// Context for emitting the statements of a pullback.
struct PullbackCx<'a> {
    func: &'a Func,
    low: &'a LoweredProgram,
    rt: &'a TokenStream,
    places: &'a Places,
    vjp: &'a ad::Vjp,
    /// Results whose cotangents it reads.
    active: Vec<usize>,
    /// Locals with the avals of these results, if a cotangent may be missing.
    zeros: Vec<Ident>,
    /// Variables of which the code has only the aval, with the locals that hold it.
    avals: Vec<(Var, Ident)>,
    /// Destination of each cotangent that the pullback computes.
    puts: Vec<CotangentSink>,
}

impl PullbackCx<'_> {
    /// Returns the body of the pullback.
    ///
    /// A pullback is linear: if a cotangent is missing, the result is the sum over those that are
    /// given.
    fn body(&self) -> TokenStream {
        let (rt, active, given) = (self.rt, &self.active, given());
        let all = vec![true; self.puts.len()];
        let whole = self.statements(&self.vjp.pullback, &all, |k, ct| {
            active.get(k).map(|i| self.cotangent(ct, *i))
        });
        if active.len() < 2 {
            return whole;
        }
        let parts = active.iter().enumerate().map(|(k, i)| {
            let part = self.single_cotangent(k);
            ours!(if #rt::is_given(#given, #i) { #part })
        });
        ours!(if #(#rt::is_given(#given, #active))&&* { #whole } else { #(#parts)* })
    }

    /// Returns the statements for the `k`-th cotangent alone.
    fn single_cotangent(&self, k: usize) -> TokenStream {
        let rt = self.rt;
        let cts = self.cotangents();
        let others = cts.iter().enumerate().filter(|(j, _)| *j != k);
        let missing: Vec<Var> = others.map(|(_, v)| *v).collect();
        let n_residuals = self.vjp.pullback.params.len() - cts.len();
        let part = ad::with_zeros(&self.vjp.pullback, n_residuals, &missing);
        self.statements(&part.program, &part.nonzero, |j, ct| {
            Some(match j == k {
                true => self.cotangent(ct, self.active[j]),
                false => {
                    let zero = &self.zeros[j];
                    ours!(let #ct = #rt::zeros(#zero);)
                }
            })
        })
    }

    /// Returns the statements of the pullback or of a part of it; `bind` binds the cotangents of
    /// the results.
    fn statements(
        &self,
        program: &Program,
        nonzero: &[bool],
        bind: impl Fn(usize, &Ident) -> Option<TokenStream>,
    ) -> TokenStream {
        let mut emit = Emitter::new(self.func, self.low, self.rt, self.places, program);
        for (var, local) in &self.avals {
            emit.only_aval(*var, local.clone());
        }
        for (k, ct) in self.cotangents().iter().enumerate() {
            let ct = emit.ident(*ct);
            emit.push(bind(k, &ct).unwrap_or_default());
        }
        let puts = self.puts.iter().zip(nonzero).filter(|(_, n)| **n);
        let puts = puts
            .zip(&program.outs)
            .map(|((put, _), ct)| put(&emit.ident(*ct)));
        let puts: Vec<TokenStream> = puts.collect();
        let statements = emit.pullback();
        ours!(#statements #(#puts)*)
    }

    /// Returns the parameters of the pullback after the residuals.
    fn cotangents(&self) -> &[Var] {
        let n_residuals = self.vjp.primal.outs.len() - self.vjp.n_outs;
        &self.vjp.pullback.params[n_residuals..]
    }

    fn cotangent(&self, ct: &Ident, i: usize) -> TokenStream {
        let (rt, given) = (self.rt, given());
        ours!(let #ct = #rt::cotangent(#given, #i);)
    }
}

/// Returns the local with the cotangents of the results.
fn given() -> Ident {
    Ident::new("cotangents", Span::mixed_site())
}
