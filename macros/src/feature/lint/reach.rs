//! Determines which values depend on which, with respect to derivatives.

use gradloom_ir::ad::{self, Calls};
use gradloom_ir::flow::{self, Block};
use gradloom_ir::{Eqn, Program, SecondaryMap, Var};

type Set = SecondaryMap<Var, ()>;

/// Block in forward mode.
struct ForwardBlock {
    /// Program that returns the primal results, their tangents, and the tangents of all active
    /// variables.
    program: Program,
    /// Targets that have a tangent, each with that tangent.
    stored: Vec<(Var, Var)>,
    /// Parameters that have a tangent, each with that tangent.
    given: Vec<(Var, Var)>,
    /// Variables that have a tangent.
    active: Vec<Var>,
}

/// Derivatives with respect to some parameters, determined by the forward-mode rules of the ops.
pub(super) struct Activity {
    blocks: Vec<ForwardBlock>,
    /// Variables that have a tangent.
    pub(super) vars: Set,
}

/// Returns the variables that have a derivative with respect to `wrt`.
pub(super) fn activity(blocks: &[Block], wrt: &[Var]) -> Activity {
    let active = flow::active(blocks, wrt);
    let blocks: Vec<ForwardBlock> = blocks.iter().map(|b| forward(b, &active)).collect();
    let all = blocks.iter().flat_map(|b| &b.active);
    let vars = all.chain(wrt).map(|v| (*v, ())).collect();
    Activity { blocks, vars }
}

fn forward(block: &Block, active: &Set) -> ForwardBlock {
    let program = &block.program;
    let bound = program.eqns.iter().flat_map(|e| &e.outs);
    let all: Vec<Var> = program.params.iter().chain(bound).copied().collect();
    let outs = program.outs.iter().chain(&all).copied().collect();
    let every = Program {
        outs,
        ..program.clone()
    };
    let wrt = block.wrt(active);
    let jvp = ad::jvp(&every, &wrt, Calls::Joint);
    let (results, others) = jvp.active.split_at(program.outs.len());
    let tangents = jvp.program.outs[every.outs.len()..].iter().copied();
    let targets = block.targets.iter().zip(results);
    let targets = targets.filter(|(_, active)| **active).map(|(t, _)| *t);
    let vars = all.iter().zip(others);
    ForwardBlock {
        stored: targets.zip(tangents).collect(),
        given: wrt
            .iter()
            .copied()
            .zip(jvp.program.params[program.params.len()..].iter().copied())
            .collect(),
        active: vars.filter(|(_, a)| **a).map(|(v, _)| *v).collect(),
        program: jvp.program,
    }
}

impl Activity {
    /// Returns the variables, parameters among them, that one of `results` has a derivative with
    /// respect to.
    pub(super) fn reaching(&self, results: &[Var]) -> Set {
        closure(results, |reached| {
            let mut found = Vec::new();
            for block in &self.blocks {
                let stored = block.stored.iter().filter(|(t, _)| reached.contains(*t));
                let tangents: Vec<Var> = stored.map(|(_, dy)| *dy).collect();
                let live = behind(&block.program, &tangents);
                let given = block.given.iter().filter(|(_, dx)| live.contains(*dx));
                found.extend(given.map(|(x, _)| *x));
            }
            found
        })
    }
}

/// Returns the variables that the values of `results` depend on, across all blocks.
pub(super) fn values_behind(blocks: &[Block], results: &[Var]) -> Set {
    closure(results, |reached| {
        let mut found = Vec::new();
        for block in blocks {
            let stored = block.targets.iter().zip(&block.program.outs);
            let stored = stored.filter(|(t, _)| reached.contains(**t));
            let outs = stored.map(|(_, y)| *y);
            let outs: Vec<Var> = outs.chain(reached.iter().map(|(v, _)| v)).collect();
            found.extend(behind(&block.program, &outs).iter().map(|(v, _)| v));
        }
        found
    })
}

/// Equation at which derivatives end.
pub(super) struct Cut<'a> {
    pub(super) program: &'a Program,
    pub(super) eqn: &'a Eqn,
    /// An operand that has a derivative.
    pub(super) operand: Var,
    /// A variable that it binds, on the way to a result.
    pub(super) out: Var,
}

/// Returns the equation on the way to `results` at which the derivatives with respect to `from` end.
///
/// Returns `None` if no result depends on the values of `from`.
pub(super) fn cut<'a>(blocks: &'a [Block], results: &[Var], from: &[Var]) -> Option<Cut<'a>> {
    let live = values_behind(blocks, results);
    let active = activity(blocks, from).vars;
    let eqns = blocks.iter().flat_map(|b| {
        let program = &b.program;
        program.eqns.iter().map(move |e| (program, e))
    });
    let mut ends = eqns.filter_map(|(program, eqn)| {
        let operand = *eqn.data().iter().find(|x| active.contains(**x))?;
        let ends = eqn.outs.iter().all(|y| !active.contains(*y));
        let out = *eqn.outs.iter().find(|y| live.contains(**y))?;
        ends.then_some(Cut {
            program,
            eqn,
            operand,
            out,
        })
    });
    ends.next()
}

/// Returns the smallest superset of `first` that is closed under `step`.
fn closure(first: &[Var], step: impl Fn(&Set) -> Vec<Var>) -> Set {
    let mut set: Set = first.iter().map(|v| (*v, ())).collect();
    loop {
        let mut changed = false;
        for var in step(&set) {
            changed |= set.insert(var, ()).is_none();
        }
        if !changed {
            return set;
        }
    }
}

/// Returns the variables that `outs` are computed from in a program.
fn behind(program: &Program, outs: &[Var]) -> Set {
    let mut live: Set = outs.iter().map(|v| (*v, ())).collect();
    for eqn in program.eqns.iter().rev() {
        if eqn.outs.iter().any(|y| live.contains(*y)) {
            for x in eqn.data() {
                live.insert(*x, ());
            }
        }
    }
    live
}
