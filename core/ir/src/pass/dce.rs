//! Dead code elimination.

use crate::op::Eval;
use crate::op::control::body::chosen;
use crate::op::control::prune::{Pruned, prune};
use crate::{Attr, Op, Program, Programs, SecondaryMap, Static, Var};

/// Removes the equations without a used result, and unused results and operands of loops and branches.
///
/// A `Like` operand counts as a use.
pub fn dce(mut program: Program) -> Program {
    let mut live: SecondaryMap<Var, ()> = program.outs.iter().map(|v| (*v, ())).collect();
    let mut is_live = vec![false; program.eqns.len()];
    for i in (0..program.eqns.len()).rev() {
        let outs = &program.eqns[i].outs;
        if !outs.iter().any(|v| live.contains(*v)) {
            continue;
        }
        is_live[i] = true;
        if runs_programs(program.eqns[i].op) {
            let outs: Vec<bool> = outs.iter().map(|v| live.contains(*v)).collect();
            without_dead_parts(&mut program, i, &outs);
        }
        for arg in &program.eqns[i].args {
            live.insert(*arg, ());
        }
    }
    let mut is_live = is_live.into_iter();
    program.eqns.retain(|_| is_live.next() == Some(true));
    program
}

fn runs_programs(op: Op) -> bool {
    matches!(op.def().eval(), Eval::Control(_))
}

/// Replaces an equation that runs programs by one without its dead results and operands.
fn without_dead_parts(program: &mut Program, i: usize, live: &[bool]) {
    let eqn = &program.eqns[i];
    let statics = eqn
        .attrs
        .iter()
        .map(|a| program.attrs[a.0 as usize].clone());
    let statics: Vec<Static> = statics.collect();
    let Some(pruned) = prune(eqn.op, &statics, live) else {
        return;
    };
    let Pruned {
        programs,
        counts,
        args,
        outs,
    } = pruned;
    let programs = Programs::new(programs.into_iter().map(dce).collect());
    let mut attrs = Vec::with_capacity(statics.len());
    for value in std::iter::once(programs.into()).chain(counts) {
        attrs.push(Attr(program.attrs.len() as u32));
        program.attrs.push(value);
    }
    let eqn = &mut program.eqns[i];
    eqn.attrs = attrs.into();
    eqn.args = chosen(&eqn.args, &args).into();
    eqn.outs = chosen(&eqn.outs, &outs).into();
}
