//! Records ops as values of the lazy graph.
//!
//! Shape and dtype rules run here, so errors point at the user's call.

use crate::age::next_age;
use crate::node::{More, NEVER, Operands, Shared, Source, Value};
use crate::rules::{self, Said, Statics};
use crate::scope::{Scope, Scopes};
use crate::spare;
use crate::testing::is_op_by_op;
use crate::{Aval, DType, Error, Result, Tensor, call, evaluate, graph};
use gradloom_ir::{Op, Static};
use std::cell::Cell;
use std::panic::{self, Location};
use std::sync::Arc;
use triomphe::UniqueArc;

/// Records `outs = op[statics] data, likes`, an op with any number of results.
pub(crate) fn apply(
    op: Op,
    statics: impl IntoIterator<Item = Static>,
    data: &[&Tensor],
    likes: &[&Aval],
    n_outs: usize,
) -> Result<Vec<Tensor>> {
    if n_outs == 1 {
        return Ok(vec![one(op, statics, data, likes)?]);
    }
    let statics: Statics = statics.into_iter().collect();
    let outs = rules::of(op, &statics, data, likes, n_outs)?;
    let Some(first) = outs.first().cloned() else {
        return Ok(Vec::new());
    };
    let likes = likes.iter().map(|l| (*l).clone()).collect();
    let more = Arc::new(More::new(statics, likes, outs.into()));
    let all = value(&first, first.dtype(), op, Some(more.clone()), data).shareable();
    let part = |(i, aval)| Tensor::new(aval, Source::Part(all.clone(), i));
    let outs: Vec<Tensor> = (0..).zip(&more.outs).map(part).collect();
    if is_op_by_op() {
        evaluate::evaluate(&outs)?;
    } else {
        bound_pending(&outs[0]);
    }
    Ok(outs)
}

/// Records `out = op[statics] data, likes`, an op with one result.
pub(crate) fn one(
    op: Op,
    statics: impl IntoIterator<Item = Static>,
    data: &[&Tensor],
    likes: &[&Aval],
) -> Result<Tensor> {
    let statics: Statics = statics.into_iter().collect();
    let Said { out, more } = rules::of_one(op, statics, data, likes)?;
    if is_noop(op) && out == *data[0].aval() {
        return Ok(data[0].clone());
    }
    push(value(&out, out.dtype(), op, more, data))
}

/// Records `out = op data`, an op without statics and like operands.
pub(crate) fn plain(op: Op, data: &[&Tensor]) -> Result<Tensor> {
    let like = match data {
        [x] => Some(x.aval()),
        [x, y] => widest(x.aval(), y.aval()),
        _ => None,
    };
    if let Some(like) = like
        && let Some(dtype) = op.elementwise(data.len(), like.dtype())
    {
        return push(value(like, dtype, op, None, data));
    }
    one(op, [], data, &[])
}

/// Records `out = op x, y`. The operands are moved, which leaves their reference counts alone.
#[inline]
pub(crate) fn binary(op: Op, x: Tensor, y: Tensor) -> Result<Tensor> {
    if let Some(like) = widest(x.aval(), y.aval())
        && let Some(dtype) = op.elementwise(2, like.dtype())
    {
        let Depends { age, depth, scopes } = depends(&[&x, &y]);
        let mut out = spare::value(like, dtype);
        let operands = Operands::Two([x.0.into_shared(), y.0.into_shared()]);
        out.begin_op(op, operands, age, depth);
        if !scopes.is_empty() {
            out.set_scopes(scopes);
        }
        return push(out);
    }
    one(op, [], &[&x, &y], &[])
}

/// Returns a value equal to `x` that depends on `scope`, so that a transform can trace from it.
pub(crate) fn traced_input(x: &Tensor, scope: &Arc<Scope>) -> Tensor {
    let mut fresh = value(x.aval(), x.dtype(), Op::Identity, None, &[x]);
    fresh.set_scopes(x.0.scopes().union(Scopes::one(scope.clone())));
    Tensor(fresh.into())
}

/// Returns the operands of an op.
#[inline]
fn of(data: &[&Tensor]) -> Operands {
    match data {
        [] => Operands::None,
        [x] => Operands::One(Shared::clone(&x.0)),
        [x, y] => Operands::Two([Shared::clone(&x.0), Shared::clone(&y.0)]),
        data => Operands::Many(data.iter().map(|x| Shared::clone(&x.0)).collect()),
    }
}

/// Returns the value of an op, with the shape of `like`.
#[inline]
fn value(
    like: &Aval,
    dtype: DType,
    op: Op,
    more: Option<Arc<More>>,
    data: &[&Tensor],
) -> UniqueArc<Value> {
    let Depends { age, depth, scopes } = depends(data);
    let mut value = spare::value(like, dtype);
    value.begin_op(op, of(data), age, depth);
    if more.is_some() {
        value.more = more;
    }
    if !scopes.is_empty() {
        value.set_scopes(scopes);
    }
    value
}

/// Properties that a value inherits from the operands of its op.
struct Depends {
    age: u64,
    /// Length of the longest chain of pending ops that ends here.
    depth: u32,
    /// Scopes of the transforms that trace the value.
    scopes: Scopes,
}

#[inline]
fn depends(data: &[&Tensor]) -> Depends {
    let (mut scopes, mut oldest, mut depth) = (Scopes::default(), 0, 0);
    for x in data {
        oldest = oldest.max(x.0.age);
        depth = depth.max(x.0.depth());
        if x.0.is_traced() {
            scopes = scopes.union(x.0.scopes());
        }
    }
    Depends {
        age: next_age(oldest),
        depth: depth.saturating_add(1),
        scopes,
    }
}

/// Returns the tensor of a recorded op. Computes it at once if it ends a long pending chain.
#[inline]
fn push(value: UniqueArc<Value>) -> Result<Tensor> {
    let out = Tensor(value.into());
    if is_op_by_op() {
        evaluate::evaluate(&out)?;
    } else {
        bound_pending(&out);
    }
    Ok(out)
}

/// Length of a chain of pending ops that is computed without a request.
///
/// The limit bounds the memory of a loop that reads no value, and the time to make its plans.
pub(crate) const MAX_PENDING_OPS: u32 = 256;

/// Computes `out` if it ends a chain of [`MAX_PENDING_OPS`].
#[inline]
fn bound_pending(out: &Tensor) {
    if out.0.depth().is_multiple_of(MAX_PENDING_OPS) {
        run_pending(out);
    }
}

#[cold]
fn run_pending(out: &Tensor) {
    // Traced ops have to stay, and the plan of a call that is being recorded contains all its ops.
    if out.0.is_traced() || call::is_recording() {
        return;
    }
    // The recorded depth is too large if a value in the chain has been realised since.
    if graph::correct_depths(&out.0) < MAX_PENDING_OPS / 2 {
        return;
    }
    // On failure the value stays a promise, and the error is returned when the user requests it.
    // Its consumers fail too, so they are not tried again.
    if evaluate::realise(std::slice::from_ref(&*out.0)).is_err() {
        out.0.set_depth(NEVER);
    }
}

/// Returns the operand with the shape and dtype of an elementwise result, if no rule is needed.
///
/// That is the case if both avals are equal, or if the dtypes are equal and one operand has rank 0.
#[inline]
fn widest<'a>(x: &'a Aval, y: &'a Aval) -> Option<&'a Aval> {
    if x == y {
        return Some(x);
    }
    match (x.dtype() == y.dtype(), x.rank(), y.rank()) {
        (true, 0, _) => Some(y),
        (true, _, 0) => Some(x),
        _ => None,
    }
}

/// Returns whether the op returns its operand if the result has the same aval.
///
/// `identity` is not such an op: its result is a separate value.
fn is_noop(op: Op) -> bool {
    matches!(
        op,
        Op::BroadcastLike
            | Op::BroadcastTo
            | Op::Unbroadcast
            | Op::Cast
            | Op::CastT
            | Op::Reshape
            | Op::ReshapeT
            // Steps are at least 1, so a slice of the same shape is the whole tensor.
            | Op::Slice
            | Op::SliceT
    )
}

thread_local! {
    static SCOPES: Cell<usize> = const { Cell::new(0) };
}

/// Panic payload that carries an error to the enclosing [`catch`].
struct Raised(Error);

/// Runs the body of a function that returns `Result`; errors of ops inside become `Err`.
pub fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    SCOPES.set(SCOPES.get() + 1);
    // Unwind safety: the captures of `body` are not used after a panic.
    let result = panic::catch_unwind(panic::AssertUnwindSafe(body));
    SCOPES.set(SCOPES.get() - 1);
    result.unwrap_or_else(|payload| match payload.downcast::<Raised>() {
        Ok(raised) => Err(raised.0),
        Err(payload) => panic::resume_unwind(payload),
    })
}

/// Raises an error: returns it to the enclosing [`catch`], or panics at the caller's line.
#[track_caller]
pub(crate) fn raise(error: Error) -> ! {
    let error = return_to_catch(error);
    panic!("{error}")
}

/// Raises an error inside of a function that a transform returned, such as `grad(f)`.
///
/// The caller of that function is unknown, so the message names the place where it was made.
pub(crate) fn raise_in_made(error: Error, by: &str, at: &Location<'_>) -> ! {
    let error = return_to_catch(error);
    panic!("{error}; in the function that `{by}` made at {at}")
}

/// Unwinds with the error to the enclosing [`catch`], or returns it if there is none.
fn return_to_catch(error: Error) -> Error {
    // With `panic = "abort"`, unwinding is impossible and the panic message is all the user gets.
    if SCOPES.get() > 0 && cfg!(panic = "unwind") {
        // `resume_unwind` skips the panic hook, because the error is returned and not printed.
        panic::resume_unwind(Box::new(Raised(error)));
    }
    error
}

/// Returns the value, or raises the error at the caller.
#[track_caller]
pub(crate) fn expect<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}
