//! Cuts the program of a `shard_map` at its collectives.

use super::replace_by_operands;
use crate::op::control::shard_map::exchanging;
use crate::op::control::{checkpoint, inline};
use crate::{Attr, Builder, Entity, Eqn, Op, Program, Programs, SecondaryMap, Static, Var, pass};

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
/// collectives. The program of a checkpoint is an exception: it begins when all operands are computed, so a pullback does
/// not compute it again before it needs to. Returns the program as well, of which the steps have the variables and static
/// arguments.
pub fn segments(program: &Program) -> (Program, Vec<DeviceStep>) {
    let mut program = pass::to_plan(without_variance(&inline_checkpoints(program)));
    let level = levels(&program);
    replace_by_operands(&mut program, is_gate);
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
    replace_by_operands(&mut program, |_, eqn| eqn.op == Op::Pvary);
    let Program { eqns, attrs, .. } = &mut program;
    for eqn in eqns {
        let (at, value) = match eqn.op {
            Op::AllGather => (2, Static::Bool(false)),
            Op::Checkpoint => {
                let body = attrs[eqn.attrs[0].index()].programs();
                let body = body.expect("a checkpoint has a body").iter();
                (
                    0,
                    Programs::new(body.map(without_variance).collect()).into(),
                )
            }
            _ => continue,
        };
        attrs.push(value);
        eqn.attrs[at] = Attr::from_index(attrs.len() - 1);
    }
    program
}

/// Returns the program with the programs of checkpoints that have collectives in their place.
///
/// They read their operands through a *gate*, a checkpoint whose results are its operands. So none of their values is
/// computed before all operands are, such as the cotangents in a pullback, and none is merged with an equal one of the
/// forward pass.
pub fn inline_checkpoints(program: &Program) -> Program {
    let mut program = program.clone();
    let inlined = |program: &Program| {
        pass::replace_some(program, |_, b, eqn| {
            let body = exchanging(program, eqn)?;
            let mut gate = Builder::new();
            let params = body
                .params
                .iter()
                .map(|x| gate.param(body.aval(*x).clone()));
            let params: Vec<Var> = params.collect();
            let args = match params.len() {
                // An equation binds something.
                0 => Vec::new(),
                _ => checkpoint::emit(b, gate.finish(params.clone(), params), 0, &eqn.args),
            };
            let mut outs = inline(b, body, &args);
            outs.truncate(eqn.outs.len());
            Some(outs)
        })
    };
    while let Some(next) = inlined(&program) {
        program = next;
    }
    program
}

/// Returns whether an equation is a checkpoint whose results are its operands.
fn is_gate(attrs: &[Static], eqn: &Eqn) -> bool {
    let body = || attrs[eqn.attrs[0].index()].programs();
    eqn.op == Op::Checkpoint && body().is_some_and(|body| body[0].outs == body[0].params)
}
