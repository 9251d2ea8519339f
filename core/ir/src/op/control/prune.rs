//! Dead results and operands of loops and branches: the op without them, and without what only they need.

use super::body::{chosen, n_marked};
use super::{ScanParts, ShardMapParts, ShardedParts, WhileParts, branches};
use crate::{Op, Program, SecondaryMap, Static, Var};

/// An op without dead results, and without operands that no result needs.
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

/// Returns an op without the results that are not `live`, and without operands that the others do not need; `None` if
/// all are needed.
///
/// A state of a loop is needed if a turn reads it for a result that is.
pub(crate) fn prune(op: Op, statics: &[Static], live: &[bool]) -> Option<Pruned> {
    let (args, outs) = needs(op, statics, live)?;
    if args.iter().chain(&outs).all(|needed| *needed) {
        return None;
    }
    let (programs, counts) = without_others(op, statics, &args, &outs)?;
    Some(Pruned {
        programs,
        counts,
        args,
        outs,
    })
}

/// Returns the operands and results that are needed, or `None` for an op that is left as it is.
fn needs(op: Op, statics: &[Static], live: &[bool]) -> Option<(Vec<bool>, Vec<bool>)> {
    Some(match op {
        Op::Scan => {
            let parts = ScanParts::of(statics);
            let lens = [parts.consts, parts.carry];
            of_loop(live, lens, |outs| needed(parts.body, outs))
        }
        Op::While => {
            let parts = WhileParts::of(statics);
            let in_cond = needed(parts.cond, &[true]);
            of_loop(live, [parts.consts, live.len()], |outs| {
                either(&needed(parts.body, outs), &in_cond)
            })
        }
        Op::Switch => {
            let each = branches(statics).iter().map(|branch| needed(branch, live));
            let params = each.reduce(|a, b| either(&a, &b)).expect("a branch");
            ([&[true][..], &params].concat(), live.to_vec())
        }
        Op::ShardMap => {
            let body = ShardMapParts::of(statics).body;
            (needed(body, live), live.to_vec())
        }
        Op::Sharded => {
            let body = ShardedParts::of(statics).body;
            (needed(body, live), live.to_vec())
        }
        _ => return None,
    })
}

/// Returns the programs of an op with these operands and results alone, and its other static arguments.
fn without_others(
    op: Op,
    statics: &[Static],
    args: &[bool],
    outs: &[bool],
) -> Option<(Vec<Program>, Vec<Static>)> {
    Some(match op {
        Op::Scan => {
            let parts = ScanParts::of(statics);
            let counts = [
                n_marked(&args[..parts.consts]),
                n_marked(&outs[..parts.carry]),
            ];
            let [consts, carry] = counts.map(|n| Static::Int(n as i64));
            let counts = vec![statics[1].clone(), consts, carry, statics[4].clone()];
            (vec![restricted(parts.body, args, outs)], counts)
        }
        Op::While => {
            let parts = WhileParts::of(statics);
            let consts = n_marked(&args[..parts.consts]) as i64;
            let programs = vec![
                restricted(parts.cond, args, &[true]),
                restricted(parts.body, args, outs),
            ];
            (programs, vec![Static::Int(consts)])
        }
        Op::Switch => {
            let all = branches(statics).iter();
            let programs = all.map(|branch| restricted(branch, &args[1..], outs));
            (programs.collect(), Vec::new())
        }
        Op::ShardMap => {
            let parts = ShardMapParts::of(statics);
            let specs = [chosen(parts.ins, args), chosen(parts.outs, outs)];
            let [ins, results] = specs.map(Static::from);
            let counts = vec![statics[1].clone(), ins, results];
            (vec![restricted(parts.body, args, outs)], counts)
        }
        Op::Sharded => {
            let parts = ShardedParts::of(statics);
            let specs = |specs| Static::Specs(parts.mesh.clone(), specs);
            let counts = vec![
                specs(chosen(parts.ins, args)),
                specs(chosen(parts.outs, outs)),
            ];
            (vec![restricted(parts.body, args, outs)], counts)
        }
        _ => return None,
    })
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
