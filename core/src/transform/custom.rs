//! Functions with derivatives that the user wrote.

use super::Outcome;
use super::control::{
    Traced, avals, cut_body, physical, together, trace, trace_on, without_shapes,
};
use super::outcome::TransformSite;
use super::trace::{ScopeGuard, stand_ins};
use crate::error::ControlFault;
use crate::graph::seq_no::seq_no_of_all;
use crate::graph::trace_scope::Scopes;
use crate::tensor::record::record_many;
use crate::tensor::replay::replay;
use crate::tree::{leaves, with_physical};
use crate::{Aval, Error, Result, Tensor, Tree, check};
use gradloom_ir::{Op, Programs, Static, Var, ad};
use std::cell::RefCell;

/// Returns a function with the values of `f`, whose tangents `rule` computes.
///
/// `rule` maps an argument, the result and the tangent of the argument to the tangent of the result, which is
/// linear in that of the argument. Reverse mode transposes it. The rule has derivatives as any function has, and
/// the result has that of the rule, so the function can be differentiated to any order.
///
/// ```
/// # use gradloom::{Tensor, custom_jvp, grad};
/// // log(1 + exp x), whose derivative does not overflow.
/// let softplus = custom_jvp(
///     |x: &Tensor| (x.exp() + 1.0).log(),
///     |x: &Tensor, _: &Tensor, dx: &Tensor| x.sigmoid() * dx,
/// );
/// assert_eq!(grad(softplus)(&Tensor::from(100.0f32)).item::<f32>(), 1.0);
/// ```
///
/// # Panics
///
/// The returned function panics if a function reads a value, or captures one that a transform traces, or if
/// the tangent has other shapes or dtypes than the result of `f`, or is not linear in that of the argument. If `f` returns `Result`, these are errors
/// instead.
#[track_caller]
pub fn custom_jvp<X, R, F, G>(f: F, rule: G) -> impl Fn(&X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
    G: Fn(&X, &R::Tree, &X) -> R::Tree,
{
    let made = TransformSite::by("custom_jvp");
    move |x: &X| {
        let of_body = |body: Traced<R::Tree>| try_custom_jvp(&body, &rule, x);
        R::wrap_made(trace(&f, x).and_then(of_body), made)
    }
}

/// Records the traced function on another argument.
fn again<X: Tree, Y: Tree>(body: &Traced<Y>, x: &X) -> Result<Y> {
    let args = [physical(&leaves(x)), body.captured.clone()].concat();
    Ok(with_physical(&body.y, &replay(&body.program, &args)?))
}

fn try_custom_jvp<X, Y>(body: &Traced<Y>, rule: impl FnOnce(&X, &Y, &X) -> Y, x: &X) -> Result<Y>
where
    X: Tree,
    Y: Tree,
{
    let operands = leaves(x);
    let one: Vec<Aval> = avals(&operands).collect();
    let expected = leaves(&body.y);
    let takes: Vec<Aval> = [&operands[..], &expected, &operands]
        .into_iter()
        .flat_map(avals)
        .collect();
    let rule = trace_on(&takes, |inputs| {
        let (x_in, rest) = inputs.split_at(one.len());
        let (y, dx) = rest.split_at(expected.len());
        let dy = rule(
            &with_physical(x, x_in),
            &with_physical(&body.y, y),
            &with_physical(x, dx),
        );
        let dy = leaves(&dy);
        check::beside("tangent", &body.y, "result", &dy, check::avals(&expected))?;
        Ok((dy, ()))
    })?;
    let tangents = &rule.program.params[one.len() + expected.len()..takes.len()];
    if let Some(op) = ad::nonlinear(&rule.program, tangents) {
        let op = op.called();
        return Err(ControlFault::NonlinearRule { op }.into_error("custom_jvp"));
    }
    let programs = vec![
        (body.program.clone(), body.captured.clone(), one.len()),
        (rule.program, rule.captured, takes.len()),
    ];
    let outs = record(
        Op::CustomJvp,
        "custom_jvp",
        programs,
        &operands,
        expected.len(),
    )?;
    Ok(with_physical(&body.y, &outs))
}

/// Returns a function with the values of `f`, whose cotangents `backward` computes.
///
/// `forward` maps the argument to the result and what `backward` needs; `backward` maps this and the cotangent
/// of the result to that of the argument. The function has no forward mode. Its gradient can be differentiated
/// in both modes: the derivative of the cotangent is that of `backward`, and that of the result is that of
/// `forward`. See [`custom_jvp`] for a rule that holds to any order.
///
/// ```
/// # use gradloom::{Tensor, custom_vjp, grad};
/// // The gradient is bounded.
/// let clipped = custom_vjp(
///     |x: &Tensor| x.square(),
///     |x: &Tensor| (x.square(), x.clone()),
///     |x: &Tensor, ct: &Tensor| (x * ct * 2.0).clamp(-1.0, 1.0),
/// );
/// let x = Tensor::from([0.25f32, 5.0]);
/// assert_eq!(grad(|x: &Tensor| clipped(x).sum(..))(&x).to_vec::<f32>(), [0.5, 1.0]);
/// ```
///
/// # Panics
///
/// The returned function panics if a function reads a value, or captures one that a transform traces, or if
/// `forward` or `backward` return other shapes or dtypes than `f` and its argument. If `f` returns `Result`, these
/// are errors instead.
#[track_caller]
pub fn custom_vjp<X, R, S, F, G, H>(
    f: F,
    forward: G,
    backward: H,
) -> impl Fn(&X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    S: Tree,
    F: Fn(&X) -> R,
    G: Fn(&X) -> (R::Tree, S),
    H: Fn(&S, &R::Tree) -> X,
{
    let made = TransformSite::by("custom_vjp");
    move |x: &X| {
        let of_body =
            |body: Traced<R::Tree>| try_custom_vjp(&body, |_, x| Ok(forward(x)), &backward, x);
        R::wrap_made(trace(&f, x).and_then(of_body), made)
    }
}

fn try_custom_vjp<X, Y, S>(
    body: &Traced<Y>,
    forward: impl FnOnce(&Traced<Y>, &X) -> Result<(Y, S)>,
    backward: impl FnOnce(&S, &Y) -> X,
    x: &X,
) -> Result<Y>
where
    X: Tree,
    Y: Tree,
    S: Tree,
{
    let operands = leaves(x);
    let one: Vec<Aval> = avals(&operands).collect();
    let expected = leaves(&body.y);
    let forward: Traced<S> = trace_on(&one, |inputs| {
        let (y, saved) = forward(body, &with_physical(x, inputs))?;
        let y = leaves(&y);
        check::beside(
            "value of the rule",
            &body.y,
            "result",
            &y,
            check::avals(&expected),
        )?;
        Ok(([y, leaves(&saved)].concat(), saved))
    })?;
    let saved = leaves(&forward.y);
    let takes: Vec<Aval> = avals(&saved).chain(avals(&expected)).collect();
    let backward = trace_on(&takes, |inputs| {
        let (kept, cts) = inputs.split_at(saved.len());
        let ct = backward(
            &with_physical(&forward.y, kept),
            &with_physical(&body.y, cts),
        );
        let cts = leaves(&ct);
        check::beside("cotangent", x, "argument", &cts, check::avals(&operands))?;
        Ok((cts, ()))
    })?;
    let programs = vec![
        (body.program.clone(), body.captured.clone(), one.len()),
        (forward.program, forward.captured, one.len()),
        (backward.program, backward.captured, takes.len()),
    ];
    let outs = record(
        Op::CustomVjp,
        "custom_vjp",
        programs,
        &operands,
        expected.len(),
    )?;
    Ok(with_physical(&body.y, &outs))
}

/// Records a call of a function whose arguments have no values, with the rule that it has in reverse mode.
///
/// `forward` maps the inputs to the results, and `backward` the inputs, the results and their cotangents to those of
/// the inputs. The values that `backward` reads become results of the forward rule.
pub(crate) fn custom_on_stand_ins(
    operands: &[Tensor],
    forward: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    backward: impl FnOnce(&[Tensor], &[Tensor], &[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let scope = ScopeGuard::open();
    let since = seq_no_of_all();
    let inputs = stand_ins(&avals(operands).collect::<Vec<_>>(), &scope);
    let y = forward(&inputs)?;
    let of_cts = ScopeGuard::open();
    let since_back = seq_no_of_all();
    let cts = stand_ins(&avals(&y).collect::<Vec<_>>(), &of_cts);
    let pulled = backward(&inputs, &y, &cts)?;
    let part = cut_body(&cts, since_back, &pulled)?;
    drop(of_cts);
    let (mut back, captured) = without_shapes(part, cts.len());
    // What depends on the inputs is saved, and the rest are constants of all programs.
    let of_inputs = Scopes::one(scope.0.clone());
    let is_saved = |x: &Tensor| !x.0.scopes().is_apart(&of_inputs);
    let (params, others) = back.params.split_at(cts.len());
    let own = || others.iter().copied().zip(&captured);
    let (saved, consts): (Vec<_>, Vec<_>) = own().partition(|(_, x)| is_saved(x));
    let vars = |all: &[(Var, &Tensor)]| all.iter().map(|(v, _)| *v).collect::<Vec<Var>>();
    back.params = [&vars(&saved), params, &vars(&consts)].concat();
    let values = |all: &[(Var, &Tensor)]| all.iter().map(|(_, x)| (*x).clone()).collect::<Vec<_>>();
    let (saved, consts) = (values(&saved), values(&consts));
    let results = [&y[..], &saved].concat();
    let n = inputs.len();
    let forward = without_shapes(cut_body(&inputs, since, &results)?, n);
    let body = without_shapes(cut_body(&inputs, since, &y)?, n);
    drop(scope);
    let programs = vec![
        (body.0, body.1, n),
        (forward.0, forward.1, n),
        (back, consts, saved.len() + cts.len()),
    ];
    record(Op::CustomVjp, "custom_vjp", programs, operands, y.len())
}

/// A traced function with a rule for its derivative.
#[derive(Debug)]
pub struct RuleSite {
    /// Name of the function.
    pub name: &'static str,
    /// Names of its arguments that consist of tensors.
    pub args: &'static [&'static str],
}

/// Calls the body of a traced function with a `vjp` rule, which takes the argument, the result and its cotangent.
#[track_caller]
pub fn with_vjp<X, R>(
    site: &'static RuleSite,
    f: impl FnOnce(&X) -> R,
    rule: impl FnOnce(&X, &R::Tree, &R::Tree) -> X,
    x: &X,
) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    fn copied<T: Tree>(tree: &T) -> T {
        with_physical(tree, &leaves(tree))
    }
    let forward = |body: &Traced<R::Tree>, x: &X| {
        let y = again(body, x)?;
        let saved = (copied(x), copied(&y));
        Ok((y, saved))
    };
    let backward = |(x, y): &(X, R::Tree), ct: &R::Tree| {
        let _inside = RuleScope::enter(site);
        rule(x, y, ct)
    };
    let run = || {
        RuleScope::check_outside(site)?;
        try_custom_vjp(&trace(f, x)?, forward, backward, x)
    };
    R::wrap(run().map_err(|e| site.with_names(e)))
}

/// Calls the body of a traced function with a `jvp` rule, which takes the argument, the result and the tangent.
#[track_caller]
pub fn with_jvp<X, R>(
    site: &'static RuleSite,
    f: impl FnOnce(&X) -> R,
    rule: impl FnOnce(&X, &R::Tree, &X) -> R::Tree,
    x: &X,
) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    let run = || {
        RuleScope::check_outside(site)?;
        let body = trace(f, x)?;
        let rule = |x: &X, y: &R::Tree, dx: &X| {
            let _inside = RuleScope::enter(site);
            rule(x, y, dx)
        };
        try_custom_jvp(&body, rule, x)
    };
    R::wrap(run().map_err(|e| site.with_names(e)))
}

impl RuleSite {
    /// Returns an error about a part of the tuple of arguments with the name of the argument.
    fn with_names(&self, mut error: Error) -> Error {
        if let Error::Mismatch { path, .. } = &mut error
            && let Some(rest) = path.strip_prefix("argument.")
        {
            let (number, field) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
            if let Some(name) = number.parse().ok().and_then(|i: usize| self.args.get(i)) {
                *path = format!("{name}{field}");
            }
        }
        error
    }
}

thread_local! {
    /// Functions whose rules are being traced.
    static RULES: RefCell<Vec<&'static RuleSite>> = const { RefCell::new(Vec::new()) };
}

/// Guard for the time in which a rule is traced. A rule that called its own function would never end.
struct RuleScope;

impl RuleScope {
    fn enter(site: &'static RuleSite) -> RuleScope {
        RULES.with_borrow_mut(|rules| rules.push(site));
        RuleScope
    }

    fn check_outside(site: &'static RuleSite) -> Result<()> {
        match RULES.with_borrow(|rules| rules.iter().any(|rule| std::ptr::eq(*rule, site))) {
            true => Err(ControlFault::CallsItself.into_error(site.name)),
            false => Ok(()),
        }
    }
}

impl Drop for RuleScope {
    fn drop(&mut self) {
        RULES.with_borrow_mut(Vec::pop);
    }
}

/// Records an op on programs, each with the values that it captures and the number of its inputs.
fn record(
    op: Op,
    by: &'static str,
    programs: Vec<(gradloom_ir::Program, Vec<Tensor>, usize)>,
    operands: &[Tensor],
    n_outs: usize,
) -> Result<Vec<Tensor>> {
    // A rule says nothing of the values that it captures, so they cannot have derivatives.
    let captured = programs.iter().flat_map(|(_, captured, _)| captured);
    if let Some(traced) = captured.clone().find(|x| x.0.is_in_scope()) {
        let aval = traced.aval().clone();
        return Err(ControlFault::Captured { aval }.into_error(by));
    }
    let (programs, captured) = together(programs);
    let consts = Static::Int(captured.len() as i64);
    let operands = physical(operands);
    let args: Vec<&Tensor> = captured.iter().chain(&operands).collect();
    record_many(
        op,
        [Programs::new(programs).into(), consts],
        &args,
        &[],
        n_outs,
    )
}
