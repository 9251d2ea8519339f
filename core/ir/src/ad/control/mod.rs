//! Derivatives of control flow: of ops that run programs.

mod body;
mod checkpoint;
mod custom;
mod custom_code;
mod scan;
mod shard_map;
mod sharded;
mod switch;
mod while_back;
mod while_loop;

use super::{Calls, nonlinear};
use crate::{Builder, Eqn, Op, Program, Var};

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
        Op::ShardMap => shard_map::tangents,
        Op::Sharded => sharded::tangents,
        Op::CustomJvp => custom::tangents_of_jvp,
        Op::CustomVjp => custom::tangents_of_vjp,
        Op::Custom => return custom_code::tangents(b, eqn, dx),
        // `ad::irreversible` and `ad::reverse_only` refuse a kernel with a result that is a float. The run time replaces
        // the others, or transposes them, before a derivative is taken, so only a program that was parsed has them.
        Op::HostKernel
        | Op::CustomTangent
        | Op::CustomCotangent
        | Op::CustomLanes
        | Op::CustomLin => {
            b.append(eqn.clone());
            return vec![None; eqn.outs.len()];
        }
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
        Op::ShardMap => shard_map::cotangents,
        Op::Sharded => sharded::cotangents,
        Op::CustomLin => custom::cotangents_of_lin,
        Op::CustomTangent => return custom_code::cotangents(b, eqn, cts),
        op => unreachable!("`ad::irreversible` refuses `{op}`"),
    };
    rule(b, eqn, cts, linear)
}

/// Returns whether all programs of a `switch`, a `checkpoint`, a `shard_map` or a `sharded` are linear in some operands. Other ops
/// are `None`: their linear programs have linear tangents.
pub(super) fn is_linear(program: &Program, eqn: &Eqn, wrt: &[Var]) -> Option<bool> {
    let n_indices = match eqn.op {
        Op::Switch => 1,
        Op::Checkpoint | Op::ShardMap | Op::Sharded => 0,
        _ => return None,
    };
    let (index, args) = eqn.args.split_at(n_indices);
    let is_linear = |part: &Program| {
        let params = part.params.iter().zip(args);
        let wrt = params.filter(|(_, arg)| wrt.contains(arg)).map(|(v, _)| *v);
        nonlinear(part, &wrt.collect::<Vec<_>>()).is_none()
    };
    let parts = program.attr(eqn.attrs[0]).programs()?;
    Some(!index.iter().any(|v| wrt.contains(v)) && parts.iter().all(is_linear))
}
