//! A call of an op becomes a value of the graph. The rules run here, so an error is at the call that made it.

use crate::node::{More, Recorded, Scope, Scopes, Source, next_age};
use crate::testing::is_op_by_op;
use crate::{Aval, Error, Result, Tensor, evaluate};
use gradloom_ir::{self as ir, Op, Static};
use smallvec::SmallVec;
use std::cell::Cell;
use std::panic;
use std::sync::Arc;

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
    let statics = statics.into_iter().collect();
    let outs = infer(op, &statics, data, likes, n_outs)?;
    let Some(first) = outs.first().cloned() else {
        return Ok(Vec::new());
    };
    let likes = likes.iter().map(|l| (*l).clone()).collect();
    let outs = outs.into_boxed_slice();
    let more = More {
        statics,
        likes,
        outs,
    };
    let outs = more.outs.clone();
    let all = Tensor::new(&first, Source::Op(recorded(op, Some(more), data)));
    let part = |(i, aval)| Tensor::new(aval, Source::Part(Arc::clone(&all.0), i));
    let outs: Vec<Tensor> = (0..).zip(&outs).map(part).collect();
    if is_op_by_op() {
        evaluate(&outs)?;
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
    let statics = statics.into_iter().collect();
    let out = infer(op, &statics, data, likes, 1)?.remove(0);
    if is_noop(op) && out == *data[0].aval() {
        return Ok(data[0].clone());
    }
    let more = (!statics.is_empty() || !likes.is_empty()).then(|| More {
        statics,
        likes: likes.iter().map(|l| (*l).clone()).collect(),
        outs: Box::default(),
    });
    push(&out, recorded(op, more, data))
}

/// Records `out = op data`.
pub(crate) fn plain(op: Op, data: &[&Tensor]) -> Result<Tensor> {
    match elementwise(op, data) {
        Some(out) => push(&out, recorded(op, None, data)),
        None => one(op, [], data, &[]),
    }
}

/// A fresh value equal to `x`, which a transform differentiates by while `scope` is open.
pub(crate) fn traced_input(x: &Tensor, scope: &Arc<Scope>) -> Tensor {
    let mut recorded = recorded(Op::Identity, None, &[x]);
    let outer = std::mem::take(&mut recorded.scopes);
    recorded.scopes = outer.union(Scopes::one(scope.clone()));
    Tensor::new(x.aval(), Source::Op(recorded))
}

#[inline]
fn recorded(op: Op, more: Option<More>, data: &[&Tensor]) -> Recorded {
    let args = match data {
        [x, y] => SmallVec::from_buf([Arc::clone(&x.0), Arc::clone(&y.0)]),
        data => data.iter().map(|x| Arc::clone(&x.0)).collect(),
    };
    let (mut scopes, mut oldest) = (Scopes::default(), 0);
    for x in data {
        oldest = oldest.max(x.0.age);
        if x.0.is_traced() {
            scopes = scopes.union(x.0.scopes());
        }
    }
    Recorded {
        op,
        more: more.map(Box::new),
        args,
        age: next_age(oldest),
        scopes,
    }
}

#[inline]
fn push(aval: &Aval, recorded: Recorded) -> Result<Tensor> {
    let out = Tensor::new(aval, Source::Op(recorded));
    if is_op_by_op() {
        evaluate(&out)?;
    }
    Ok(out)
}

/// The aval of an elementwise op on operands of one dtype and shape, numbers of rank 0 aside: then the shape is known
/// without a rule. Nothing where it takes one.
#[inline]
fn elementwise(op: Op, data: &[&Tensor]) -> Option<Aval> {
    let (first, rest) = data.split_first()?;
    let mut widest = first.aval();
    for aval in rest.iter().map(|x| x.aval()) {
        let alike = aval == widest;
        if !alike && (aval.dtype() != widest.dtype() || aval.rank().min(widest.rank()) > 0) {
            return None;
        }
        if widest.rank() == 0 {
            widest = aval;
        }
    }
    let dtype = op.elementwise(data.len(), widest.dtype())?;
    Some(widest.with_dtype(dtype))
}

/// The avals of the results, by the rules of the op.
fn infer(
    op: Op,
    statics: &SmallVec<[Static; 1]>,
    data: &[&Tensor],
    likes: &[&Aval],
    n_outs: usize,
) -> Result<Vec<Aval>> {
    let avals = data.iter().map(|x| x.aval()).chain(likes.iter().copied());
    let avals: SmallVec<[ir::Aval; 3]> = avals.map(Aval::to_ir).collect();
    let args: SmallVec<[&ir::Aval; 3]> = avals.iter().collect();
    let outs = op.infer(statics, &args, n_outs)?;
    Ok(outs.iter().map(Aval::from_ir).collect())
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
    // Where panics abort there is nobody to return to, and the message is all that the user gets.
    if SCOPES.get() > 0 && cfg!(panic = "unwind") {
        // Without the message of the panic hook: the error is returned, not printed.
        panic::resume_unwind(Box::new(Raised(error)));
    }
    panic!("{error}")
}

/// The value, or its error raised at the caller.
#[track_caller]
pub(crate) fn expect<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}
