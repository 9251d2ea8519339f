//! Sums of cotangents at run time, of which one may be a part among zeros.

use crate::Tensor;
use crate::graph::engine::Engine;
use crate::tensor::replay::replay;
use gradloom_ir::{Builder, Eqn, Op, ad};

/// Returns `total + ct`.
///
/// If `ct` is the slice of an axis or of a range among zeros, only that is added: see [`ad::add_part`]. Bits do
/// not depend on whether `ct` is computed.
#[track_caller]
pub(crate) fn sum_of_cotangents(total: &Tensor, ct: &Tensor) -> Tensor {
    add_slice(total, ct).unwrap_or_else(|| total + ct)
}

fn add_slice(total: &Tensor, ct: &Tensor) -> Option<Tensor> {
    let op = ct.0.op;
    let read = match op {
        Op::SelectIndexT => Op::SelectIndex,
        Op::SliceT => Op::Slice,
        _ => return None,
    };
    if total.aval() != ct.aval() {
        return None;
    }
    let more = ct.0.more.as_deref()?;
    let operand = {
        let engine = Engine::lock();
        ct.0.operands(&engine.edges).first().map(Tensor::of)
    };
    let mut b = Builder::new();
    let attrs = more.statics.iter();
    let attrs: Vec<_> = attrs.map(|value| b.attr(value.clone())).collect();
    let whole = b.param(total.aval().to_ir());
    // What was computed has lost its operand, which is a part of it.
    let source = operand.as_ref().unwrap_or(ct);
    let param = b.param(source.aval().to_ir());
    let part = match operand {
        Some(_) => param,
        None => b.emit(read, &attrs, &[param, param]),
    };
    let eqn = Eqn {
        outs: [].into(),
        op,
        attrs: attrs.into(),
        args: [part, whole].into(),
    };
    let sum = ad::add_part(&mut b, whole, &eqn)?;
    let program = b.finish(vec![whole, param], vec![sum]);
    replay(&program, &[total.clone(), source.clone()])
        .ok()?
        .pop()
}
