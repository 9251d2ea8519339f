//! A call of an op becomes a value of the graph. The rules run here, so an error is at the call that made it.

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

/// Records `outs = op[statics] data, likes`.
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

/// Records `out = op[statics] data, likes`.
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

/// Records `out = op data`.
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

/// Records `out = op x, y`. An operand that is given away counts no handle up or down.
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

/// A fresh value equal to `x`, which a transform differentiates by while `scope` is open.
pub(crate) fn traced_input(x: &Tensor, scope: &Arc<Scope>) -> Tensor {
    let mut fresh = value(x.aval(), x.dtype(), Op::Identity, None, &[x]);
    fresh.set_scopes(x.0.scopes().union(Scopes::one(scope.clone())));
    Tensor(fresh.into())
}

/// The operands of an op.
#[inline]
fn of(data: &[&Tensor]) -> Operands {
    match data {
        [] => Operands::None,
        [x] => Operands::One(Shared::clone(&x.0)),
        [x, y] => Operands::Two([Shared::clone(&x.0), Shared::clone(&y.0)]),
        data => Operands::Many(data.iter().map(|x| Shared::clone(&x.0)).collect()),
    }
}

/// A value of the shape of `like` that an op computes.
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

/// What a value has from the operands of its op.
struct Depends {
    age: u64,
    /// Length of the longest chain of pending ops that ends here.
    depth: u32,
    /// The transforms that trace it.
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

/// The result of an op that has been recorded.
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

/// Length of a chain of pending ops that is computed although nobody has asked for it, so that a loop that reads no value takes a
/// bounded amount of memory, and its plans a bounded time to make.
pub(crate) const MAX_PENDING_OPS: u32 = 256;

/// Computes a value at the end of a chain of [`MAX_PENDING_OPS`].
#[inline]
fn bound_pending(out: &Tensor) {
    if out.0.depth().is_multiple_of(MAX_PENDING_OPS) {
        run_pending(out);
    }
}

#[cold]
fn run_pending(out: &Tensor) {
    // A transform needs the ops as they are, and so does a call that is being recorded: its plan has all of them.
    if out.0.is_traced() || call::is_recording() {
        return;
    }
    // Where a value in the chain has been computed since, the chain is shorter than its last op knew.
    if graph::correct_depths(&out.0) < MAX_PENDING_OPS / 2 {
        return;
    }
    // A value that cannot be computed stays a promise. Who asks for it gets the error; what depends on it is not tried again.
    if evaluate::realise(std::slice::from_ref(&*out.0)).is_err() {
        out.0.set_depth(NEVER);
    }
}

/// Of two operands of one dtype the one that has the shape of an elementwise result, where that takes no rule: they are alike,
/// or one is a number.
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

/// Ops that return their operand where the result has its aval. `identity` is not one: it is a value of its own.
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
            // A slice of the same shape is the whole, because steps are 1 or more.
            | Op::Slice
            | Op::SliceT
    )
}

thread_local! {
    static SCOPES: Cell<usize> = const { Cell::new(0) };
}

/// The payload of the unwinding that carries an error to the enclosing [`catch`].
struct Raised(Error);

/// Runs the body of a function that returns `Result`: an error of an op inside becomes its `Err`.
pub fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    SCOPES.set(SCOPES.get() + 1);
    // The body's captures are not seen again after a panic: it is resumed or becomes an `Err`.
    let result = panic::catch_unwind(panic::AssertUnwindSafe(body));
    SCOPES.set(SCOPES.get() - 1);
    result.unwrap_or_else(|payload| match payload.downcast::<Raised>() {
        Ok(raised) => Err(raised.0),
        Err(payload) => panic::resume_unwind(payload),
    })
}

/// Raises an error at the caller: to the enclosing [`catch`], or as a panic at the user's line.
#[track_caller]
pub(crate) fn raise(error: Error) -> ! {
    let error = return_to_catch(error);
    panic!("{error}")
}

/// Raises an error in a function that a transform has made, such as that of `grad(f)`: its caller is not known, but where it
/// was made is.
pub(crate) fn raise_in_made(error: Error, by: &str, at: &Location<'_>) -> ! {
    let error = return_to_catch(error);
    panic!("{error}; in the function that `{by}` made at {at}")
}

/// Returns the error to the enclosing [`catch`], if there is one.
fn return_to_catch(error: Error) -> Error {
    // Where panics abort there is nobody to return to, and the message is all that the user gets.
    if SCOPES.get() > 0 && cfg!(panic = "unwind") {
        // Without the message of the panic hook: the error is returned, not printed.
        panic::resume_unwind(Box::new(Raised(error)));
    }
    error
}

/// The value, or its error raised at the caller.
#[track_caller]
pub(crate) fn expect<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}
