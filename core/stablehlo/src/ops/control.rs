//! Ops that run programs.

use super::{Results, program};
use crate::ExportError;
use crate::equation::Equation;
use crate::text::{Element, Order, Text, Value};
use gradloom_ir::op::control::{ScanParts, WhileBackParts, WhileParts, branches};
use gradloom_ir::{Op, Program};

/// Appends an op that runs programs.
pub(super) fn lower(t: &mut Text, of: &Equation<'_>) -> Results {
    match of.op {
        Op::Scan => scan(t, of),
        Op::While => while_loop(t, of),
        Op::WhileBack => while_back(t, of),
        Op::Switch => switch(t, of),
        // Values that reverse mode keeps come after the results.
        Op::Checkpoint => body(t, of, of.outs.len()),
        Op::CustomJvp | Op::CustomVjp => body(t, of, of.outs.len()),
        // The results have been computed by ops before it.
        Op::Custom => Ok(of.args[..of.int(1) as usize].to_vec()),
        Op::CustomLin => Err(ExportError::OnlyTransposed { op: of.op }),
        Op::CustomTangent | Op::CustomCotangent | Op::CustomLanes | Op::HostKernel => {
            Err(ExportError::HostCode {
                op: of.op,
                name: of.statics[0].to_string().replace('`', ""),
            })
        }
        Op::Sharded => super::devices::sharded(t, of),
        Op::ShardMap => super::devices::shard_map(t, of),
        op => unreachable!("`{op}` runs no programs"),
    }
}

/// Appends the first results of the first program.
fn body(t: &mut Text, of: &Equation<'_>, n: usize) -> Results {
    let programs = of.statics[0].programs().expect("the op runs programs");
    let mut outs = program(t, &programs[0], &of.args)?;
    outs.truncate(n);
    Ok(outs)
}

fn switch(t: &mut Text, of: &Equation<'_>) -> Results {
    let branches = branches(&of.statics);
    let (index, args) = of.args.split_first().expect("the op has an index");
    // An index out of range takes the nearest branch.
    let index = t.convert(index, Element::I64);
    let low = t.full(0, Element::I64, &[]);
    let high = t.full(branches.len() - 1, Element::I64, &[]);
    let index = t.same("stablehlo.clamp", &[&low, &index, &high]);
    let index = t.convert(&index, Element::I32);
    let outs = typed(t, of);
    t.case(&index, branches.len(), &outs, |t, i| {
        program(t, &branches[i], args)
    })
}

/// Returns values of the types of the results.
fn typed(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    of.outs
        .iter()
        .map(|out| t.named("", out.element, &out.shape))
        .collect()
}

/// Appends the slice of `x` at an index of axis 0, without that axis.
fn row(t: &mut Text, x: &Value, index: &Value) -> Value {
    let starts = starts(t, index, x.rank());
    let lens = [&[1], &x.shape[1..]].concat();
    let part = t.dynamic_slice(x, &starts, &lens);
    t.reshape(&part, &x.shape[1..])
}

/// Appends `x` with its slice at an index of axis 0 replaced.
fn with_row(t: &mut Text, x: &Value, row: &Value, index: &Value) -> Value {
    let starts = starts(t, index, x.rank());
    let lens = [&[1], &x.shape[1..]].concat();
    let part = t.reshape(row, &lens);
    t.dynamic_update(x, &part, &starts)
}

fn starts(t: &mut Text, index: &Value, rank: usize) -> Vec<Value> {
    let zero = t.full(0, Element::I64, &[]);
    let mut starts = vec![zero; rank];
    starts[0] = index.clone();
    starts
}

fn scan(t: &mut Text, of: &Equation<'_>) -> Results {
    let ScanParts {
        body,
        turns,
        consts,
        carry,
        reverse,
    } = ScanParts::of(&of.statics);
    let n_states = consts + carry;
    let ys: Vec<Value> = of.outs[carry..]
        .iter()
        .map(|y| t.full(0, y.element, &y.shape))
        .collect();
    if turns == 0 {
        return Ok([&of.args[consts..n_states], &ys].concat());
    }
    // All values that the body reads are states: constants and slices stay as they are.
    let n_args = of.args.len();
    let states = [&of.args[..], &ys].concat();
    let mut outs = t.turns(turns, &states, |t, turn, states| {
        let at = match reverse {
            true => {
                let last = t.full(turns - 1, Element::I64, &[]);
                t.sub(&last, turn)
            }
            false => turn.clone(),
        };
        let xs: Vec<Value> = states[n_states..n_args]
            .iter()
            .map(|x| row(t, x, &at))
            .collect();
        let args = [&states[..n_states], &xs].concat();
        let outs = program(t, body, &args)?;
        let (next, rows) = outs.split_at(carry);
        let ys = states[n_args..].iter().zip(rows);
        let ys: Vec<Value> = ys.map(|(y, new)| with_row(t, y, new, &at)).collect();
        Ok([&states[..consts], next, &states[n_states..n_args], &ys].concat())
    })?;
    let ys = outs.split_off(n_args);
    Ok([&outs[consts..n_states], &ys].concat())
}

/// Appends a condition on all values that a loop holds.
fn goes_on(t: &mut Text, cond: &Program, args: &[Value]) -> Result<Value, ExportError> {
    let outs = program(t, cond, args)?;
    Ok(outs.into_iter().next().expect("a condition has one result"))
}

fn while_loop(t: &mut Text, of: &Equation<'_>) -> Results {
    let WhileParts { cond, body, consts } = WhileParts::of(&of.statics);
    let mut outs = t.while_loop(
        &of.args,
        |t, states| goes_on(t, cond, states),
        |t, states| {
            let next = program(t, body, states)?;
            Ok([&states[..consts], &next[..]].concat())
        },
    )?;
    Ok(outs.split_off(consts))
}

/// The turns backwards. Each runs the loop again up to its turn: a program has no memory of computed size.
fn while_back(t: &mut Text, of: &Equation<'_>) -> Results {
    let WhileBackParts {
        cond,
        forward,
        backward,
        consts,
        carry,
    } = WhileBackParts::of(&of.statics);
    let n_there = consts + carry;
    let (there, back) = of.args.split_at(n_there);
    // The states after a turn.
    let step = |t: &mut Text, states: &[Value]| -> Results {
        let outs = program(t, forward, states)?;
        Ok([&states[..consts], &outs[..carry]].concat())
    };

    let zero = t.full(0, Element::I64, &[]);
    let init = [std::slice::from_ref(&zero), there].concat();
    let counted = t.while_loop(
        &init,
        |t, states| goes_on(t, cond, &states[1..]),
        |t, states| {
            let next = step(t, &states[1..])?;
            let turn = t.plus(&states[0], 1);
            Ok([&[turn], &next[..]].concat())
        },
    )?;

    let init = [&counted[..1], there, back].concat();
    let mut outs = t.while_loop(
        &init,
        |t, states| Ok(t.compare_to(Order::Gt, &states[0], 0)),
        |t, states| {
            let turn = t.plus(&states[0], -1);
            let (there, back) = states[1..].split_at(n_there);
            let zero = t.full(0, Element::I64, &[]);
            let init = [&[zero, turn.clone()], there].concat();
            let before = t.while_loop::<ExportError>(
                &init,
                |t, states| Ok(t.compare(Order::Lt, &states[0], &states[1])),
                |t, states| {
                    let next = step(t, &states[2..])?;
                    let turn = t.plus(&states[0], 1);
                    Ok([&[turn, states[1].clone()], &next[..]].concat())
                },
            )?;
            let taped = program(t, forward, &before[2..])?;
            let args = [&there[..consts], &taped[carry..], back].concat();
            let next = program(t, backward, &args)?;
            Ok([&[turn], there, &next[..]].concat())
        },
    )?;
    Ok(outs.split_off(1 + n_there))
}
