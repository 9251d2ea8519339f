//! `checkpoint`: the pullback computes the values of the body again.

use super::body::{self, Pullback};
use crate::ad::Calls;
use crate::op::control::body::{chosen, n_marked, spread};
use crate::op::control::checkpoint::emit;
use crate::op::control::programs;
use crate::{Builder, Eqn, Programs, Var, pass};

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
            let body = b.attr(Programs::new(vec![joint]));
            body::append_joint(b, eqn, &given, vec![body], args)
        }
        Calls::Split => {
            b.append(eqn.clone());
            let mut joint = joint;
            joint.outs.drain(..n_outs);
            emit(b, pass::simplify(joint), &args)
        }
    };
    spread(&given, new)
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
    let found = emit(b, program, &args);
    spread(&nonzero, found)
}
