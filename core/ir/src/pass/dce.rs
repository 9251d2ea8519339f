//! Dead code elimination.

use crate::{Program, SecondaryMap, Var};

/// Removes the equations without a used result. A `Like` operand counts as a use.
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
