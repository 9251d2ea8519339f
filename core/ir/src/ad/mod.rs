//! Differentiation of programs.
//!
//! Reverse mode is the transpose of the linear part of forward mode. Each op has a single
//! derivative rule, so the two modes always agree.
//!
//! ```text
//! jvp       : (x -> y)            ->  (x, dx -> y, dy)
//! split     : (x, dx -> y, dy)    ->  (x -> y, residuals)  and  (residuals, dx -> dy)
//! transpose : (residuals, dx -> dy)  ->  (residuals, ct_y -> ct_x)
//! ```
//!
//! A zero tangent is `None` and never computed. A result that does not depend on a differentiated
//! parameter has no tangent.

mod control;
mod jvp;
mod linearize;
mod part;
mod points;
mod second;
mod split;
mod transpose;
mod zeros;

pub use jvp::{Calls, Jvp, jvp};
pub use linearize::{Linearized, linearize, nonlinear};
pub use part::add_part;
pub use second::{Grad, Hvp, grad_program, has_calls, hvp};
pub use split::{SplitProgram, split};
pub use transpose::{TransposedProgram, transpose};
pub use zeros::{Zeroed, with_zeros};

use crate::op::Control;
use crate::{Code, Eqn, Op, Program, Static, Var, pass};

/// Returns an op of a program, or of a program that it runs, that has no reverse mode.
///
/// [`vjp`] and [`grad_program`] do not take a program in which such an op depends on a
/// differentiated parameter.
pub fn irreversible(program: &Program) -> Option<Lacking<'_>> {
    lacks(program, &|control| !control.is_reversible())
}

/// Returns an op of a program, or of a program that it runs, that has no forward mode.
///
/// [`jvp`] with [`Calls::Joint`] does not take a program in which such an op depends on a
/// differentiated parameter.
pub fn reverse_only(program: &Program) -> Option<Lacking<'_>> {
    lacks(program, &|control| !control.is_forward())
}

/// An op without a derivative in some mode.
#[derive(Clone, Copy, Debug)]
pub struct Lacking<'a> {
    /// The op.
    pub op: Op,
    /// The kernel of the user, if the op is one, or the derivative rule of one.
    pub kernel: Option<&'a Code>,
}

/// Returns the kernel of the user that an equation is, or whose derivative rule it is.
fn kernel_of<'a>(program: &'a Program, eqn: &Eqn) -> Option<&'a Code> {
    let mut statics = eqn.attrs.iter().map(|attr| program.attr(*attr));
    match eqn.op {
        Op::HostKernel => statics.find_map(Static::code),
        Op::CustomVjp => {
            let forward = statics.find_map(Static::programs)?.first()?;
            match &forward.eqns[..] {
                [kernel] if kernel.op == Op::HostKernel => kernel_of(forward, kernel),
                _ => None,
            }
        }
        _ => None,
    }
}

fn lacks<'a>(program: &'a Program, of: &dyn Fn(&dyn Control) -> bool) -> Option<Lacking<'a>> {
    program.eqns.iter().find_map(|eqn| {
        let control = eqn.op.control()?;
        let is_float = |y: &Var| program.aval(*y).dtype.is_none_or(crate::DType::is_float);
        if of(control) && (eqn.op != Op::HostKernel || eqn.outs.iter().any(is_float)) {
            return Some(Lacking {
                op: eqn.op,
                kernel: kernel_of(program, eqn),
            });
        }
        let statics = eqn.attrs.iter().map(|attr| program.attr(*attr));
        let programs = statics.filter_map(Static::programs).flatten();
        // The programs of a `custom_vjp` are not differentiated, and of a `custom_jvp` only the rule is.
        let skipped = match eqn.op {
            Op::CustomVjp => usize::MAX,
            Op::CustomJvp => 1,
            _ => 0,
        };
        programs
            .skip(skipped)
            .find_map(|program| lacks(program, of))
    })
}

/// Reverse mode in two stages.
///
/// Run `primal` for the results and the residuals, then `pullback` any number of times.
#[derive(Clone, Debug)]
pub struct Vjp {
    /// `x... -> y..., residuals...`.
    pub primal: Program,
    /// `residuals..., cotangents of the active y... -> cotangents of x...`.
    pub pullback: Program,
    /// The number of results in `primal.outs`. The residuals follow them.
    pub n_outs: usize,
    /// For each result, true if it has a cotangent: if it depends on a differentiated parameter.
    pub active: Vec<bool>,
    /// For each differentiated parameter, true if it has a cotangent. The others are zero.
    pub nonzero: Vec<bool>,
    /// For each residual, true if the pullback reads only its dtype and shape.
    pub shape_only: Vec<bool>,
}

/// Returns the reverse mode of `program` with respect to the parameters `wrt`.
pub fn vjp(program: &Program, wrt: &[Var]) -> Vjp {
    vjp_with_points(program, wrt, &[]).0
}

/// Returns [`vjp`], with the cotangents of the variables `points` as more results of the pullback.
///
/// They follow the cotangents of the parameters. The list has, for each point, the index of its
/// cotangent among these results, or `None` if the cotangent is zero. All other results have the
/// same bits as without points.
pub fn vjp_with_points(
    program: &Program,
    wrt: &[Var],
    points: &[Var],
) -> (Vjp, Vec<Option<usize>>) {
    let n_outs = program.outs.len();
    let mut program = program.clone();
    // As results, the points stay while the program is simplified.
    program.outs.extend(points);
    let mut program = pass::simplify(program);
    let points = program.outs.split_off(n_outs);
    let (joint, tangents) = match &points[..] {
        [] => (jvp(&program, wrt, Calls::Split), Vec::new()),
        points => points::jvp(&program, wrt, points),
    };
    let Jvp {
        program: joint,
        active,
    } = joint;
    let joint = pass::cse(joint);
    let SplitProgram {
        known,
        linear,
        residuals,
        ..
    } = split(&joint, program.params.len(), program.outs.len());
    let n_residuals = residuals.len();
    let TransposedProgram {
        program: pullback,
        mut nonzero,
    } = transpose(&linear, n_residuals);
    let nonzero_points = nonzero.split_off(wrt.len());
    let results = |i: usize| {
        nonzero_points[..i]
            .iter()
            .filter(|nonzero| **nonzero)
            .count()
    };
    let cotangents = tangents
        .iter()
        .map(|i| i.filter(|i| nonzero_points[*i]).map(results));
    let cotangents = cotangents.collect();
    let pullback = pass::simplify(pullback);
    let (known, pullback) =
        pass::choose_residuals(known, pullback, program.outs.len(), n_residuals);
    let n_residuals = known.outs.len() - program.outs.len();
    // The transpose rules may have emitted some of the recomputed equations too.
    let pullback = pass::cse(pullback);
    let shape_only = split::shape_only(&pullback, n_residuals);
    let primal = pass::dce(known);
    let vjp = Vjp {
        primal,
        pullback,
        n_outs: program.outs.len(),
        active,
        nonzero,
        shape_only,
    };
    (vjp, cotangents)
}
