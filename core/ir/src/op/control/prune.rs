//! Dead results of loops and branches: the op without them, and without what only they need.

use super::body::{chosen, n_marked};
use super::{ScanParts, ShardMapParts, ShardedParts, WhileParts, branches};
use crate::{Op, Program, SecondaryMap, Static, Var};

/// An op without dead results.
pub(crate) struct Pruned {
    /// Its programs. Equations that no result needs are still in them.
    pub(crate) programs: Vec<Program>,
    /// The static arguments after the programs.
    pub(crate) counts: Vec<Static>,
    /// The operands that are left.
    pub(crate) args: Vec<bool>,
    /// The results that are left.
    pub(crate) outs: Vec<bool>,
}

/// Returns an op without the results that are not `live`; `None` if all are needed.
///
/// A state of a loop is needed if a turn reads it for a result that is.
pub(crate) fn prune(op: Op, statics: &[Static], live: &[bool]) -> Option<Pruned> {
    let pruned = match op {
        _ if live.iter().all(|live| *live) => return None,
        Op::Scan => scan(statics, live),
        Op::While => while_loop(statics, live),
        Op::Switch => switch(statics, live),
        Op::ShardMap => shard_map(statics, live),
        Op::Sharded => sharded(statics, live),
        _ => return None,
    };
    pruned.outs.contains(&false).then_some(pruned)
}

fn scan(statics: &[Static], live: &[bool]) -> Pruned {
    let parts = ScanParts::of(statics);
    let (consts, carry) = (parts.consts, parts.carry);
    let (args, outs) = of_loop(live, [consts, carry], |outs| needed(parts.body, outs));
    let counts = [n_marked(&args[..consts]), n_marked(&outs[..carry])];
    let [consts, carry] = counts.map(|n| Static::Int(n as i64));
    Pruned {
        programs: vec![restricted(parts.body, &args, &outs)],
        counts: vec![statics[1].clone(), consts, carry, statics[4].clone()],
        args,
        outs,
    }
}

fn while_loop(statics: &[Static], live: &[bool]) -> Pruned {
    let parts = WhileParts::of(statics);
    let in_cond = needed(parts.cond, &[true]);
    let lens = [parts.consts, live.len()];
    let (args, outs) = of_loop(live, lens, |outs| {
        either(&needed(parts.body, outs), &in_cond)
    });
    let consts = n_marked(&args[..parts.consts]) as i64;
    Pruned {
        programs: vec![
            restricted(parts.cond, &args, &[true]),
            restricted(parts.body, &args, &outs),
        ],
        counts: vec![Static::Int(consts)],
        args,
        outs,
    }
}

fn switch(statics: &[Static], live: &[bool]) -> Pruned {
    let all = branches(statics);
    let each = all.iter().map(|branch| needed(branch, live));
    let params = each.reduce(|a, b| either(&a, &b)).expect("a branch");
    Pruned {
        programs: (all.iter().map(|branch| restricted(branch, &params, live))).collect(),
        counts: Vec::new(),
        args: [&[true][..], &params].concat(),
        outs: live.to_vec(),
    }
}

fn shard_map(statics: &[Static], live: &[bool]) -> Pruned {
    let parts = ShardMapParts::of(statics);
    let args = needed(parts.body, live);
    Pruned {
        programs: vec![restricted(parts.body, &args, live)],
        counts: vec![
            statics[1].clone(),
            chosen(parts.ins, &args).into(),
            chosen(parts.outs, live).into(),
        ],
        args,
        outs: live.to_vec(),
    }
}

fn sharded(statics: &[Static], live: &[bool]) -> Pruned {
    let parts = ShardedParts::of(statics);
    let args = needed(parts.body, live);
    let specs = |specs| Static::Specs(parts.mesh.clone(), specs);
    Pruned {
        programs: vec![restricted(parts.body, &args, live)],
        counts: vec![
            specs(chosen(parts.ins, &args)),
            specs(chosen(parts.outs, live)),
        ],
        args,
        outs: live.to_vec(),
    }
}

/// Returns the operands and results of a loop that are needed, given those that a turn reads for
/// results.
fn of_loop(
    live: &[bool],
    [consts, carry]: [usize; 2],
    reads: impl Fn(&[bool]) -> Vec<bool>,
) -> (Vec<bool>, Vec<bool>) {
    let mut outs = live.to_vec();
    loop {
        let mut args = reads(&outs);
        let states = either(&outs[..carry], &args[consts..][..carry]);
        if states == outs[..carry] {
            // A state that no turn reads is still a state.
            args[consts..][..carry].copy_from_slice(&states);
            return (args, outs);
        }
        outs[..carry].copy_from_slice(&states);
    }
}

fn either(a: &[bool], b: &[bool]) -> Vec<bool> {
    a.iter().zip(b).map(|(a, b)| *a || *b).collect()
}

/// Returns the parameters that the marked results depend on.
fn needed(program: &Program, outs: &[bool]) -> Vec<bool> {
    let outs = chosen(&program.outs, outs);
    let mut live: SecondaryMap<Var, ()> = outs.into_iter().map(|var| (var, ())).collect();
    for eqn in program.eqns.iter().rev() {
        if eqn.outs.iter().any(|out| live.contains(*out)) {
            live.extend(eqn.args.iter().map(|arg| (*arg, ())));
        }
    }
    let params = program.params.iter();
    params.map(|param| live.contains(*param)).collect()
}

fn restricted(program: &Program, params: &[bool], outs: &[bool]) -> Program {
    Program {
        params: chosen(&program.params, params),
        outs: chosen(&program.outs, outs),
        ..program.clone()
    }
}
