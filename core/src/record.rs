//! A call of an op becomes a node of the graph. The rules run here, so an error is at the call that made it.

use crate::node::{OpNode, Scope, Scopes, Source, Stamp, next_age};
use crate::testing::is_op_by_op;
use crate::{Aval, Error, Result, Tensor, evaluate};
use gradloom_ir::{self as ir, Op, Static};
use std::cell::Cell;
use std::panic;
use std::sync::Arc;

/// Records `outs = op[statics] data, likes`.
pub(crate) fn apply(
    op: Op,
    statics: Vec<Static>,
    data: &[&Tensor],
    likes: &[&Aval],
    n_outs: usize,
) -> Result<Vec<Tensor>> {
    let avals: Vec<ir::Aval> = data
        .iter()
        .map(|x| x.aval().to_ir())
        .chain(likes.iter().map(|l| l.to_ir()))
        .collect();
    let outs = op.infer(&statics, &avals.iter().collect::<Vec<_>>(), n_outs)?;
    let outs: Box<[Aval]> = outs.iter().map(Aval::from_ir).collect();
    if is_noop(op) && outs[0] == *data[0].aval() {
        return Ok(vec![data[0].clone()]);
    }
    let scopes = scopes_of(data);
    let outs = push(op, statics, data, likes, outs, scopes);
    if is_op_by_op() {
        evaluate(&outs)?;
    }
    Ok(outs)
}

/// A fresh value equal to `x`, which a transform differentiates by while `scope` is open.
pub(crate) fn traced_input(x: &Tensor, scope: &Arc<Scope>) -> Tensor {
    let outs = Box::new([x.aval().clone()]);
    let scopes = scopes_of(&[x]).union(Scopes::one(scope.clone()));
    push(Op::Identity, Vec::new(), &[x], &[], outs, scopes).remove(0)
}

fn scopes_of(data: &[&Tensor]) -> Scopes {
    data.iter()
        .map(|x| x.0.scopes())
        .fold(Scopes::default(), Scopes::union)
}

fn push(
    op: Op,
    statics: Vec<Static>,
    data: &[&Tensor],
    likes: &[&Aval],
    outs: Box<[Aval]>,
    scopes: Scopes,
) -> Vec<Tensor> {
    let n_outs = outs.len();
    let node = Arc::new(OpNode {
        op,
        statics: statics.into(),
        args: data.iter().map(|x| x.0.clone()).collect(),
        likes: likes.iter().map(|l| (*l).clone()).collect(),
        outs,
        scopes,
        age: next_age(),
        stamp: Stamp::default(),
    });
    (0..n_outs)
        .map(|i| Tensor::new(&node.outs[i], Source::Op(node.clone(), i)))
        .collect()
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
