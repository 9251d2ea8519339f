//! Records ops as values of the lazy graph.
//!
//! Shape and dtype rules run here, so errors point at the user's call.

use crate::graph::pending;
use crate::graph::recording::is_watched;
use crate::graph::seq_no::next_seq_no;
use crate::graph::trace_scope::{Scope, Scopes};
use crate::graph::value::{NEVER, OpData, Shared, Value, ValueOperands, ValueSource};
use crate::graph::{handle, recorded_numbers, recording, run};
use crate::observe;
use crate::plan::limit;
use crate::tensor::batch_prefix::record_batched;
use crate::tensor::infer_cache;
use crate::tensor::infer_cache::{Inferred, Statics};
use crate::{Aval, DType, Result, Tensor};
use gradloom_ir::{Op, Static};
use smallvec::SmallVec;
use std::sync::Arc;
use triomphe::UniqueArc;

/// Records `outs = op[statics] data, likes`, an op with any number of results.
pub(crate) fn record_many(
    op: Op,
    statics: impl IntoIterator<Item = Static>,
    data: &[&Tensor],
    likes: &[&Aval],
    n_outs: usize,
) -> Result<Vec<Tensor>> {
    if n_outs == 1 {
        return Ok(vec![record_one(op, statics, data, likes)?]);
    }
    let statics: Statics = statics.into_iter().collect();
    let outs = match infer_cache::infer(op, &statics, data, likes, n_outs) {
        Ok(outs) => outs,
        Err(error) => {
            let cast = in_one_dtype(op, data).ok_or(error)??;
            return record_many(op, statics, &Vec::from_iter(&cast), likes, n_outs);
        }
    };
    let Some(first) = outs.first().cloned() else {
        return Ok(Vec::new());
    };
    let likes = likes.iter().map(|l| (*l).clone()).collect();
    let more = Arc::new(OpData::new(statics, likes, outs.into()));
    // A derivative passes if one of the results is a float.
    let mut dtypes = more.outs.iter().map(Aval::dtype);
    let dtype = dtypes
        .find(|dtype| dtype.is_float())
        .unwrap_or(first.dtype());
    let mut all = match value(&first, dtype, op, Some(more.clone()), data) {
        Ok(all) => all,
        Err(more) => return record_batched(op, more.as_deref(), data, n_outs),
    };
    if is_watched() {
        observe::join_graph(&mut all);
    }
    let all = all.shareable();
    let part = |(i, aval)| Tensor::new(aval, ValueSource::Part(all.clone(), i));
    let outs: Vec<Tensor> = (0..).zip(&more.outs).map(part).collect();
    let shared = || outs.iter().map(|out| Shared::clone(&out.0));
    let is_computed = is_watched() && observe::recorded(&Vec::from_iter(shared()))?;
    if !is_computed {
        bound_pending(&outs[0]);
    }
    Ok(outs)
}

/// Records `out = op[statics] data, likes`, an op with one result.
pub(crate) fn record_one(
    op: Op,
    statics: impl IntoIterator<Item = Static>,
    data: &[&Tensor],
    likes: &[&Aval],
) -> Result<Tensor> {
    let mut statics: Statics = statics.into_iter().collect();
    if let Some(dtype) = promoted(op, data) {
        return record_promoted(op, statics, data, likes, dtype);
    }
    let keeps = op.def().facts().equal.same_aval(statics.iter());
    let Inferred { out, more } = match infer_cache::infer_one(op, &mut statics, data, likes) {
        Ok(inferred) => inferred,
        Err(error) => {
            let cast = in_one_dtype(op, data).ok_or(error)??;
            return record_one(op, statics, &Vec::from_iter(&cast), likes);
        }
    };
    if op == Op::Scalar
        && let Some(more) = &more
        && let Some(argument) = recorded_numbers::noted(&more.statics[0], &out)
    {
        return Ok(Tensor(argument.into()));
    }
    // `identity` is recorded: its result is a separate value.
    if keeps && out == *data[0].aval() {
        return Ok(data[0].clone());
    }
    match value(&out, out.dtype(), op, more, data) {
        Ok(value) => push(value),
        Err(more) => Ok(record_batched(op, more.as_deref(), data, 1)?.remove(0)),
    }
}

/// Returns the dtype to which operands are cast before an op.
#[inline]
fn promoted(op: Op, data: &[&Tensor]) -> Option<DType> {
    let operands = data.get(op.promotes(data.len()))?;
    let [first, rest @ ..] = operands else {
        return None;
    };
    if !rest.is_empty() && rest.iter().all(|x| x.dtype() == first.dtype()) {
        return None;
    }
    op.cast_to(operands.iter().map(|x| x.dtype()))
}

/// Returns the operands of an op of a derivative, whose floats have several dtypes, in one of them.
///
/// A derivative that was made before its dtypes were known does not have the casts of promoted operands, so a cotangent
/// may be wider than the value. `None` if that is not the case, or if users call the op by a method.
#[cold]
fn in_one_dtype(op: Op, data: &[&Tensor]) -> Option<Result<Vec<Tensor>>> {
    let floats = data.iter().map(|x| x.dtype()).filter(|d| d.is_float());
    let dtype = floats
        .clone()
        .try_fold(floats.clone().next()?, DType::promoted)?;
    if floats.clone().all(|of| of == dtype) || !op.def().methods().is_empty() {
        return None;
    }
    let cast = |x: &&Tensor| match x.dtype().is_float() {
        true => record_cast(x, dtype),
        false => Ok((*x).clone()),
    };
    Some(data.iter().map(cast).collect())
}

fn record_cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    record_one(Op::Cast, [Static::DType(dtype)], &[x], &[x.aval()])
}

/// Records an op on operands that are cast to `dtype`.
#[cold]
fn record_promoted(
    op: Op,
    statics: Statics,
    data: &[&Tensor],
    likes: &[&Aval],
    dtype: DType,
) -> Result<Tensor> {
    let operands = op.promotes(data.len());
    let cast: Vec<Tensor> = data[operands.clone()]
        .iter()
        .map(|x| record_cast(x, dtype))
        .collect::<Result<_>>()?;
    let mut all = data.to_vec();
    all[operands].copy_from_slice(&cast.iter().collect::<Vec<_>>());
    // A like operand of a list or of a reduction is the operand itself.
    let of_operands: Vec<&Aval> = cast.iter().map(|x| x.aval()).collect();
    let is_operand = op == Op::Concat || of_operands.len() == 1;
    let likes = match is_operand && !likes.is_empty() {
        true => &of_operands,
        false => likes,
    };
    record_one(op, statics, &all, likes)
}

/// Records `out = op data`, an op without statics and like operands.
pub(crate) fn record_elementwise(op: Op, data: &[&Tensor]) -> Result<Tensor> {
    let like = match data {
        [x] => Some(x.aval()),
        [x, y] => broadcast_aval(x.aval(), y.aval()),
        _ => None,
    };
    if let Some(like) = like
        && let Some(dtype) = op.elementwise(data.len(), like.dtype())
    {
        return match value(like, dtype, op, None, data) {
            Ok(value) => push(value),
            Err(_) => Ok(record_batched(op, None, data, 1)?.remove(0)),
        };
    }
    record_one(op, [], data, &[])
}

/// Records `out = op x, y`. The operands are moved, which leaves their reference counts alone.
#[inline]
pub(crate) fn record_binary(op: Op, x: Tensor, y: Tensor) -> Result<Tensor> {
    if let Some(like) = broadcast_aval(x.aval(), y.aval())
        && let Some(dtype) = op.elementwise(2, like.dtype())
    {
        let Some(Provenance {
            seq_no,
            depth,
            scopes,
        }) = provenance(&[&x, &y])
        else {
            return Ok(record_batched(op, None, &[&x, &y], 1)?.remove(0));
        };
        let mut out = handle::value(like, dtype);
        let operands = ValueOperands::Two([x.0.into_shared(), y.0.into_shared()]);
        out.init_op(op, operands, seq_no, depth);
        if !scopes.is_empty() {
            out.set_scopes(of_result(scopes, op, dtype));
        }
        return push(out);
    }
    record_one(op, [], &[&x, &y], &[])
}

/// Returns a value equal to `x` that is another one for traces.
pub(crate) fn alias(x: &Tensor) -> Tensor {
    let physical = x.physical();
    let fresh = value(physical.aval(), x.dtype(), Op::Identity, None, &[&physical]);
    let Ok(fresh) = fresh else {
        unreachable!("a physical tensor has no batch prefix")
    };
    Tensor(fresh.into()).with_batch_dims(x.batch_dims())
}

/// Returns a value equal to `x` that depends on `scope`, so that a transform can trace from it.
pub(crate) fn traced_input(x: &Tensor, scope: &Arc<Scope>) -> Tensor {
    let physical = x.physical();
    let fresh = value(physical.aval(), x.dtype(), Op::Identity, None, &[&physical]);
    let Ok(mut fresh) = fresh else {
        unreachable!("a physical tensor has no batch prefix")
    };
    fresh.set_scopes(physical.0.scopes().union(Scopes::one(scope.clone())));
    let fresh = Tensor(fresh.into());
    if is_watched() {
        observe::stands_for(&fresh.0, &physical.0);
    }
    fresh.with_batch_dims(x.batch_dims())
}

/// Returns a value equal to `x` that stands for a parameter. `statics` are those of its op.
pub(crate) fn param_leaf(x: &Tensor, statics: [Static; 2]) -> Tensor {
    let physical = x.physical();
    let more = OpData::new(
        statics.into_iter().collect(),
        SmallVec::new(),
        Box::default(),
    );
    let more = Some(Arc::new(more));
    let fresh = value(physical.aval(), x.dtype(), Op::Custom, more, &[&physical]);
    let Ok(mut fresh) = fresh else {
        unreachable!("a physical tensor has no batch prefix")
    };
    fresh.set_scopes(physical.0.scopes().union(Scopes::of_params()));
    Tensor(fresh.into()).with_batch_dims(x.batch_dims())
}

/// Returns the operands of an op.
#[inline]
fn of(data: &[&Tensor]) -> ValueOperands {
    match data {
        [] => ValueOperands::None,
        [x] => ValueOperands::One(Shared::clone(&x.0)),
        [x, y] => ValueOperands::Two([Shared::clone(&x.0), Shared::clone(&y.0)]),
        data => ValueOperands::Many(data.iter().map(|x| Shared::clone(&x.0)).collect()),
    }
}

/// Returns the value of an op, with the shape of `like`. If an operand has a batch prefix, returns `more`.
#[inline]
fn value(
    like: &Aval,
    dtype: DType,
    op: Op,
    more: Option<Arc<OpData>>,
    data: &[&Tensor],
) -> Result<UniqueArc<Value>, Option<Arc<OpData>>> {
    let Some(Provenance {
        seq_no,
        depth,
        scopes,
    }) = provenance(data)
    else {
        return Err(more);
    };
    let mut value = handle::value(like, dtype);
    value.init_op(op, of(data), seq_no, depth);
    if more.is_some() {
        value.more = more;
    }
    if !scopes.is_empty() {
        value.set_scopes(of_result(scopes, op, dtype));
    }
    Ok(value)
}

/// Returns the scopes of a result, given those of the operands. No derivative passes to parameters through a result
/// that is not a float.
fn of_result(scopes: Scopes, op: Op, dtype: DType) -> Scopes {
    match dtype.is_float() && op != Op::StopGradient {
        true => scopes,
        false => scopes.without_params(),
    }
}

/// Properties that a value inherits from the operands of its op.
struct Provenance {
    seq_no: u64,
    /// Length of the longest chain of pending ops that ends here.
    depth: u32,
    /// Scopes of the transforms that trace the value.
    scopes: Scopes,
}

/// Returns the provenance of an op, or `None` if an operand has a batch prefix.
#[inline]
fn provenance(data: &[&Tensor]) -> Option<Provenance> {
    let (mut scopes, mut oldest, mut depth) = (Scopes::default(), 0, 0);
    for x in data {
        oldest = oldest.max(x.0.seq_no);
        depth = depth.max(x.0.depth());
        if x.0.is_in_scope() {
            scopes = scopes.union(x.0.scopes());
        }
    }
    if !scopes.is_empty() && recording::ignores_params() {
        scopes = scopes.without_params();
    }
    // No op computes a value with a prefix, so its depth is the largest one.
    if depth == NEVER && data.iter().any(|x| x.batch_dims() > 0) {
        return None;
    }
    Some(Provenance {
        seq_no: next_seq_no(oldest),
        depth: depth.saturating_add(1),
        scopes,
    })
}

/// Returns the tensor of a recorded op. Computes a part of its pending chain if that is long.
#[inline]
fn push(value: UniqueArc<Value>) -> Result<Tensor> {
    if is_watched() {
        return push_watched(value);
    }
    let out = Tensor(value.into());
    bound_pending(&out);
    Ok(out)
}

#[cold]
fn push_watched(mut value: UniqueArc<Value>) -> Result<Tensor> {
    observe::join_graph(&mut value);
    let out = Tensor(value.into());
    if !observe::recorded(std::slice::from_ref(&*out.0))? {
        bound_pending(&out);
    }
    Ok(out)
}

/// Length of a chain of pending ops that is computed without a request.
///
/// The limit bounds the memory of a loop that reads no value, and the time to make its plans.
pub(crate) const MAX_PENDING_OPS: u32 = 256;

/// The same while a memory limit is set: the values between two parts stay in memory, and are not computed again.
const MAX_LIMITED_OPS: u32 = 64 * MAX_PENDING_OPS;

/// Computes a part of the chain that ends at `out`, if it has [`MAX_PENDING_OPS`].
#[inline]
fn bound_pending(out: &Tensor) {
    if out.0.depth().is_multiple_of(MAX_PENDING_OPS) {
        run_pending(out);
    }
}

#[cold]
fn run_pending(out: &Tensor) {
    // Traced ops have to stay, and the plan of a call that is being recorded contains all its ops.
    if out.0.is_traced() || recording::is_recording() {
        return;
    }
    // The recorded depth is too large if a value in the chain has been realised since.
    let most = match limit::limit() {
        usize::MAX => MAX_PENDING_OPS,
        _ => MAX_LIMITED_OPS,
    };
    if pending::correct_depths(&out.0) < most {
        return;
    }
    let cut = pending::cut_of_chain(&out.0, most / 2);
    // On failure the value stays a promise, and the error is returned when the user requests it.
    // Its consumers fail too, so they are not tried again.
    match run::realise(&[cut]) {
        Ok(()) => {
            pending::correct_depths(&out.0);
        }
        Err(_) => out.0.set_depth(NEVER),
    }
}

/// Returns the operand with the shape and dtype of an elementwise result, if no rule is needed.
///
/// That is the case if both avals are equal, or if the dtypes are equal and one operand has rank 0.
#[inline]
fn broadcast_aval<'a>(x: &'a Aval, y: &'a Aval) -> Option<&'a Aval> {
    if x == y {
        return Some(x);
    }
    match (x.dtype() == y.dtype(), x.rank(), y.rank()) {
        (true, 0, _) => Some(y),
        (true, _, 0) => Some(x),
        _ => None,
    }
}
