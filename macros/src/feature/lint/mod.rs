//! Warns about code that is valid and probably not intended.
//!
//! A macro cannot emit warnings on stable Rust, but the use of a deprecated item can: each warning
//! is a deprecated item that is used at the user's token. `#[allow(deprecated)]` on the function
//! therefore silences all warnings, and `#![deny(warnings)]` turns them into errors.

mod nan;
mod reach;
mod recorded;
mod residual;
mod sign;
#[cfg(test)]
mod tests;

pub(crate) use crate::emit::cached_call::Cause;
use crate::input::Lint;
pub(crate) use recorded::recorded_calls;

use crate::input::Func;
use crate::program::{Body, LoweredFlow, Source};
use gradloom_ir::flow::Block;
use gradloom_ir::op::Diff;
use gradloom_ir::{Aval, DType, Eqn, Program, SecondaryMap, Static, Var};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use reach::{Activity, Cut};
use sign::Signs;
use std::fmt;
use syn::Attribute;

/// Warning of the macro.
#[derive(Debug)]
pub(crate) struct Warning {
    pub(crate) lint: Lint,
    /// The user's token that it points at.
    pub(crate) span: Span,
    text: String,
    /// Constant that is true if the warning does not apply, if only rustc knows that.
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

/// Returns the warnings of a function, without those that are `allowed`.
///
/// `source` is its body as the user wrote it.
pub(crate) fn warnings(
    func: &Func,
    source: &syn::Block,
    body: &Body,
    allowed: &[Lint],
) -> Vec<Warning> {
    let Body::Compiled(whole) = body else {
        return Vec::new();
    };
    let wrt = whole.all_inputs().into_iter().filter(|i| i.diff);
    let wrt: Vec<Var> = wrt.map(|i| i.var).collect();
    let activity = reach::activity(&whole.flow.blocks, &wrt);
    let mut found = parameters(func, source, whole, &activity);
    found.extend(selections(whole, &activity));
    // In a body with control flow the number of times a block runs is not known.
    if let Some(low) = whole.straight() {
        found.extend(residuals(&low.program, &low.spans, &wrt));
    }
    found.retain(|w| !allowed.contains(&w.lint));
    found
}

/// Returns the items that cause the warnings; `attrs` are the lint attributes of the user's item.
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
        // The constant selects the impl block, and so whether the function is deprecated.
        quote! {
            #(#attrs)*
            const _: () = {
                // Lints in the arguments of the call, which never runs, are silenced.
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

/// Returns warnings of parameters whose gradient is zero.
fn parameters(
    func: &Func,
    source: &syn::Block,
    whole: &LoweredFlow,
    activity: &Activity,
) -> Vec<Warning> {
    let reaching = activity.reaching(&whole.flow.results);
    let is_read = |vars: &[Var]| {
        let hosts = whole.programs().flat_map(|low| &low.hosts);
        let read: Vec<Var> = hosts.flat_map(|h| &h.reads).copied().collect();
        let behind = reach::values_behind(&whole.flow.blocks, &read);
        vars.iter().any(|v| behind.contains(*v))
    };
    // Control flow may depend on a value that no result depends on.
    let decides = |vars: &[Var]| whole.straight().is_none() && is_read(vars);
    let only_one = func.diff().count() == 1;
    let mut found = Vec::new();
    for (i, param) in func.diff() {
        let vars = whole.vars(i);
        let zero = vars.iter().all(|v| !reaching.contains(*v));
        if vars.is_empty() || !zero || param.name.starts_with('_') {
            continue;
        }
        let name = param.shown_name();
        // The last differentiated parameter cannot be `#[nodiff]`.
        let remedy = match only_one {
            true => "remove `#[traced]`",
            false => "write `#[nodiff]` before the parameter",
        };
        let span = param.ident.span();
        match reach::cut(&whole.flow.blocks, &whole.flow.results, &vars) {
            Some(Cut { program, eqn, operand, out: at }) => {
                let refuses = refuses_floats(program, eqn, operand);
                let (op, line) = (eqn.op, span_of(whole, at).map(|s| s.start().line));
                let at = line.map(|l| format!(" at line {l}")).unwrap_or_default();
                let why = match (op.def().diff(), program.aval(eqn.outs[0]).dtype) {
                    (Diff::Zero(why), _) => why.to_owned(),
                    (_, Some(d)) if !DType::is_float(d) => format!("{d} has no derivatives"),
                    _ => format!("`{op}` has no derivative with respect to it"),
                };
                found.push(Warning {
                    lint: Lint::ZeroGradient,
                    span,
                    text: match refuses {
                        true => format!("`{name}` has no gradient, and the companions that ask for one panic: `{op}`{at} takes no floats for it, and only floats have gradients; {remedy}"),
                        false => format!("the gradient of `{name}` is always zero: it ends at `{op}`{at}, because {why}; if that is meant, {remedy}"),
                    },
                    unless: None,
                });
            }
            // A method may have an unused receiver for uniformity. rustc reports parameters that
            // are never mentioned.
            None if !param.receiver && !decides(&vars) && mentions(source.to_token_stream(), &param.ident) => found.push(Warning {
                lint: Lint::UnusedParameter,
                span,
                text: match is_read(&vars) {
                    // A number read from it may still scale a result.
                    true => format!("the gradient of `{name}` is always zero: the function only reads its shape or its values in host code, which is not differentiated; if that is meant, {remedy}, or rename it to `_{name}`"),
                    false => format!("no result depends on the values of `{name}`, so its gradient is always zero; remove it, or {remedy}, or rename it to `_{name}`"),
                },
                unless: None,
            }),
            None => {}
        }
    }
    found
}

/// Returns whether an equation refuses a float for an operand.
fn refuses_floats(program: &Program, eqn: &Eqn, operand: Var) -> bool {
    let statics: Vec<Static> = eqn.attrs.iter().map(|s| program.attr(*s).clone()).collect();
    let aval = |x: &Var| match *x == operand {
        true => Aval {
            dtype: Some(DType::F32),
            ..program.aval(*x).clone()
        },
        false => program.aval(*x).clone(),
    };
    let args: Vec<Aval> = eqn.args.iter().map(aval).collect();
    let args: Vec<&Aval> = args.iter().collect();
    eqn.op.def().dtype(&statics, &args).is_err()
}

/// Returns the user's token for a variable.
fn span_of(whole: &LoweredFlow, var: Var) -> Option<Span> {
    let spans = whole.programs().map(|low| &low.spans);
    spans.filter_map(|spans| spans.get(var).copied()).next()
}

/// Returns whether `tokens` mention a variable.
fn mentions(tokens: TokenStream, ident: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(i) => i == *ident,
        TokenTree::Group(g) => mentions(g.stream(), ident),
        _ => false,
    })
}

/// Returns warnings of `select`s that do not keep NaN out of the gradient of an operand.
fn selections(whole: &LoweredFlow, activity: &Activity) -> Vec<Warning> {
    let mut signs = Signs::default();
    for input in whole.all_inputs() {
        if matches!(input.source, Source::Constant) {
            signs.trust(input.var);
        }
    }
    // Several blocks may store to a slot.
    for block in &whole.flow.blocks {
        let stored = block.targets.iter().zip(&block.program.outs);
        for (target, _) in stored.filter(|(target, value)| target != value) {
            signs.guard(*target);
        }
    }
    let mut found = Vec::new();
    for Block { program, .. } in &whole.flow.blocks {
        signs.learn(program);
        for risk in nan::risks(program, &activity.vars, &signs) {
            if let Some(span) = span_of(whole, risk.at) {
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

/// Returns a warning of the largest residual, if it is larger than all arguments together.
fn residuals(program: &Program, spans: &SecondaryMap<Var, Span>, wrt: &[Var]) -> Option<Warning> {
    let large = residual::largest(program, wrt, |v| spans.contains(v))?;
    Some(Warning {
        lint: Lint::LargeResidual,
        span: *spans.get(large.var)?,
        text: large.text(program),
        unless: None,
    })
}
