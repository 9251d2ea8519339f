//! Passes. Each maps a program to a program and changes no bit of any result.

mod cover;
mod cse;
mod cut;
mod dce;
mod decompose;
mod divide;
mod fold;
mod fuse;
mod loop_numbers;
mod means;
mod powers;
mod recompute;
mod rematerialize;
mod residuals;
mod segments;
mod signature;
mod stored;
mod widen;

pub use cover::{Pattern, Patterns, Piece, Values, cover};
pub use cse::cse;
pub use dce::dce;
pub use decompose::{decompose, replace_some};
pub use divide::{divide, divide_from};
pub use fold::fold;
pub use fuse::{fuse, joins_groups};
pub use loop_numbers::with_loop_numbers;
pub use means::without_means;
pub use powers::{is_product, without_powers};
pub use recompute::recompute;
pub use rematerialize::{Rematerialized, rematerialize};
pub use residuals::choose_residuals;
pub use segments::{DeviceStep, inline_checkpoints, segments, without_variance};
pub use signature::{Arg, Group, constants};
pub use stored::read_stored;
pub use widen::widen;

use crate::{Eqn, Op, Program, SecondaryMap, Static, Var};

/// Replaces the results of `custom` equations by the operands that hold their values.
///
/// The result computes the same and has no derivative of the user.
pub fn without_rules(mut program: Program) -> Program {
    if !program.eqns.iter().any(|eqn| eqn.op == Op::Custom) {
        return program;
    }
    replace_by_operands(&mut program, |_, eqn| eqn.op == Op::Custom);
    // A program that is kept must not keep the contexts of the calls.
    for attr in &mut program.attrs {
        if attr.code().is_some_and(|code| code.get().key().is_none()) {
            *attr = 0.into();
        }
    }
    program
}

/// Replaces the results of some equations by their operands. The condition is given the static arguments, and an equation.
fn replace_by_operands(program: &mut Program, is_replaced: impl Fn(&[Static], &Eqn) -> bool) {
    let Program {
        eqns, outs, attrs, ..
    } = program;
    let mut to: SecondaryMap<Var, Var> = SecondaryMap::new();
    let find = |to: &SecondaryMap<Var, Var>, var: Var| to.get(var).copied().unwrap_or(var);
    eqns.retain_mut(|eqn| {
        for arg in &mut eqn.args {
            *arg = find(&to, *arg);
        }
        let is_replaced = is_replaced(attrs, eqn);
        if is_replaced {
            to.extend(eqn.outs.iter().copied().zip(eqn.args.iter().copied()));
        }
        !is_replaced
    });
    for out in outs {
        *out = find(&to, *out);
    }
}

/// Adds a variable with the aval and the line of `var`, for an equation that computes it again. `next` is a free number.
fn with_copy_of(program: &mut Program, var: Var, next: &mut u32) -> Var {
    let copy = Var(*next);
    *next += 1;
    let aval = program.aval(var).clone();
    program.avals.insert(copy, aval);
    if let Some(line) = program.lines.get(var).copied() {
        program.lines.insert(copy, line);
    }
    copy
}

/// Returns a simplified program that a plan can be made of: its ops compute in dtypes with kernels.
///
/// All shapes must be known.
pub fn to_plan(program: Program) -> Program {
    let mut program = simplify(program);
    if loop_numbers::has_loops(&program) {
        program = simplify(with_loop_numbers(program));
    }
    if widen::changes(&program) || means::changes(&program) {
        // The first `simplify` removes ops on zeros of small dtypes, and the second one casts of them.
        program = simplify(without_means(widen(program)));
    }
    recompute(divide(read_stored(without_powers(program))))
}

/// Runs dead code elimination, folding and common subexpression elimination.
pub fn simplify(program: Program) -> Program {
    // Dead equations would only slow down the other passes.
    let program = dce(program);
    // Folding makes more equations equal, so it runs before `cse`.
    let program = fold(program);
    // Merging equations can leave constants unused, so `dce` runs again.
    let program = cse(program);
    dce(program)
}
