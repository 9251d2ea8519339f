//! Second derivatives, forward over reverse: forward mode applied to the gradient program.

use super::{Calls, SplitProgram, TransposedProgram, jvp, split, transpose};
use crate::{Builder, Eqn, Op, Program, SecondaryMap, Var, pass};

/// The gradient of a function, as a program.
#[derive(Clone, Debug)]
pub struct Grad {
    /// The program `x... -> y, gradients of the nonzero ones of wrt...`.
    pub program: Program,
    /// For each differentiated parameter, true if it has a gradient. The other gradients are zero.
    pub nonzero: Vec<bool>,
}

/// Returns the program that computes the value and the gradients of `program`.
///
/// `program` has one result, which must be a single float, and contains no calls of traced
/// functions: the caller checks with [`has_calls`]. The pullback follows the primal in one program,
/// with a cotangent of 1.
pub fn grad_program(program: &Program, wrt: &[Var]) -> Grad {
    debug_assert_eq!(program.outs.len(), 1, "a gradient program has one result");
    let program = pass::simplify(program.clone());
    let y = program.outs[0];
    let joint = pass::cse(jvp(&program, wrt, Calls::Split).program);
    let SplitProgram {
        known,
        linear,
        residuals,
    } = split(&joint, program.params.len(), 1);
    let TransposedProgram {
        program: pullback,
        nonzero,
    } = transpose(&linear, residuals.len());

    // Both parts use the variable numbers of the program they were cut from.
    let mut b = Builder::after(&pullback);
    for eqn in known.eqns {
        b.append(eqn);
    }
    let one = b.attr(1.0);
    for &ct in &pullback.params[residuals.len()..] {
        b.append(Eqn {
            outs: [ct].into(),
            op: Op::FullLike,
            attrs: [one].into(),
            args: [y].into(),
        });
    }
    for eqn in pullback.eqns {
        b.append(eqn);
    }
    let outs = std::iter::once(y).chain(pullback.outs).collect();
    let mut joined = pass::simplify(b.finish(program.params.clone(), outs));
    forget_names(&mut joined, &program);
    Grad {
        program: joined,
        nonzero,
    }
}

/// Drops the names of unbound variables, so that the next order of derivatives can use them.
///
/// The user's names stay, because host code may refer to them.
fn forget_names(program: &mut Program, user: &Program) {
    let bound = program.eqns.iter().flat_map(|e| &e.outs);
    let bound: SecondaryMap<Var, ()> = program
        .params
        .iter()
        .chain(bound)
        .map(|v| (*v, ()))
        .collect();
    let names = program.names.iter();
    let names = names.filter(|(v, _)| bound.contains(*v) || user.names.contains(*v));
    program.names = names.map(|(v, name)| (v, name.clone())).collect();
}

/// The gradient of a function, and the product of its Hessian with a tangent.
#[derive(Clone, Debug)]
pub struct Hvp {
    /// The program `x..., tangents of wrt... -> y, gradients..., tangents of the active
    /// gradients...`.
    ///
    /// Only the nonzero gradients are results.
    pub program: Program,
    /// For each differentiated parameter, true if it has a gradient.
    pub nonzero: Vec<bool>,
    /// For each nonzero gradient, true if it has a tangent.
    pub active: Vec<bool>,
}

/// Returns forward mode applied to [`grad_program`], under the same conditions.
pub fn hvp(program: &Program, wrt: &[Var]) -> Hvp {
    let Grad { program, nonzero } = grad_program(program, wrt);
    let n_outs = program.outs.len();
    let forward = jvp(&program, wrt, Calls::Joint);
    let mut joint = forward.program;
    // The tangent of the value is dropped: it follows from the gradients.
    if forward.active[0] {
        joint.outs.remove(n_outs);
    }
    Hvp {
        program: pass::simplify(joint),
        nonzero,
        active: forward.active[1..].to_vec(),
    }
}

/// Returns whether a program calls other traced functions.
pub fn has_calls(program: &Program) -> bool {
    program.eqns.iter().any(|e| e.op.is_call())
}
