//! Warnings: what runs, and is probably not meant.
//!
//! A macro cannot warn on stable Rust, but the use of a deprecated item does: for each warning one is emitted and used,
//! at the user's token. So `#[allow(deprecated)]` on the function silences them all, and `#![deny(warnings)]` makes
//! errors of them.

mod nan;
mod reach;
mod recorded;
mod residual;
mod sign;
#[cfg(test)]
mod tests;

pub(crate) use self::recorded::{Cause, recorded_calls};

use self::reach::Activity;
use self::sign::Signs;
use crate::lower::{Body, Input, Lowered, Source};
use crate::parse::Func;
use gradloom_ir::flow::Block;
use gradloom_ir::op::Diff;
use gradloom_ir::{DType, Program, SecondaryMap, Var};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::fmt;
use syn::Attribute;

/// What is warned of. `#[traced(allow(name))]` silences it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lint {
    /// No result depends on a parameter.
    UnusedParameter,
    /// All that a result has of a parameter has no derivative.
    ZeroGradient,
    /// A gradient is NaN where `select` was to prevent it.
    NanGradient,
    /// Reverse mode keeps a value that is larger than all arguments.
    LargeResidual,
    /// Each call of the function is recorded.
    RecordedCall,
}

impl Lint {
    pub(crate) const ALL: [Lint; 5] = [
        Lint::UnusedParameter,
        Lint::ZeroGradient,
        Lint::NanGradient,
        Lint::LargeResidual,
        Lint::RecordedCall,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Lint::UnusedParameter => "unused_parameter",
            Lint::ZeroGradient => "zero_gradient",
            Lint::NanGradient => "nan_gradient",
            Lint::LargeResidual => "large_residual",
            Lint::RecordedCall => "recorded_call",
        }
    }
}

/// A warning.
#[derive(Debug)]
pub(crate) struct Warning {
    pub(crate) lint: Lint,
    /// The user's token that it points at.
    pub(crate) span: Span,
    text: String,
    /// A constant that is true if there is nothing to warn of, where only rustc knows that.
    unless: Option<TokenStream>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = (self.lint.name(), &self.text);
        write!(
            f,
            "{name}: {text}; or allow it with `#[traced(allow({name}))]`"
        )
    }
}

/// A function as blocks, of which one is all of it where the body is straight-line.
struct Whole<'a> {
    blocks: Vec<Block>,
    /// What belongs to each block.
    lows: Vec<&'a Lowered>,
    /// The parameters of all blocks that are the function's.
    inputs: Vec<&'a Input>,
    results: Vec<Var>,
    /// Whether there is host control flow between the blocks.
    is_flow: bool,
}

impl<'a> Whole<'a> {
    fn new(body: &'a Body) -> Option<Whole<'a>> {
        match body {
            Body::Straight(low) => Some(Whole {
                blocks: vec![Block {
                    program: low.program.clone(),
                    targets: low.program.outs.clone(),
                }],
                lows: vec![&**low],
                inputs: low.inputs.iter().collect(),
                results: low.program.outs.clone(),
                is_flow: false,
            }),
            Body::Flow(flowing) => {
                let lows: Vec<&Lowered> = flowing.pieces.iter().map(|p| &p.low).collect();
                let inner = lows.iter().flat_map(|low| &low.inputs);
                let mut inputs: Vec<&Input> = flowing.inputs.iter().chain(inner).collect();
                inputs.sort_by_key(|i| i.var);
                inputs.dedup_by_key(|i| i.var);
                Some(Whole {
                    blocks: flowing.flow.blocks.clone(),
                    lows,
                    inputs,
                    results: flowing.flow.results.clone(),
                    is_flow: true,
                })
            }
            Body::Recorded(_) => None,
        }
    }

    fn span(&self, var: Var) -> Option<Span> {
        self.lows.iter().find_map(|low| low.spans.get(var).copied())
    }

    /// The variables of a parameter: itself, or the places in it that are read.
    fn vars(&self, param: usize) -> Vec<Var> {
        let places = self.inputs.iter().filter(|i| match &i.source {
            Source::Param(p) | Source::Leaf { param: p, .. } | Source::Tree { param: p, .. } => {
                *p == param
            }
            Source::Constant => false,
        });
        places.map(|i| i.var).collect()
    }
}

/// What there is to warn of in a function, without what is `allowed`. `source` is its body as the user wrote it.
pub(crate) fn warnings(
    func: &Func,
    source: &syn::Block,
    body: &Body,
    allowed: &[Lint],
) -> Vec<Warning> {
    let Some(whole) = Whole::new(body) else {
        return Vec::new();
    };
    let wrt = whole.inputs.iter().filter(|i| i.diff).map(|i| i.var);
    let wrt: Vec<Var> = wrt.collect();
    let activity = reach::activity(&whole.blocks, &wrt);
    let mut found = parameters(func, source, &whole, &activity);
    found.extend(selections(&whole, &activity));
    // How often a block runs is not known.
    if let Body::Straight(low) = body {
        found.extend(residuals(&low.program, &low.spans, &wrt));
    }
    found.retain(|w| !allowed.contains(&w.lint));
    found
}

/// The items that warn. `attrs` are the lint attributes of the user's item.
pub(crate) fn tokens(warnings: &[Warning], attrs: &[Attribute]) -> TokenStream {
    let warnings = warnings.iter().map(|warning| {
        let note = warning.to_string();
        let used = Ident::new("warning", warning.span);
        let Some(unless) = &warning.unless else {
            return quote! {
                #(#attrs)*
                const _: () = {
                    #[deprecated(note = #note)]
                    fn warning() {}
                    let _ = #used;
                };
            };
        };
        // The type of which the function is depends on the constant.
        quote! {
            #(#attrs)*
            const _: () = {
                // The arguments of a call that never runs.
                #[allow(warnings, unused, clippy::all, clippy::pedantic)]
                const UNLESS: bool = #unless;
                struct Call<const IS_PLANNED: bool>;
                impl Call<true> {
                    fn warning() {}
                }
                impl Call<false> {
                    #[deprecated(note = #note)]
                    fn warning() {}
                }
                let _ = Call::<UNLESS>::#used;
            };
        }
    });
    warnings.collect()
}

/// Warnings of parameters whose gradient is zero.
fn parameters(
    func: &Func,
    source: &syn::Block,
    whole: &Whole,
    activity: &Activity,
) -> Vec<Warning> {
    let reaching = activity.reaching(&whole.results);
    let is_read = |vars: &[Var]| {
        let hosts = whole.lows.iter().flat_map(|low| &low.hosts);
        let read: Vec<Var> = hosts.flat_map(|h| &h.reads).copied().collect();
        let behind = reach::values_behind(&whole.blocks, &read);
        vars.iter().any(|v| behind.contains(*v))
    };
    // Control flow may depend on a value that no result depends on.
    let decides = |vars: &[Var]| whole.is_flow && is_read(vars);
    let only_one = func.diff().count() == 1;
    let mut found = Vec::new();
    for (i, param) in func.diff() {
        let vars = whole.vars(i);
        let zero = vars.iter().all(|v| !reaching.contains(*v));
        if vars.is_empty() || !zero || param.name.starts_with('_') {
            continue;
        }
        let name = match param.receiver {
            true => "self",
            false => &param.name,
        };
        // The one parameter that is differentiated has to stay so.
        let remedy = match only_one {
            true => "remove `#[traced]`",
            false => "write `#[nodiff]` before it",
        };
        let span = param.ident.span();
        match reach::cut(&whole.blocks, &whole.results, &vars) {
            Some((program, eqn, at)) => {
                let (op, line) = (eqn.op, whole.span(at).map(|s| s.start().line));
                let at = line.map(|l| format!(" at line {l}")).unwrap_or_default();
                let why = match (op.def().diff(), program.aval(eqn.outs[0]).dtype) {
                    (Diff::Zero(why), _) => why.to_owned(),
                    (_, Some(d)) if !DType::is_float(d) => format!("{d} has no derivatives"),
                    _ => format!("`{op}` has no derivative with respect to it"),
                };
                found.push(Warning {
                    lint: Lint::ZeroGradient,
                    span,
                    text: format!("the gradient of `{name}` is always zero: it ends at `{op}`{at}, because {why}; if that is meant, {remedy}"),
                    unless: None,
                });
            }
            // A method may have a receiver for uniformity. What is not mentioned at all, rustc reports.
            None if !param.receiver && !decides(&vars) && mentions(source.to_token_stream(), &param.ident) => found.push(Warning {
                lint: Lint::UnusedParameter,
                span,
                text: match is_read(&vars) {
                    // A number of it may still scale a result.
                    true => format!("the gradient of `{name}` is always zero: host code reads its shape or its values, and what is read is a constant to the derivative; if that is meant, {remedy}, or call it `_{name}`"),
                    false => format!("no result depends on the values of `{name}`, so its gradient is always zero; remove it, or {remedy}, or call it `_{name}`"),
                },
                unless: None,
            }),
            None => {}
        }
    }
    found
}

/// Whether `tokens` mention a variable.
fn mentions(tokens: TokenStream, ident: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(i) => i == *ident,
        TokenTree::Group(g) => mentions(g.stream(), ident),
        _ => false,
    })
}

/// Warnings of `select`s whose operands have gradients that are NaN where they are not taken.
fn selections(whole: &Whole, activity: &Activity) -> Vec<Warning> {
    let mut signs = Signs::default();
    for input in &whole.inputs {
        if matches!(input.source, Source::Constant) {
            signs.trust(input.var);
        }
    }
    // A slot holds what one of several blocks has stored.
    for block in &whole.blocks {
        let stored = block.targets.iter().zip(&block.program.outs);
        for (target, _) in stored.filter(|(target, value)| target != value) {
            signs.guard(*target);
        }
    }
    let mut found = Vec::new();
    for Block { program, .. } in &whole.blocks {
        signs.learn(program);
        for risk in nan::risks(program, &activity.vars, &signs) {
            if let Some(span) = whole.span(risk.at) {
                found.push(Warning {
                    lint: Lint::NanGradient,
                    span,
                    text: risk.text(program),
                    unless: None,
                });
            }
        }
    }
    found
}

/// A warning of the largest value that reverse mode keeps, if it is larger than all arguments together.
fn residuals(program: &Program, spans: &SecondaryMap<Var, Span>, wrt: &[Var]) -> Option<Warning> {
    let large = residual::largest(program, wrt, |v| spans.contains(v))?;
    Some(Warning {
        lint: Lint::LargeResidual,
        span: *spans.get(large.var)?,
        text: large.text(program),
        unless: None,
    })
}
