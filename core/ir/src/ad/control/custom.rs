//! `custom_jvp` and `custom_vjp`: the rules of the user.

use super::body;
use crate::ad::Calls;
use crate::op::control::body::{inline, zeros};
use crate::op::control::checkpoint::emit;
use crate::op::control::programs;
use crate::{Builder, Eqn, Op, Programs, Var, pass};

/// Emits `y` as the value of a variable that the equation binds.
fn bind(b: &mut Builder, out: Var, y: Var) {
    b.append(Eqn {
        outs: [out].into(),
        op: Op::Identity,
        attrs: [].into(),
        args: [y].into(),
    });
}

/// Appends the rule of a `custom_jvp`.
pub(super) fn tangents_of_jvp(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let rule = programs(b, eqn).remove(1);
    let consts = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
    let n_outs = eqn.outs.len();
    // The result has the derivative of the rule in the rule, too.
    b.append(eqn.clone());
    let known = [&eqn.args[..], &eqn.outs].concat();
    match calls {
        Calls::Joint => {
            let pairs = eqn.args.iter().zip(dx).skip(consts);
            let dx: Vec<Var> = pairs
                .map(|(x, dx)| dx.unwrap_or_else(|| b.zeros_like(*x)))
                .collect();
            let dy = inline(b, &rule, &[known, dx].concat());
            dy.into_iter().map(Some).collect()
        }
        Calls::Split => {
            // The rule is linear in `dx`, so it is its own derivative, at any `dx`. The derivative is
            // made of ops that can be transposed.
            let of_dx = dx[consts..].iter().map(Option::is_some);
            let active: Vec<bool> = vec![false; known.len()].into_iter().chain(of_dx).collect();
            let mut joint = body::joint(&rule, &active, &vec![true; n_outs], calls);
            joint.outs.drain(..n_outs);
            let joint = pass::simplify(joint);
            let zero: Vec<Var> = eqn.args[consts..]
                .iter()
                .map(|x| b.zeros_like(*x))
                .collect();
            let dx: Vec<Var> = dx[consts..].iter().flatten().copied().collect();
            let args = [known, zero, dx].concat();
            let dy = emit(b, joint, 0, &args);
            dy.into_iter().map(Some).collect()
        }
    }
}

/// Appends the forward rule of a `custom_vjp`, and an equation whose transpose is the backward rule.
pub(super) fn tangents_of_vjp(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    _: Calls,
) -> Vec<Option<Var>> {
    let mut all = programs(b, eqn);
    let (backward, forward) = (all.remove(2), all.remove(1));
    let consts = b.static_of(eqn.attrs[1]).int().unwrap_or(0) as usize;
    let outs = inline(b, &forward, &eqn.args);
    let (y, saved) = outs.split_at(eqn.outs.len());
    eqn.outs
        .iter()
        .zip(y)
        .for_each(|(out, y)| bind(b, *out, *y));
    let pairs = eqn.args.iter().zip(dx).skip(consts);
    let dx: Vec<Var> = pairs
        .map(|(x, dx)| dx.unwrap_or_else(|| b.zeros_like(*x)))
        .collect();
    let args = [&eqn.args[..consts], saved, &dx].concat();
    let counts = [consts, saved.len()].map(|n| b.attr(n as i64));
    let attrs = [b.attr(Programs::new(vec![backward])), counts[0], counts[1]];
    let dy = b.emit_many(Op::CustomLin, &attrs, &args, eqn.outs.len());
    dy.into_iter().map(Some).collect()
}

/// Emits the backward rule of a `custom_vjp`.
pub(super) fn cotangents_of_lin(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    _: &[bool],
) -> Vec<Option<Var>> {
    let backward = programs(b, eqn).remove(0);
    let n_known = [1, 2].map(|i| b.static_of(eqn.attrs[i]).int().unwrap_or(0) as usize);
    let n_known: usize = n_known.iter().sum();
    let cts: Vec<Var> = backward.params[n_known..]
        .iter()
        .zip(cts)
        .map(|(param, ct)| ct.unwrap_or_else(|| zeros(b, backward.aval(*param))))
        .collect();
    let pulled = inline(b, &backward, &[&eqn.args[..n_known], &cts].concat());
    vec![None; n_known]
        .into_iter()
        .chain(pulled.into_iter().map(Some))
        .collect()
}
