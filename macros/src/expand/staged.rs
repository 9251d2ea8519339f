//! The bodies of the companions of a straight-line function, and its struct of residuals.

use super::cost::Costs;
use super::emit::{Emit, tangents_ident};
use super::kept::{Field, Kept, Made};
use crate::lower::{Lowered, Source};
use crate::parse::{Func, OutShape};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Program, Var, pass};
use proc_macro2::{Ident, Span, TokenStream};

/// The pieces that the companions are put together from.
pub(super) struct Staged {
    /// The statements and the value of `forward`: `(results, residuals)`.
    pub(super) forward: TokenStream,
    /// The fields of the struct of residuals.
    pub(super) fields: Vec<Field>,
    /// The body of `pull`.
    pub(super) pull: TokenStream,
    /// The statements and the value of the forward-mode companion: `(results, tangents)`.
    pub(super) jvp: TokenStream,
    /// Whether the forward-mode companion needs the tangents of all arguments.
    pub(super) needs_all: bool,
    /// Types that the residuals are made of.
    pub(super) items: TokenStream,
    /// What it costs, where that does not depend on how control flows.
    pub(super) costs: Option<Costs>,
    /// The variables whose values are residuals.
    pub(super) kept: Vec<Var>,
}

/// What the passes make of a function, each under its name, for people.
pub(crate) fn programs(low: &Lowered) -> Vec<(&'static str, Program)> {
    let wrt = wrt(low);
    let vjp = ad::vjp(&low.program, &wrt);
    let jvp = pass::dce(pass::cse(ad::jvp(&low.program, &wrt, Calls::Joint).program));
    vec![
        ("lowered", low.program.clone()),
        ("cse, dce", pass::cse(pass::dce(low.program.clone()))),
        ("jvp", jvp),
        ("vjp: primal", vjp.primal),
        ("vjp: pullback", vjp.pullback),
    ]
}

/// The variables that derivatives are taken with respect to.
pub(super) fn wrt(low: &Lowered) -> Vec<Var> {
    low.inputs
        .iter()
        .filter(|i| i.diff)
        .map(|i| i.var)
        .collect()
}

pub(super) fn staged(func: &Func, low: &Lowered, private: &TokenStream, saved: &Ident) -> Staged {
    let vjp = ad::vjp(&low.program, &wrt(low));
    let (forward, fields, pull) = reverse(func, low, private, saved, &vjp);
    Staged {
        forward,
        fields,
        pull,
        jvp: jvp(func, low, private),
        needs_all: true,
        items: TokenStream::new(),
        costs: Some(Costs::new(&low.program, &vjp)),
        kept: super::cost::kept(&low.program, &vjp),
    }
}

/// The results of a function in the structure of its type.
pub(super) fn results(
    shape: &OutShape,
    outs: &mut impl Iterator<Item = TokenStream>,
) -> TokenStream {
    match shape {
        OutShape::Tuple(parts) => {
            let parts = parts.iter().map(|p| results(p, outs));
            ours!((#(#parts,)*))
        }
        _ => outs.next().expect("as many results as leaves"),
    }
}

/// The statement that adds a cotangent to those of a parameter.
type Put = Box<dyn Fn(&Ident) -> TokenStream>;

fn reverse(
    func: &Func,
    low: &Lowered,
    p: &TokenStream,
    saved: &Ident,
    vjp: &ad::Vjp,
) -> (TokenStream, Vec<Field>, TokenStream) {
    let wrt = wrt(low);
    let primal = Emit::new(func, low, p, &vjp.primal);
    let pullback = Emit::new(func, low, p, &vjp.pullback);
    let (outs, residuals) = vjp.primal.outs.split_at(vjp.n_outs);
    let cts = &vjp.pullback.params[residuals.len()..];
    let mut kept = Kept::new(vjp, low, p, &primal, &pullback);

    // The cotangents of the results that depend on a parameter. Of several, one may be missing: it is zero.
    let given = Ident::new("cotangents", Span::mixed_site());
    let active: Vec<usize> = (0..vjp.n_outs).filter(|i| vjp.active[*i]).collect();
    let mut zeros = Vec::new();
    for &i in active.iter().filter(|_| vjp.n_outs > 1) {
        let y = primal.ident(outs[i]);
        let doc = format!("The dtype and the shape of result {i}.");
        let value = ours!(::core::clone::Clone::clone(#y.aval()));
        let name = format!("result_{i}_like");
        zeros.push(kept.add(&name, ours!(#p::Aval), doc, value, None));
    }

    // Where the cotangents go: a tensor parameter has one, a tree has one for each leaf.
    let pulled = Ident::new("pulled", Span::mixed_site());
    let mut puts: Vec<Put> = Vec::new();
    let nonzero = wrt
        .iter()
        .zip(&vjp.nonzero)
        .filter(|(_, nonzero)| **nonzero);
    for (&var, _) in nonzero {
        let input = low.inputs.iter().find(|i| i.var == var);
        let input = input.expect("a differentiated variable is an input");
        let (param, put) = match &input.source {
            Source::Param(i) => {
                let (i, pulled) = (*i, pulled.clone());
                puts.push(Box::new(move |ct| ours!(#pulled.add_tensor(#i, &#ct);)));
                continue;
            }
            Source::Leaf { param, .. } => (*param, ours!(add_leaf)),
            Source::Tree { param, .. } => (*param, ours!(add_tree)),
            Source::Constant => unreachable!("a constant is not differentiated"),
        };
        let field = kept.at(var, &input.source, &primal);
        let pulled = pulled.clone();
        puts.push(Box::new(
            move |ct| ours!(#pulled.#put(#param, #field, &#ct);),
        ));
    }

    let mut values = outs.iter().map(|v| {
        let y = primal.ident(*v);
        ours!(#p::own(&#y))
    });
    let values = results(&func.output.shape, &mut values);
    let avals = std::mem::take(&mut kept.avals);
    let Made {
        fields,
        inits,
        binds,
        elements,
    } = kept.finish();
    let statements = primal.forward(&[]);
    let forward = ours! {
        #statements
        let saved = #saved { #(#inits),* };
        (#values, saved)
    };

    // The statements of the pullback, or of a part of it.
    let statements =
        |program: &Program, nonzero: &[bool], bind: &dyn Fn(usize, &Ident) -> TokenStream| {
            let mut emit = Emit::new(func, low, p, program);
            for (var, local) in &avals {
                emit.only_aval(*var, local.clone());
            }
            for (k, ct) in cts.iter().enumerate() {
                let ct = emit.ident(*ct);
                emit.push(bind(k, &ct));
            }
            let mut found = program
                .outs
                .iter()
                .map(|ct| emit.ident(*ct))
                .collect::<Vec<_>>()
                .into_iter();
            let puts = puts.iter().zip(nonzero).filter(|(_, nonzero)| **nonzero);
            let puts: Vec<TokenStream> = puts
                .map(|(put, _)| put(&found.next().expect("one for each")))
                .collect();
            let statements = emit.pullback();
            ours!(#statements #(#puts)*)
        };
    let all = vec![true; puts.len()];
    let whole = statements(&vjp.pullback, &all, &|k, ct| match active.get(k) {
        Some(i) => ours!(let #ct = #p::cotangent(#given, #i);),
        None => TokenStream::new(),
    });
    // A pullback is linear: with a cotangent missing, it is the sum over those that are given.
    let parts = active
        .iter()
        .enumerate()
        .filter(|_| active.len() > 1)
        .map(|(k, i)| {
            let missing: Vec<Var> = cts
                .iter()
                .enumerate()
                .filter(|(j, _)| *j != k)
                .map(|(_, v)| *v)
                .collect();
            let part = ad::with_zeros(&vjp.pullback, residuals.len(), &missing);
            let part = statements(&part.program, &part.nonzero, &|j, ct| {
                let (zero, i) = (&zeros[j], active[j]);
                match j == k {
                    true => ours!(let #ct = #p::cotangent(#given, #i);),
                    false => ours!(let #ct = #p::zeros(#zero);),
                }
            });
            ours!(if #p::is_given(#given, #i) { #part })
        });
    let parts: Vec<TokenStream> = parts.collect();
    let whole = match parts.is_empty() {
        true => whole,
        false => ours!(if #(#p::is_given(#given, #active))&&* { #whole } else { #(#parts)* }),
    };

    let pattern = match binds.is_empty() {
        true => TokenStream::new(),
        false => ours!(let Self { #(#binds),* } = self; #elements),
    };
    let n_params = func.params.len();
    let pull = ours! {
        #pattern
        let mut #pulled = #p::Pulled::new(#n_params);
        #whole
        #pulled
    };
    (forward, fields, pull)
}

fn jvp(func: &Func, low: &Lowered, p: &TokenStream) -> TokenStream {
    let wrt = wrt(low);
    let joint = ad::jvp(&low.program, &wrt, Calls::Joint);
    let program = pass::dce(pass::cse(joint.program));
    let n_params = low.program.params.len();
    let tangents: Vec<(Var, Var)> = wrt
        .iter()
        .copied()
        .zip(program.params[n_params..].iter().copied())
        .collect();
    let mut emit = Emit::new(func, low, p, &program);
    let given = tangents_ident();
    for (x, dx) in &tangents {
        let input = low
            .inputs
            .iter()
            .find(|i| i.var == *x)
            .expect("a differentiated variable is an input");
        if let Source::Param(i) = input.source {
            let (x, dx) = (emit.ident(*x), emit.ident(*dx));
            emit.push(ours!(let #dx = #p::tangent(&#given[#i], &#x);));
        }
    }
    let n_outs = low.program.outs.len();
    let (y, dy) = program.outs.split_at(n_outs);
    let values = results(
        &func.output.shape,
        &mut y.iter().map(|v| {
            let y = emit.ident(*v);
            ours!(#p::own(&#y))
        }),
    );
    let mut dy = dy.iter();
    let dy = joint.active.iter().map(|active| {
        if *active {
            let dy = emit.ident(*dy.next().expect("one tangent for each active result"));
            ours!(::core::option::Option::Some(#p::own(&#dy)))
        } else {
            ours!(::core::option::Option::None)
        }
    });
    let dy = ours!(#p::leaves([#(#dy),*]));
    let statements = emit.forward(&tangents);
    ours!(#statements (#values, #dy))
}
