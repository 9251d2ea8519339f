//! Sums of cotangents at run time, of which one may be a part among zeros.

use crate::Tensor;
use crate::graph::engine::Engine;
use crate::tensor::replay::{Bound, replay_bound};
use gradloom_ir::{Builder, Eqn, Op, ad};

/// Returns `total + ct`.
///
/// If `ct` is promised as a part among zeros, only the part is added: see [`ad::add_part`].
#[track_caller]
pub(crate) fn sum_of_cotangents(total: &Tensor, ct: &Tensor) -> Tensor {
    add_promised_part(total, ct).unwrap_or_else(|| total + ct)
}

fn add_promised_part(total: &Tensor, ct: &Tensor) -> Option<Tensor> {
    let op = ct.0.op;
    let is_part = matches!(
        op,
        Op::SelectIndexT | Op::SliceT | Op::TakeT | Op::DynamicSliceT
    );
    if !is_part || !ct.0.has_op() || ct.0.has_elements() || total.aval() != ct.aval() {
        return None;
    }
    let operands: Vec<Tensor> = {
        let engine = Engine::lock();
        let operands = ct.0.operands(&engine.edges).iter();
        operands.map(Tensor::of).collect()
    };
    let more = ct.0.more.as_deref()?;
    let data = std::iter::once(total).chain(&operands);
    let bound: Vec<Bound> = data
        .map(|x| Bound::Tensor(x.clone()))
        .chain(more.likes.iter().cloned().map(Bound::Aval))
        .collect();
    let mut b = Builder::new();
    let params: Vec<_> = bound.iter().map(|x| b.param(x.aval().to_ir())).collect();
    let eqn = Eqn {
        outs: Vec::new(),
        op,
        attrs: more
            .statics
            .iter()
            .map(|value| b.attr(value.clone()))
            .collect(),
        args: params[1..].to_vec(),
    };
    let sum = ad::add_part(&mut b, params[0], &eqn)?;
    let program = b.finish(params, vec![sum]);
    let sum = replay_bound(&program, &bound).ok()?.pop()?;
    sum.into_tensor()
}
