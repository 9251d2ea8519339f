//! `checkpoint`: the pullback computes the values of the body again, except those that it keeps.

use super::body::{self, Pullback};
use crate::ad::Calls;
use crate::op::control::body::{chosen, n_marked, spread};
use crate::op::control::checkpoint::emit;
use crate::op::control::programs;
use crate::{Builder, Eqn, Op, Program, Programs, SecondaryMap, Var, pass};

pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let body = programs(b, eqn).remove(0);
    let active: Vec<bool> = dx.iter().map(Option::is_some).collect();
    let n_outs = eqn.outs.len();
    let (_, kept) = body.outs.split_at(n_outs);
    let mut given = body::active(&body, &active);
    given[n_outs..].fill(false);
    let mut joint = body::joint(&body, &active, &given, calls);
    given.truncate(n_outs);
    let dx = dx.iter().flatten().copied();
    let new = match calls {
        Calls::Joint => {
            joint.outs[n_outs..].rotate_left(kept.len());
            let attrs = vec![b.attr(Programs::new(vec![joint])), eqn.attrs[1]];
            let args = eqn.args.iter().copied().chain(dx).collect();
            body::append_joint(b, eqn, &given, attrs, args)
        }
        Calls::Split => {
            let kept = kept.iter().map(|k| b.param(body.aval(*k).clone()));
            let kept: Vec<Var> = kept.collect();
            let given_kept = linear(joint, eqn.args.len(), n_outs, kept.len());
            let attrs = vec![b.attr(Programs::new(vec![body])), b.attr(0)];
            b.append(Eqn {
                outs: [&eqn.outs[..], &kept].concat().into(),
                op: Op::Checkpoint,
                attrs: attrs.into(),
                args: eqn.args.clone(),
            });
            let args = eqn.args.iter().copied().chain(kept).chain(dx);
            emit(b, given_kept, 0, &args.collect::<Vec<_>>())
        }
    };
    spread(&given, new)
}

/// Returns the program `x, k, dx -> dy` that takes the kept values, for `x, dx -> y, k, dy`.
fn linear(joint: Program, n_args: usize, n_outs: usize, n_kept: usize) -> Program {
    let (kept, dy) = joint.outs[n_outs..].split_at(n_kept);
    let mut b = Builder::after(&joint);
    let params: Vec<Var> = kept.iter().map(|k| b.param_like(*k)).collect();
    let given: SecondaryMap<Var, Var> = kept.iter().copied().zip(params.iter().copied()).collect();
    let with_given =
        |vars: &[Var]| -> Vec<Var> { vars.iter().map(|v| *given.get(*v).unwrap_or(v)).collect() };
    for eqn in &joint.eqns {
        let args = with_given(&eqn.args);
        b.append(Eqn {
            args: args.into(),
            ..eqn.clone()
        });
    }
    let (x, dx) = joint.params.split_at(n_args);
    pass::simplify(b.finish([x, &params, dx].concat(), with_given(dy)))
}

/// Emits the pullback, which computes the values of the body again.
pub(super) fn cotangents(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
) -> Vec<Option<Var>> {
    let mut body = programs(b, eqn).remove(0);
    body.outs.truncate(cts.len());
    let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let Pullback { program, nonzero } = body::pullback(&body, linear, &given);
    let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
    let mut args = chosen(&eqn.args, &known);
    args.extend(cts.iter().flatten());
    if n_marked(&nonzero) == 0 {
        return vec![None; nonzero.len()];
    }
    let found = emit(b, program, 0, &args);
    spread(&nonzero, found)
}
