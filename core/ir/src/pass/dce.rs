//! Dead code elimination.

use crate::{Program, SecondaryMap, Var};

/// Drops the equations of which no result is read. A `Like` operand counts as read.
pub fn dce(mut program: Program) -> Program {
    let mut live: SecondaryMap<Var, ()> = program.outs.iter().map(|v| (*v, ())).collect();
    let mut is_live = vec![false; program.eqns.len()];
    for (eqn, is_live) in program.eqns.iter().zip(&mut is_live).rev() {
        if eqn.outs.iter().any(|v| live.contains(*v)) {
            *is_live = true;
            for arg in &eqn.args {
                live.insert(*arg, ());
            }
        }
    }
    let mut is_live = is_live.into_iter();
    program.eqns.retain(|_| is_live.next() == Some(true));
    program
}

/// Number of equations on the longest way from a parameter to a result.
pub fn chain_length(program: &Program) -> u32 {
    let mut depth: SecondaryMap<Var, u32> = SecondaryMap::new();
    for eqn in &program.eqns {
        let depths = eqn.data().iter().filter_map(|x| depth.get(*x));
        let longest = depths.max().map_or(1, |n| n + 1);
        eqn.outs.iter().for_each(|out| {
            depth.insert(*out, longest);
        });
    }
    let outs = program.outs.iter().filter_map(|out| depth.get(*out));
    outs.max().copied().unwrap_or(0)
}
