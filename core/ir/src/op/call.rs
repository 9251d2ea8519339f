//! Calls of other traced functions. The callee is a host path: its rules are its companions, found by name.
//!
//! | op | reads | binds |
//! |---|---|---|
//! | `call[callee]` | arguments | results |
//! | `call_fwd[callee]` | arguments | results, then the callee's residuals as one opaque value |
//! | `call_jvp[callee, active]` | arguments, then tangents of the active ones | results, then their tangents |
//! | `call_lin[callee, active]` | residuals, then tangents of the active arguments | tangents of the results |
//! | `call_pull[callee, active, given]` | residuals, then the cotangents of the given results | cotangents of the active arguments |
//!
//! `active` lists the arguments with a tangent, `given` the results with a cotangent. The differentiator emits
//! `call_jvp` in forward mode and `call_fwd` with `call_lin` in reverse mode, where the latter is transposed.

use super::{Diff, Eval, Laws, Method, OpDef, Operands, not_linear};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

macro_rules! call_op {
    ($var:ident, $name:literal, $statics:expr, $diff:expr, $transpose:expr) => {
        pub(super) struct $var;

        impl OpDef for $var {
            fn name(&self) -> &'static str {
                $name
            }
            fn operands(&self) -> Operands {
                Operands::Many
            }
            fn statics(&self) -> &'static [&'static str] {
                $statics
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
                $diff
            }
            fn jvp(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>]) -> Vec<Option<Var>> {
                unreachable!("`ad::jvp` differentiates calls itself, because a call knows its mode")
            }
            fn transpose(
                &self,
                b: &mut Builder,
                eqn: &Eqn,
                cts: &[Option<Var>],
                linear: &[bool],
            ) -> Vec<Option<Var>> {
                let transpose: fn(
                    &Self,
                    &mut Builder,
                    &Eqn,
                    &[Option<Var>],
                    &[bool],
                ) -> Vec<Option<Var>> = $transpose;
                transpose(self, b, eqn, cts, linear)
            }
            fn eval(&self) -> Eval {
                Eval::Call
            }
            fn laws(&self) -> Laws {
                Laws::new((0.0, 1.0), &[])
            }
        }
    };
}

call_op!(Call, "call", &["callee"], Diff::Smooth, |op, _, _, _, _| {
    not_linear(op)
});
call_op!(
    CallFwd,
    "call_fwd",
    &["callee"],
    Diff::Smooth,
    |op, _, _, _, _| not_linear(op)
);
call_op!(
    CallJvp,
    "call_jvp",
    &["callee", "active"],
    Diff::Smooth,
    |op, _, _, _, _| not_linear(op)
);
call_op!(
    CallLin,
    "call_lin",
    &["callee", "active"],
    Diff::Linear,
    |_, b, eqn, cts, _| {
        let given: Vec<i64> = (0..cts.len() as i64)
            .filter(|i| cts[*i as usize].is_some())
            .collect();
        let given = b.attr(given);
        let args: Vec<Var> = std::iter::once(eqn.args[0])
            .chain(cts.iter().flatten().copied())
            .collect();
        let attrs = [eqn.attrs[0], eqn.attrs[1], given];
        let n_active = eqn.args.len() - 1;
        let arg_cts = b.emit_many(Op::CallPull, &attrs, &args, n_active);
        std::iter::once(None)
            .chain(arg_cts.into_iter().map(Some))
            .collect()
    }
);
call_op!(
    CallPull,
    "call_pull",
    &["callee", "active", "given"],
    Diff::Linear,
    |op, _, _, _, _| not_linear(op)
);
