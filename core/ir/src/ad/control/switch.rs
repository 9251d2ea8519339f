//! `switch`: the tangents and cotangents of the branch that is taken.

use super::body::{self, Halves, Pullback};
use crate::ad::Calls;
use crate::op::control::body::{chosen, n_marked, spread, zeros};
use crate::op::control::switch::emit;
use crate::op::control::{avals, programs};
use crate::{Aval, Builder, Eqn, Op, Program, Programs, Var};

pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let branches = programs(b, eqn);
    let active: Vec<bool> = dx[1..].iter().map(Option::is_some).collect();
    let given = union(&branches, |branch| body::active(branch, &active));
    let joint = |branch: &Program| body::joint(branch, &active, &given, calls);
    let joints: Vec<Program> = branches.iter().map(joint).collect();
    let dx: Vec<Var> = dx.iter().flatten().copied().collect();
    let (n, m) = (eqn.args.len() - 1, eqn.outs.len());
    let new = match calls {
        Calls::Joint => {
            let branches = b.attr(Programs::new(joints));
            let args = [&eqn.args[..], &dx].concat();
            body::append_joint(b, eqn, &given, vec![branches], args)
        }
        Calls::Split => {
            let halves: Vec<Halves> = joints
                .iter()
                .map(|joint| body::halves(joint, n, m))
                .collect();
            let residuals: Vec<Aval> = halves
                .iter()
                .flat_map(|half| avals(&half.known, &half.known.outs[m..]))
                .collect();
            let mut first = 0;
            let (mut known, mut linear) = (Vec::new(), Vec::new());
            for half in halves {
                let own = first..first + half.n_residuals;
                first = own.end;
                // A branch returns zeros as the residuals of the other branches.
                known.push(with_zeros(half.known, m, &residuals, own.clone()));
                linear.push(with_unread(half.linear, &residuals, own));
            }
            let saved: Vec<Var> = residuals.iter().map(|r| b.param(r.clone())).collect();
            let branches = b.attr(Programs::new(known));
            b.append(Eqn {
                outs: [&eqn.outs[..], &saved].concat().into(),
                op: Op::Switch,
                attrs: [branches].into(),
                args: eqn.args.clone(),
            });
            let args = [&eqn.args[..1], &saved, &dx].concat();
            emit(b, linear, &args, n_marked(&given))
        }
    };
    spread(&given, new)
}

/// Returns marks that are true where those of any branch are.
fn union(branches: &[Program], marks: impl Fn(&Program) -> Vec<bool>) -> Vec<bool> {
    let all = branches.iter().map(marks);
    let join = |a: Vec<bool>, b: Vec<bool>| a.iter().zip(&b).map(|(a, b)| *a || *b).collect();
    all.reduce(join).unwrap_or_default()
}

/// Adds zeros to the results of a branch, so that it returns the residuals of all branches.
fn with_zeros(
    mut known: Program,
    n_outs: usize,
    residuals: &[Aval],
    own: std::ops::Range<usize>,
) -> Program {
    let own_outs = known.outs.split_off(n_outs);
    let mut b = Builder::after(&known);
    known.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let all = residuals
        .iter()
        .enumerate()
        .map(|(i, aval)| match own.contains(&i) {
            true => own_outs[i - own.start],
            false => zeros(&mut b, aval),
        });
    let outs = known
        .outs
        .iter()
        .copied()
        .chain(all.collect::<Vec<_>>())
        .collect();
    b.finish(known.params, outs)
}

/// Adds parameters to the linear part of a branch, so that it takes the residuals of all branches.
fn with_unread(linear: Program, residuals: &[Aval], own: std::ops::Range<usize>) -> Program {
    let mut b = Builder::after(&linear);
    linear.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let (own_params, dx) = linear.params.split_at(own.len());
    let all = residuals
        .iter()
        .enumerate()
        .map(|(i, aval)| match own.contains(&i) {
            true => own_params[i - own.start],
            false => b.param(aval.clone()),
        });
    let params = all
        .collect::<Vec<_>>()
        .into_iter()
        .chain(dx.iter().copied())
        .collect();
    b.finish(params, linear.outs)
}

/// Emits the cotangents of the branch that was taken.
pub(super) fn cotangents(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
) -> Vec<Option<Var>> {
    let branches = programs(b, eqn);
    let linear = &linear[1..];
    let given: Vec<bool> = cts.iter().map(Option::is_some).collect();
    let backs: Vec<Pullback> = branches
        .iter()
        .map(|branch| body::pullback(branch, linear, &given))
        .collect();
    let mut nonzero = vec![false; linear.len()];
    for back in &backs {
        nonzero
            .iter_mut()
            .zip(&back.nonzero)
            .for_each(|(all, one)| *all |= one);
    }
    let full = |(branch, back): (&Program, Pullback)| {
        let mut b = Builder::after(&back.program);
        back.program
            .eqns
            .iter()
            .for_each(|eqn| b.append(eqn.clone()));
        let mut found = back.program.outs.iter();
        let mut outs = Vec::new();
        for (i, param) in branch
            .params
            .iter()
            .enumerate()
            .filter(|(i, _)| nonzero[*i])
        {
            outs.push(match back.nonzero[i] {
                true => *found.next().expect("a result for each cotangent"),
                false => zeros(&mut b, branch.aval(*param)),
            });
        }
        b.finish(back.program.params.clone(), outs)
    };
    let branches: Vec<Program> = branches.iter().zip(backs).map(full).collect();
    let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
    let mut args = vec![eqn.args[0]];
    args.extend(chosen(&eqn.args[1..], &known));
    args.extend(cts.iter().flatten());
    let mut found = emit(b, branches, &args, n_marked(&nonzero)).into_iter();
    let of_args = nonzero
        .iter()
        .map(|some| some.then(|| found.next()).flatten());
    [None]
        .into_iter()
        .chain(of_args.collect::<Vec<_>>())
        .collect()
}
