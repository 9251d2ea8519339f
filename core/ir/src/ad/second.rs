//! Second order, forward over reverse: the gradient is a program like any other, and forward mode takes any program.

use super::{Calls, Split, Transposed, jvp, split, transpose};
use crate::{Builder, Eqn, Op, Program, SecondaryMap, Var, pass};

/// The gradient of a function as a program.
#[derive(Clone, Debug)]
pub struct Grad {
    /// `x... -> y, gradients of the nonzero ones of wrt...`.
    pub program: Program,
    /// Which of the differentiated parameters have a gradient; that of the others is zero.
    pub nonzero: Vec<bool>,
}

/// A program of one result, which is to be a single float, becomes its value and its gradients: the pullback stands
/// behind the program whose residuals it reads, and its cotangent is one.
///
/// Calls of traced functions have no program here; a caller looks for them first.
pub fn grad_program(program: &Program, wrt: &[Var]) -> Grad {
    debug_assert_eq!(program.outs.len(), 1, "a gradient is that of one result");
    let program = pass::simplify(program.clone());
    let y = program.outs[0];
    let joint = pass::cse(jvp(&program, wrt, Calls::Split).program);
    let Split {
        known,
        linear,
        residuals,
    } = split(&joint, program.params.len(), 1);
    let Transposed {
        program: pullback,
        nonzero,
    } = transpose(&linear, residuals.len());

    // Both parts number their variables as the program that they were cut from does.
    let mut b = Builder::after(&pullback);
    for eqn in known.eqns {
        b.append(eqn);
    }
    let one = b.attr(1.0);
    for &ct in &pullback.params[residuals.len()..] {
        b.append(Eqn {
            outs: vec![ct],
            op: Op::FullLike,
            attrs: vec![one],
            args: vec![y],
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

/// Forgets the names of tangents that are gone: those of the next order take them. What the user has named stays, as host
/// code may read it.
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

/// The gradient of a function, and its change along a tangent: the product of the Hessian with it.
#[derive(Clone, Debug)]
pub struct Hvp {
    /// `x..., tangents of wrt... -> y, nonzero gradients..., nonzero tangents of these...`.
    pub program: Program,
    /// Which of the differentiated parameters have a gradient.
    pub nonzero: Vec<bool>,
    /// Which of the nonzero gradients change along the tangents.
    pub active: Vec<bool>,
}

/// Forward mode over [`grad_program`], which see.
pub fn hvp(program: &Program, wrt: &[Var]) -> Hvp {
    let Grad { program, nonzero } = grad_program(program, wrt);
    let n_outs = program.outs.len();
    let forward = jvp(&program, wrt, Calls::Joint);
    let mut joint = forward.program;
    // Nobody asks for the tangent of the value, and the gradients know it already.
    if forward.active[0] {
        joint.outs.remove(n_outs);
    }
    Hvp {
        program: pass::simplify(joint),
        nonzero,
        active: forward.active[1..].to_vec(),
    }
}

/// Whether a program calls other traced functions.
pub fn has_calls(program: &Program) -> bool {
    program.eqns.iter().any(|e| Op::CALLS.contains(&e.op))
}
