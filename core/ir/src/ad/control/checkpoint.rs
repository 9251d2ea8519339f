//! `checkpoint`: the pullback computes the values of the body again.

use super::body::{self, Pullback};
use crate::ad::Calls;
use crate::op::control::body::{chosen, n_marked};
use crate::op::control::checkpoint::emit;
use crate::op::control::programs;
use crate::{Builder, Eqn, Op, Programs, Var, pass};

pub(super) fn tangents(
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

/// Emits the pullback, which computes the values of the body again.
pub(super) fn cotangents(
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
