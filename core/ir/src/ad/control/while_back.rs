//! `while_back`: tangents on both ways.

use super::body;
use super::while_loop::{beside, condition_beside_tangents, tangents_of};
use crate::ad::Calls;
use crate::op::control::body::{n_marked, parts, spread};
use crate::op::control::programs;
use crate::op::control::while_loop::{marks, statics};
use crate::{Builder, Eqn, Op, Program, Var};

pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let [cond, forward, backward]: [Program; 3] =
        programs(b, eqn).try_into().expect("three programs");
    let [consts, carry] = [1, 2].map(|i| b.static_of(eqn.attrs[i]).int().unwrap_or(0) as usize);
    let n_there = consts + carry;
    let given: Vec<bool> = dx.iter().map(Option::is_some).collect();
    let there = marks(given[..n_there].to_vec(), consts, |marks| {
        body::active(&forward, marks)
    });
    let mut forward_outs = body::active(&forward, &there);
    forward_outs[..carry].copy_from_slice(&there[consts..]);
    let taped = &forward_outs[carry..];
    let fixed = [&there[..consts], taped].concat();
    let back = marks([&fixed, &given[n_there..]].concat(), fixed.len(), |marks| {
        body::active(&backward, marks)
    });
    let states = back[fixed.len()..].to_vec();

    let joint = body::joint(&forward, &there, &forward_outs, calls);
    let (n, m) = (forward.params.len(), forward.outs.len());
    let forward = Program {
        params: beside(&joint.params[..n], &joint.params[n..], &there, consts),
        outs: beside(&joint.outs[..m], &joint.outs[m..], &forward_outs, carry),
        ..joint
    };
    let joint = body::joint(&backward, &back, &states, calls);
    let lens = [consts, taped.len(), states.len()];
    let marked = parts(&back, lens).map(|kind| n_marked(&kind));
    let n = backward.params.len();
    let values = parts(&joint.params[..n], lens);
    let tangents = parts(&joint.params[n..], marked);
    let params = values.into_iter().zip(tangents).flat_map(|(x, dx)| [x, dx]);
    let backward = Program {
        params: params.flatten().collect(),
        ..joint
    };
    let cond = condition_beside_tangents(&cond, consts, &there);

    let active = [&there[..], &states].concat();
    let tangents = tangents_of(b, &eqn.args, dx, &active);
    let lens = [consts, carry, states.len()];
    let marked = parts(&active, lens).map(|kind| n_marked(&kind));
    let pairs = parts(&eqn.args, lens)
        .into_iter()
        .zip(parts(&tangents, marked));
    let args: Vec<Var> = pairs.flat_map(|(x, dx)| [x, dx]).flatten().collect();
    let counts = [consts + marked[0], carry + marked[1]];
    let attrs = statics(b, vec![cond, forward, backward], &counts);
    let n_outs = eqn.outs.len();
    let tangents = match calls {
        Calls::Joint => body::append_joint(b, eqn, &states, attrs, args),
        Calls::Split => {
            b.append(eqn.clone());
            b.emit_many(Op::WhileBack, &attrs, &args, n_outs + n_marked(&states))
                .split_off(n_outs)
        }
    };
    spread(&states, tangents)
}
