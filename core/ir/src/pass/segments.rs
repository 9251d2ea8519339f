//! Cuts the program of a `shard_map` at its collectives.

use crate::{Builder, Eqn, Op, Program, SecondaryMap, Static, Var, pass};

/// A step that all devices take before the next one.
#[derive(Clone, Debug)]
pub enum DeviceStep {
    /// A program without collectives. Its parameters are the variables that it reads, and its results those that
    /// later steps read.
    Segment(Program),
    /// A collective.
    Collective(Eqn),
}

/// Cuts the program of a `shard_map` in steps that devices take together.
///
/// Each value is computed as early as possible, so a program has one segment more than the longest chain of its
/// collectives. Returns the program as well, of which the steps have the variables and static arguments.
pub fn segments(program: &Program) -> (Program, Vec<DeviceStep>) {
    let program = pass::to_plan(without_variance(program));
    let level = levels(&program);
    let of = |eqn: &Eqn| level.get(eqn.outs[0]).copied().unwrap_or(0);
    let last = program.eqns.iter().map(of).max().unwrap_or(0);
    let mut steps = Vec::new();
    for at in 0..=last {
        // The results of a collective belong to the level after it.
        let collectives = program
            .eqns
            .iter()
            .filter(|eqn| is_exchange(eqn) && of(eqn) == at);
        steps.extend(collectives.cloned().map(DeviceStep::Collective));
        let own = |eqn: &&Eqn| !is_exchange(eqn) && !is_constant(eqn) && of(eqn) == at;
        let eqns: Vec<&Eqn> = program.eqns.iter().filter(own).collect();
        steps.extend(segment(&program, &eqns, at == 0).map(DeviceStep::Segment));
    }
    (program, steps)
}

fn is_exchange(eqn: &Eqn) -> bool {
    eqn.op.collective().is_some()
}

/// Returns whether each segment that reads the value computes it.
fn is_constant(eqn: &Eqn) -> bool {
    eqn.args.is_empty() && !is_exchange(eqn)
}

/// Returns the number of collectives on the longest chain to each value.
fn levels(program: &Program) -> SecondaryMap<Var, usize> {
    let mut level: SecondaryMap<Var, usize> = SecondaryMap::new();
    for eqn in &program.eqns {
        let args = eqn.args.iter().map(|x| level.get(*x).copied().unwrap_or(0));
        let before = args.max().unwrap_or(0);
        let own = before + usize::from(is_exchange(eqn) && !eqn.args.is_empty());
        level.extend(eqn.outs.iter().map(|out| (*out, own)));
    }
    level
}

/// Returns the program of some equations, unless nothing reads their results.
fn segment(program: &Program, eqns: &[&Eqn], is_first: bool) -> Option<Program> {
    let bound: SecondaryMap<Var, ()> = eqns
        .iter()
        .flat_map(|e| &e.outs)
        .map(|v| (*v, ()))
        .collect();
    let mut outside: SecondaryMap<Var, ()> = program.outs.iter().map(|v| (*v, ())).collect();
    for eqn in program.eqns.iter().filter(|eqn| !eqns.contains(eqn)) {
        outside.extend(eqn.args.iter().map(|x| (*x, ())));
    }
    let made = eqns.iter().flat_map(|eqn| &eqn.outs).copied();
    let mut outs: Vec<Var> = made.filter(|out| outside.contains(*out)).collect();
    let constants: SecondaryMap<Var, &Eqn> = program
        .eqns
        .iter()
        .filter(|eqn| is_constant(eqn))
        .flat_map(|eqn| eqn.outs.iter().map(move |out| (*out, eqn)))
        .collect();
    if is_first {
        // A collective or a result reads a constant as a value of the first segment.
        let exchanged = program.eqns.iter().filter(|eqn| is_exchange(eqn));
        let read = exchanged.flat_map(|eqn| &eqn.args).chain(&program.outs);
        let mut seen: SecondaryMap<Var, ()> = SecondaryMap::new();
        for var in read {
            if constants.contains(*var) && seen.insert(*var, ()).is_none() {
                outs.push(*var);
            }
        }
    }
    if outs.is_empty() {
        return None;
    }
    let mut b = Builder::after(program);
    let mut params = Vec::new();
    let mut seen: SecondaryMap<Var, ()> = SecondaryMap::new();
    for var in eqns.iter().flat_map(|eqn| &eqn.args).chain(&outs) {
        if bound.contains(*var) || seen.insert(*var, ()).is_some() {
            continue;
        }
        match constants.get(*var) {
            Some(eqn) => b.append((*eqn).clone()),
            None => params.push(*var),
        }
    }
    eqns.iter().for_each(|eqn| b.append((*eqn).clone()));
    Some(b.finish(params, outs))
}

/// Returns the program without what only its derivative needs: `pvary`, and the difference between both kinds of
/// `all_gather`.
pub fn without_variance(program: &Program) -> Program {
    let mut program = program.clone();
    let mut same: SecondaryMap<Var, Var> = SecondaryMap::new();
    let resolve = |same: &SecondaryMap<Var, Var>, var: Var| same.get(var).copied().unwrap_or(var);
    let no = crate::Attr(program.attrs.len() as u32);
    program.attrs.push(Static::Bool(false));
    program.eqns.retain_mut(|eqn| {
        for arg in &mut eqn.args {
            *arg = resolve(&same, *arg);
        }
        match eqn.op {
            Op::Pvary => {
                same.insert(eqn.out(), eqn.args[0]);
            }
            Op::AllGather => eqn.attrs[2] = no,
            _ => {}
        }
        eqn.op != Op::Pvary
    });
    for out in &mut program.outs {
        *out = resolve(&same, *out);
    }
    program
}
