//! Functions with derivatives that the user wrote.

use super::Outcome;
use super::control::{Traced, avals, physical, together, trace_on};
use super::outcome::TransformSite;
use crate::error::ControlFault;
use crate::tensor::record::record_many;
use crate::tree::{leaves, with_physical};
use crate::{Aval, Result, Tensor, Tree, check};
use gradloom_ir::{Op, Programs, Static};
use std::any::type_name_of_val;
use std::cell::RefCell;

/// Returns a function with the values of `f`, whose tangents `rule` computes.
///
/// `rule` maps an argument and its tangent to the result and its tangent, which is linear in that of the
/// argument. Reverse mode transposes it. The rule has derivatives as any function has, so the function can be
/// differentiated to any order.
///
/// ```
/// # use gradloom::{Tensor, custom_jvp, grad};
/// // log(1 + exp x), whose derivative does not overflow.
/// let softplus = custom_jvp(
///     |x: &Tensor| (x.exp() + 1.0).log(),
///     |x: &Tensor, dx: &Tensor| ((x.exp() + 1.0).log(), x.sigmoid() * dx),
/// );
/// assert_eq!(grad(softplus)(&Tensor::from(100.0f32)).item::<f32>(), 1.0);
/// ```
///
/// # Panics
///
/// The returned function panics if a function reads a value, or captures one that a transform traces, or if
/// the rule returns other shapes or dtypes than `f`. If `f` returns `Result`, these are errors instead.
#[track_caller]
pub fn custom_jvp<X, R, F, G>(f: F, rule: G) -> impl Fn(&X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
    G: Fn(&X, &X) -> (R::Tree, R::Tree),
{
    let made = TransformSite::by("custom_jvp");
    move |x: &X| R::wrap_made(try_custom_jvp(&f, |x, dx| Ok(rule(x, dx)), x), made)
}

fn try_custom_jvp<X, R>(
    f: impl FnOnce(&X) -> R,
    rule: impl FnOnce(&X, &X) -> Result<(R::Tree, R::Tree)>,
    x: &X,
) -> Result<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    let operands = leaves(x);
    let one: Vec<Aval> = avals(&operands).collect();
    let body = trace_on(&one, |inputs| {
        let y = R::run(|| f(&with_physical(x, inputs)))?;
        Ok((leaves(&y), y))
    })?;
    let expected = leaves(&body.y);
    let both = [&one[..], &one].concat();
    let rule = trace_on(&both, |inputs| {
        let (x_in, dx) = inputs.split_at(one.len());
        let (y, dy) = rule(&with_physical(x, x_in), &with_physical(x, dx))?;
        let (y, dy) = (leaves(&y), leaves(&dy));
        check::beside(
            "value of the rule",
            &body.y,
            "result",
            &y,
            check::avals(&expected),
        )?;
        check::beside("tangent", &body.y, "result", &dy, check::avals(&expected))?;
        Ok(([y, dy].concat(), ()))
    })?;
    let y = body.y;
    let programs = vec![
        (body.program, body.captured, one.len()),
        (rule.program, rule.captured, both.len()),
    ];
    let outs = record(
        Op::CustomJvp,
        "custom_jvp",
        programs,
        &operands,
        expected.len(),
    )?;
    Ok(with_physical(&y, &outs))
}

/// Returns a function with the values of `f`, whose cotangents `backward` computes.
///
/// `forward` maps the argument to the result and what `backward` needs; `backward` maps this and the cotangent
/// of the result to that of the argument. The function has no forward mode. Its gradient can be differentiated
/// in both modes.
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
    move |x: &X| R::wrap_made(try_custom_vjp(&f, |x| Ok(forward(x)), &backward, x), made)
}

fn try_custom_vjp<X, R, S>(
    f: impl FnOnce(&X) -> R,
    forward: impl FnOnce(&X) -> Result<(R::Tree, S)>,
    backward: impl FnOnce(&S, &R::Tree) -> X,
    x: &X,
) -> Result<R::Tree>
where
    X: Tree,
    R: Outcome,
    S: Tree,
{
    let operands = leaves(x);
    let one: Vec<Aval> = avals(&operands).collect();
    let body = trace_on(&one, |inputs| {
        let y = R::run(|| f(&with_physical(x, inputs)))?;
        Ok((leaves(&y), y))
    })?;
    let expected = leaves(&body.y);
    let forward: Traced<S> = trace_on(&one, |inputs| {
        let (y, saved) = forward(&with_physical(x, inputs))?;
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
    let y = body.y;
    let programs = vec![
        (body.program, body.captured, one.len()),
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
    Ok(with_physical(&y, &outs))
}

/// Calls the body of a traced function with a `vjp` rule, which takes the argument, the result and its cotangent.
#[track_caller]
pub fn with_vjp<X, R>(
    f: impl Fn(&X) -> R,
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
    let forward = |x: &X| {
        let y = R::run(|| f(x))?;
        let saved = (copied(x), copied(&y));
        Ok((y, saved))
    };
    let name = type_name_of_val(&f);
    let backward = |(x, y): &(X, R::Tree), ct: &R::Tree| {
        let _inside = RuleScope::enter(name);
        rule(x, y, ct)
    };
    R::wrap(RuleScope::check_outside(name).and_then(|()| try_custom_vjp(&f, forward, backward, x)))
}

/// Calls the body of a traced function with a `jvp` rule, which takes the argument, the result and the tangent.
#[track_caller]
pub fn with_jvp<X, R>(
    f: impl Fn(&X) -> R,
    rule: impl FnOnce(&X, &R::Tree, &X) -> R::Tree,
    x: &X,
) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    let name = type_name_of_val(&f);
    let joint = |x: &X, dx: &X| {
        let y = R::run(|| f(x))?;
        let _inside = RuleScope::enter(name);
        let dy = rule(x, &y, dx);
        Ok((y, dy))
    };
    R::wrap(RuleScope::check_outside(name).and_then(|()| try_custom_jvp(&f, joint, x)))
}

thread_local! {
    /// Functions whose rules are being traced.
    static RULES: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Guard for the time in which a rule is traced. A rule that called its own function would never end.
struct RuleScope;

impl RuleScope {
    fn enter(name: &'static str) -> RuleScope {
        RULES.with_borrow_mut(|rules| rules.push(name));
        RuleScope
    }

    fn check_outside(name: &'static str) -> Result<()> {
        match RULES.with_borrow(|rules| rules.contains(&name)) {
            true => Err(ControlFault::CallsItself.into_error("traced")),
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
    if let Some(traced) = captured.clone().find(|x| x.0.is_traced()) {
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
