//! Derivatives of control flow: of ops that run programs.

mod body;
mod checkpoint;
mod custom;
mod scan;
mod switch;
mod while_back;
mod while_loop;

use super::Calls;
use crate::{Builder, Eqn, Op, Var};

/// Appends an equation whose op runs programs and its tangents, and returns the tangents of its results.
///
/// If `calls` is [`Calls::Split`], the tangents are the results of equations that are linear in `dx`
/// and can be transposed.
pub(super) fn tangents(
    b: &mut Builder,
    eqn: &Eqn,
    dx: &[Option<Var>],
    calls: Calls,
) -> Vec<Option<Var>> {
    let rule = match eqn.op {
        Op::Scan => scan::tangents,
        Op::While => while_loop::tangents,
        Op::WhileBack => while_back::tangents,
        Op::Switch => switch::tangents,
        Op::Checkpoint => checkpoint::tangents,
        Op::CustomJvp => custom::tangents_of_jvp,
        Op::CustomVjp => custom::tangents_of_vjp,
        op => unreachable!("`{op}` runs no programs"),
    };
    rule(b, eqn, dx, calls)
}

/// Emits and returns the cotangents of the operands of an equation whose op runs programs.
pub(super) fn cotangents(
    b: &mut Builder,
    eqn: &Eqn,
    cts: &[Option<Var>],
    linear: &[bool],
) -> Vec<Option<Var>> {
    let rule = match eqn.op {
        Op::Scan => scan::cotangents,
        Op::While => while_loop::cotangents,
        Op::Switch => switch::cotangents,
        Op::Checkpoint => checkpoint::cotangents,
        Op::CustomLin => custom::cotangents_of_lin,
        op => unreachable!("`ad::irreversible` refuses `{op}`"),
    };
    rule(b, eqn, cts, linear)
}
