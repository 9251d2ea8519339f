//! Emits the bodies of the companions of a straight-line function, and its struct of residuals.

use super::cost::Costs;
use super::emit::{Emit, tangents_ident};
use super::kept::Field;
use super::names::Names;
use super::staged_reverse::reverse;
use super::wrt::Wrt;
use crate::lower::{Lowered, Source};
use crate::parse::{Func, OutShape};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Program, Var, pass};
use proc_macro2::{Ident, TokenStream};

/// Pieces from which the companions are assembled.
pub(super) struct Staged {
    /// Reverse mode with respect to the parameters of the public companions.
    pub(super) reverse: Reverse,
    /// Reverse mode with respect to all parameters that callers may differentiate, if these are
    /// more.
    pub(super) callers: Option<Reverse>,
    /// Statements and value of the forward-mode companion: `(results, tangents)`.
    pub(super) jvp: TokenStream,
    /// True if the forward-mode companion needs the tangents of all arguments.
    pub(super) needs_all: bool,
}

/// Pieces of reverse mode.
pub(super) struct Reverse {
    /// Statements and value of `forward`: `(results, residuals)`.
    pub(super) forward: TokenStream,
    /// Fields of the struct of residuals.
    pub(super) fields: Vec<Field>,
    /// Body of `pull`.
    pub(super) pull: TokenStream,
    /// Types that the residuals are made of.
    pub(super) items: TokenStream,
    /// Costs, or `None` if they depend on control flow.
    pub(super) costs: Option<Costs>,
    /// Variables whose values are residuals.
    pub(super) kept: Vec<Var>,
}

/// Returns the programs derived from a function, each with a name, for `GRADLOOM_DUMP`.
pub(crate) fn programs(low: &Lowered) -> Vec<(&'static str, Program)> {
    let wrt = Wrt::public().vars(low);
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

/// Returns the pieces of a straight-line function.
///
/// `callers` are the parameters that callers may differentiate, if these are more than the public
/// ones.
pub(super) fn staged(
    func: &Func,
    low: &Lowered,
    private: &TokenStream,
    names: &Names,
    callers: Option<&Wrt>,
) -> Staged {
    let in_reverse = |wrt: &Wrt, saved: &Ident| {
        let wrt = wrt.vars(low);
        let vjp = ad::vjp(&low.program, &wrt);
        let (forward, fields, pull) = reverse(func, low, private, saved, &vjp, &wrt);
        Reverse {
            forward,
            fields,
            pull,
            items: TokenStream::new(),
            costs: Some(Costs::new(&low.program, &vjp)),
            kept: super::cost::kept(&low.program, &vjp),
        }
    };
    Staged {
        reverse: in_reverse(&Wrt::public(), &names.saved),
        callers: callers.map(|wrt| in_reverse(wrt, &names.callers_saved)),
        jvp: jvp(func, low, private),
        needs_all: true,
    }
}

/// Returns the results of a function in the structure of its type.
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

fn jvp(func: &Func, low: &Lowered, p: &TokenStream) -> TokenStream {
    let wrt = Wrt::public().vars(low);
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
