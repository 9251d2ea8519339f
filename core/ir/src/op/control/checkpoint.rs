//! `checkpoint`: a program whose intermediate values reverse mode computes again.

use super::body;
use super::{Control, avals, check_args, control_op};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, Fault, Op, Program, Programs, Static, StaticKind, Var};

/// `y... = checkpoint[body] x...`: the results of the body, `x... -> y...`.
///
/// The pullback keeps the operands only.
pub(crate) struct Checkpoint;

control_op!(
    Checkpoint,
    "checkpoint",
    &[StaticKind::Programs.named("body")],
    batch,
    &[
        "(x: f64[2], y: f64[2]) { z, x2 = checkpoint[body=<(x: f64[2], y: f64[2]) { a = sin x b = mul a, y c = exp b return c, x }>] x, y return z, x2 }",
    ]
);

pub(crate) fn emit(b: &mut Builder, body: Program, args: &[Var]) -> Vec<Var> {
    let n_outs = body.outs.len();
    let body = b.attr(Programs::new(vec![body]));
    b.emit_many(Op::Checkpoint, &[body], args, n_outs)
}

impl Control for Checkpoint {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let body = &statics[0].programs().expect("a checkpoint has a body")[0];
        check_args(args, &avals(body, &body.params))?;
        Ok(avals(body, &body.outs))
    }
}

impl Checkpoint {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        let body = &of.statics[0].programs().expect("a checkpoint has a body")[0];
        crate::op::evaluate(body, of.args)
    }
}

/// Lanes are computed together.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let body = &statics[0].programs()?[0];
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let (all, each) = body::lanes(body, &each, &none, of.len)?;
    let args: Vec<Var> = of.args.iter().map(|arg| arg.var()).collect();
    let outs = emit(b, all, &args);
    Some(Lane::marked(outs, &each))
}
