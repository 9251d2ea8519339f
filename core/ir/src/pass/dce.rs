//! Dead code elimination.

use crate::{Program, SecondaryMap, Var};

/// Drops the equations of which no result is read. A `Like` operand counts as read.
pub fn dce(program: &Program) -> Program {
    let mut live: SecondaryMap<Var, ()> = program.outs.iter().map(|v| (*v, ())).collect();
    let mut eqns = Vec::new();
    for eqn in program.eqns.iter().rev() {
        if eqn.outs.iter().any(|v| live.contains(*v)) {
            for arg in &eqn.args {
                live.insert(*arg, ());
            }
            eqns.push(eqn.clone());
        }
    }
    eqns.reverse();
    Program {
        eqns,
        ..program.clone()
    }
}
