//! Emits the bodies of the companions of a straight-line function, and its struct of residuals.

mod reverse;

use super::names::ItemNames;
use super::program_text::Places;
use super::residuals::Field;
use super::statements::{Emitter, tangents_ident};
use crate::derivative::Costs;
use crate::derivative::Wrt;
use crate::input::{Func, OutShape};
use crate::program::{LoweredProgram, Source};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Var, pass};
use proc_macro2::{Ident, TokenStream};
use reverse::reverse;

/// Pieces from which the companions are assembled.
pub(crate) struct DerivativeParts {
    /// Reverse mode with respect to the parameters of the public companions.
    pub(crate) reverse: ReverseParts,
    /// Reverse mode with respect to all parameters that callers may differentiate, if these are
    /// more.
    pub(crate) callers: Option<ReverseParts>,
    /// Statements and value of the forward-mode companion: `(results, tangents)`.
    pub(crate) jvp: TokenStream,
    /// True if the forward-mode companion needs the tangents of all arguments.
    pub(crate) needs_all: bool,
}

/// Pieces of reverse mode.
pub(crate) struct ReverseParts {
    /// Statements and value of `forward`: `(results, residuals)`.
    pub(crate) forward: TokenStream,
    /// Fields of the struct of residuals.
    pub(crate) fields: Vec<Field>,
    /// Body of `pull`.
    pub(crate) pull: TokenStream,
    /// Costs, or `None` if they depend on control flow.
    pub(crate) costs: Option<Costs>,
    /// Variables whose values are residuals.
    pub(crate) residuals: Vec<Var>,
}

/// Returns the pieces of a straight-line function.
///
/// `callers` are the parameters that callers may differentiate, if these are more than the public
/// ones.
pub(crate) fn straight(
    func: &Func,
    low: &LoweredProgram,
    rt: &TokenStream,
    names: &ItemNames,
    places: &Places,
    callers: Option<&Wrt>,
) -> DerivativeParts {
    let in_reverse = |wrt: &Wrt, saved: &Ident| {
        let wrt = wrt.vars(low);
        let vjp = ad::vjp(&low.program, &wrt);
        let (forward, fields, pull) = reverse(func, low, rt, places, saved, &vjp, &wrt);
        ReverseParts {
            forward,
            fields,
            pull,
            costs: Some(Costs::new(&low.program, &vjp)),
            residuals: crate::derivative::residual_vars(&low.program, &vjp),
        }
    };
    DerivativeParts {
        reverse: in_reverse(&Wrt::public(), &names.saved),
        callers: callers.map(|wrt| in_reverse(wrt, &names.callers_saved)),
        jvp: jvp(func, low, rt, places),
        needs_all: true,
    }
}

/// Returns the results of a function in the structure of its type.
pub(crate) fn results(
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

fn jvp(func: &Func, low: &LoweredProgram, rt: &TokenStream, places: &Places) -> TokenStream {
    let wrt = Wrt::public().vars(low);
    let joint = ad::jvp(&low.program, &wrt, Calls::Joint);
    let program = pass::dce(pass::cse(joint.program));
    let n_params = low.program.params.len();
    let tangents: Vec<(Var, Var)> = wrt
        .iter()
        .copied()
        .zip(program.params[n_params..].iter().copied())
        .collect();
    let mut emit = Emitter::new(func, low, rt, places, &program);
    let given = tangents_ident();
    for (x, dx) in &tangents {
        let input = low
            .inputs
            .iter()
            .find(|i| i.var == *x)
            .expect("a differentiated variable is an input");
        if let Source::Param(i) = input.source {
            let (x, dx) = (emit.ident(*x), emit.ident(*dx));
            emit.push(ours!(let #dx = #rt::tangent(&#given[#i], &#x);));
        }
    }
    let n_outs = low.program.outs.len();
    let (y, dy) = program.outs.split_at(n_outs);
    let values = results(
        &func.output.shape,
        &mut y.iter().map(|v| {
            let y = emit.ident(*v);
            ours!(#rt::own(&#y))
        }),
    );
    let mut dy = dy.iter();
    let dy = joint.active.iter().map(|active| {
        if *active {
            let dy = emit.ident(*dy.next().expect("one tangent for each active result"));
            ours!(::core::option::Option::Some(#rt::own(&#dy)))
        } else {
            ours!(::core::option::Option::None)
        }
    });
    let dy = ours!(#rt::leaves([#(#dy),*]));
    let statements = emit.forward(&tangents);
    ours!(#statements (#values, #dy))
}
