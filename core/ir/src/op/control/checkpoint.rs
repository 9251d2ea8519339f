//! `checkpoint`: a program whose intermediate values reverse mode computes again.

use super::body::{self, Pullback, chosen, n_marked};
use super::{Control, avals, check_args, control_op, programs};
use crate::ad::Calls;
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, Eqn, Fault, Op, Program, Programs, Static, StaticKind, Var, pass};

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

fn emit(b: &mut Builder, body: Program, args: &[Var]) -> Vec<Var> {
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

    fn tangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        dx: &[Option<Var>],
        calls: Calls,
    ) -> Vec<Option<Var>> {
        let body = programs(b, eqn).remove(0);
        let active: Vec<bool> = dx.iter().map(Option::is_some).collect();
        let given = body::active(&body, &active);
        let joint = body::joint(&body, &active, &given, calls);
        let dx = dx.iter().flatten().copied();
        let args: Vec<Var> = eqn.args.iter().copied().chain(dx).collect();
        let n_outs = eqn.outs.len();
        let new = match calls {
            Calls::Joint => {
                let y = chosen(&eqn.outs, &given);
                let dy: Vec<Var> = y.iter().map(|y| b.param_like(*y)).collect();
                let body = b.attr(Programs::new(vec![joint]));
                b.append(Eqn {
                    outs: [&eqn.outs[..], &dy].concat(),
                    op: Op::Checkpoint,
                    attrs: vec![body],
                    args,
                });
                dy
            }
            Calls::Split => {
                b.append(eqn.clone());
                let mut joint = joint;
                joint.outs.drain(..n_outs);
                emit(b, pass::simplify(joint), &args)
            }
        };
        let mut new = new.into_iter();
        given
            .iter()
            .map(|given| given.then(|| new.next()).flatten())
            .collect()
    }
}

impl Checkpoint {
    /// Emits the pullback, which computes the values of the body again.
    pub(super) fn cotangents(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let body = programs(b, eqn).remove(0);
        let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
        let Pullback { program, nonzero } = body::pullback(&body, linear, &given);
        let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
        let mut args = chosen(&eqn.args, &known);
        args.extend(cts.iter().flatten());
        if n_marked(&nonzero) == 0 {
            return vec![None; nonzero.len()];
        }
        let mut found = emit(b, program, &args).into_iter();
        nonzero
            .iter()
            .map(|some| some.then(|| found.next()).flatten())
            .collect()
    }

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
    let lane = |(out, each): (Var, bool)| match each {
        true => Lane::Each(out),
        false => Lane::Shared(out),
    };
    Some(outs.into_iter().zip(each).map(lane).collect())
}
