//! Calls of other traced functions.
//!
//! The callee is a host path, and its companion functions, found by name, act as the rules of the
//! call.
//!
//! | op | reads | binds |
//! |---|---|---|
//! | `call[callee]` | arguments | results |
//! | `call_fwd[callee, active]` | arguments | results, then the callee's residuals as one opaque value |
//! | `call_jvp[callee, active]` | arguments, then tangents of the active ones | results, then their tangents |
//! | `call_lin[callee, active]` | residuals, then tangents of the active arguments | tangents of the results |
//! | `call_pull[callee, active, given]` | residuals, then the cotangents of the given results | cotangents of the active arguments |
//!
//! `active` lists the arguments with a tangent, and `given` the results with a cotangent. Forward
//! mode emits `call_jvp`. Reverse mode emits `call_fwd` and `call_lin`, and transposes the latter.

use super::{Count, Diff, Eval, Laws, Method, OpDef, OpFacts, Operands, axes, lanes, not_linear};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var};

pub(super) static CALL: CallOp = CallOp {
    name: "call",
    statics: &[StaticKind::Callee.named("callee")],
    diff: Diff::Smooth,
    transpose: None,
};

pub(super) static FWD: CallOp = CallOp {
    name: "call_fwd",
    statics: &[
        StaticKind::Callee.named("callee"),
        StaticKind::Positions.named("active"),
    ],
    diff: Diff::Smooth,
    transpose: None,
};

pub(super) static JVP: CallOp = CallOp {
    name: "call_jvp",
    statics: &[
        StaticKind::Callee.named("callee"),
        StaticKind::Positions.named("active"),
    ],
    diff: Diff::Smooth,
    transpose: None,
};

pub(super) static LIN: CallOp = CallOp {
    name: "call_lin",
    statics: &[
        StaticKind::Callee.named("callee"),
        StaticKind::Positions.named("active"),
    ],
    diff: Diff::Linear,
    transpose: Some(pull),
};

pub(super) static PULL: CallOp = CallOp {
    name: "call_pull",
    statics: &[
        StaticKind::Callee.named("callee"),
        StaticKind::Positions.named("active"),
        StaticKind::Positions.named("given"),
    ],
    diff: Diff::Linear,
    transpose: None,
};

/// Emits `call_pull` for the results that have a cotangent.
fn pull(b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>]) -> Vec<Option<Var>> {
    let given = (0..cts.len()).filter(|i| cts[*i].is_some());
    let given: Vec<i64> = given.map(|i| i as i64).collect();
    let given = b.attr(given);
    let residuals = eqn.args[0];
    let cts = cts.iter().flatten().copied();
    let args: Vec<Var> = std::iter::once(residuals).chain(cts).collect();
    let attrs = [eqn.attrs[0], eqn.attrs[1], given];
    let n_active = eqn.args.len() - 1;
    let arg_cts = b.emit_many(Op::CallPull, &attrs, &args, n_active);
    // The residuals are not linear and have no cotangent.
    let arg_cts = arg_cts.into_iter().map(Some);
    std::iter::once(None).chain(arg_cts).collect()
}

/// An op that stands for a call. Its results have unknown avals.
pub(super) struct CallOp {
    name: &'static str,
    statics: &'static [StaticArg],
    diff: Diff,
    /// Emits the cotangents of all operands. `None` if the op is never applied to tangents.
    transpose: Option<CallTranspose>,
}

type CallTranspose = fn(b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>]) -> Vec<Option<Var>>;

impl OpDef for CallOp {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Any
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, _: &[Static], _: &[&Aval], n_outs: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![Shape::UNKNOWN; n_outs])
    }
    fn dtype(&self, _: &[Static], _: &[&Aval]) -> Result<Option<DType>, Fault> {
        Ok(None)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        self.diff
    }
    fn jvp(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>]) -> Vec<Option<Var>> {
        unreachable!("`ad::jvp` differentiates calls itself")
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        match self.transpose {
            Some(transpose) => transpose(b, eqn, cts),
            None => not_linear(self),
        }
    }
    fn eval(&self) -> Eval {
        Eval::Call
    }
    fn count(&self) -> Count {
        Count::Unknown
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::opaque(axes::opaque(lanes::call)) }
    }
    fn laws(&self) -> Laws {
        Laws::new((0.0, 1.0), &[])
    }
}
