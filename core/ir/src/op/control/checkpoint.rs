//! `checkpoint`: a program whose intermediate values reverse mode computes again.

use super::body;
use super::{Control, avals, check_args, check_number, control_op, count};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, Fault, Op, Program, Programs, Static, StaticKind, Var};

/// `y... = checkpoint[body, kept] x...`: the results of the body, `x... -> y..., k...`, without the last
/// `kept`.
///
/// The pullback keeps the operands and the kept values.
pub(crate) struct Checkpoint;

control_op!(
    Checkpoint,
    "checkpoint",
    &[
        StaticKind::Programs.named("body"),
        StaticKind::Count.named("kept"),
    ],
    batch,
    &[
        "(x: f64[2], y: f64[2]) { z, x2 = checkpoint[body=<(x: f64[2], y: f64[2]) { a = sin x b = mul a, y c = exp b return c, x }>, kept=0] x, y return z, x2 }",
        "(x: f64[2], y: f64[2]) { z = checkpoint[body=<(x: f64[2], y: f64[2]) { a = sin x b = mul a, y c = exp b return c, b }>, kept=1] x, y return z }",
    ]
);

/// Emits a checkpoint whose last `kept` results are what the pullback keeps.
pub(crate) fn emit(b: &mut Builder, body: Program, kept: usize, args: &[Var]) -> Vec<Var> {
    let n_outs = body.outs.len() - kept;
    let attrs = [b.attr(Programs::new(vec![body])), b.attr(kept as i64)];
    b.emit_many(Op::Checkpoint, &attrs, args, n_outs)
}

impl Control for Checkpoint {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let body = &statics[0].programs().expect("a checkpoint has a body")[0];
        check_args(args, &avals(body, &body.params))?;
        let mut outs = avals(body, &body.outs);
        let kept = count(statics, 1);
        check_number(kept, kept.min(outs.len()))?;
        outs.truncate(outs.len() - kept);
        Ok(outs)
    }
}

impl Checkpoint {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let body = &of.statics[0].programs().expect("a checkpoint has a body")[0];
        let mut outs = crate::op::evaluate(body, of.args);
        outs.truncate(of.outs.len());
        outs
    }
}

/// Lanes are computed together.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let body = &statics[0].programs()?[0];
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let (all, each) = body::lanes(body, &each, &none, of.batching())?;
    let args: Vec<Var> = of.args.iter().map(|arg| arg.var()).collect();
    let kept = count(&statics, 1);
    let outs = emit(b, all, kept, &args);
    Some(Lane::marked(outs, &each[..of.eqn.outs.len()]))
}
