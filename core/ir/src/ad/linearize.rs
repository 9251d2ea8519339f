//! Linearisation: a program as its value and the linear map of its tangents.

use super::split::{SplitProgram, shape_only, split};
use super::{Calls, Jvp, control, jvp};
use crate::{Eqn, Op, Program, SecondaryMap, Var, pass};

/// A program linearised at its arguments.
#[derive(Clone, Debug)]
pub struct Linearized {
    /// `x... -> y..., residuals...`.
    pub primal: Program,
    /// `residuals..., tangents of x... -> tangents of the active y...`.
    pub tangent: Program,
    /// The number of results in `primal.outs`. The residuals follow them.
    pub n_outs: usize,
    /// For each result, true if it has a tangent: if it depends on a differentiated parameter.
    pub active: Vec<bool>,
    /// For each residual, true if `tangent` reads only its dtype and shape.
    pub shape_only: Vec<bool>,
}

/// Linearises `program` with respect to the parameters `wrt`.
///
/// A loop that is an op computes values and tangents together. The map of a program that has one
/// takes the arguments as its residuals, and runs the program again.
pub fn linearize(program: &Program, wrt: &[Var]) -> Linearized {
    let program = pass::simplify(program.clone());
    let Jvp {
        program: joint,
        active,
    } = jvp(&program, wrt, Calls::Joint);
    let joint = pass::simplify(joint);
    let n_outs = program.outs.len();
    let (primal, tangent) = match program.eqns.iter().any(|eqn| eqn.op.control().is_some()) {
        true => {
            let (mut primal, mut tangent) = (program, joint);
            primal.outs.extend_from_slice(&primal.params);
            tangent.outs.drain(..n_outs);
            (primal, pass::dce(tangent))
        }
        false => {
            let SplitProgram { known, linear, .. } = split(&joint, program.params.len(), n_outs);
            (pass::dce(known), linear)
        }
    };
    let n_residuals = primal.outs.len() - n_outs;
    Linearized {
        shape_only: shape_only(&tangent, n_residuals),
        primal,
        tangent,
        n_outs,
        active,
    }
}

/// Returns an op of a program that is not linear in the parameters `wrt`.
///
/// A linear program may add values that do not depend on these parameters.
pub fn nonlinear(program: &Program, wrt: &[Var]) -> Option<Op> {
    let program = pass::simplify(program.clone());
    let mut depends: SecondaryMap<Var, ()> = wrt.iter().map(|v| (*v, ())).collect();
    for eqn in &program.eqns {
        let mut linear: Vec<Var> = eqn.data().to_vec();
        linear.retain(|x| depends.contains(*x));
        linear.sort_unstable();
        linear.dedup();
        if linear.is_empty() {
            continue;
        }
        if !is_linear(&program, eqn, &linear) {
            return Some(eqn.op);
        }
        depends.extend(eqn.outs.iter().map(|v| (*v, ())));
    }
    None
}

/// Returns whether the results of an equation are linear in some of its operands: their tangents do not
/// depend on the values of these operands.
fn is_linear(program: &Program, eqn: &Eqn, wrt: &[Var]) -> bool {
    if let Some(is_linear) = control::is_linear(program, eqn, wrt) {
        return is_linear;
    }
    let mut params = eqn.args.to_vec();
    params.sort_unstable();
    params.dedup();
    let alone = Program {
        params,
        eqns: vec![eqn.clone()],
        outs: eqn.outs.to_vec(),
        ..program.clone()
    };
    let Jvp {
        program: joint,
        active,
    } = jvp(&alone, wrt, Calls::Split);
    let mut values: SecondaryMap<Var, ()> = wrt.iter().chain(&eqn.outs).map(|v| (*v, ())).collect();
    let tangents = joint.params[alone.params.len()..].iter();
    let mut tangents: SecondaryMap<Var, ()> = tangents.map(|v| (*v, ())).collect();
    for eqn in &joint.eqns {
        let has = |of: &SecondaryMap<Var, ()>| eqn.data().iter().any(|x| of.contains(*x));
        let outs = eqn.outs.iter().map(|v| (*v, ()));
        match (has(&tangents), has(&values)) {
            (true, true) => return false,
            (true, false) => tangents.extend(outs),
            (false, true) => values.extend(outs),
            (false, false) => {}
        }
    }
    // A result without a tangent is a step function.
    active.iter().all(|active| *active)
}
