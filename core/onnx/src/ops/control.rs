//! Ops that run programs, as subgraphs. Those read operands that do not change by their names.

use super::{Results, program};
use crate::equation::Equation;
use crate::graph::{Graph, Value};
use crate::proto::Attribute;
use gradloom_ir::op::control::{ScanParts, WhileParts, branches};
use gradloom_ir::{DType, Op, Program, pass};

/// Appends an op that runs programs.
pub(super) fn lower(g: &mut Graph, of: &Equation<'_>) -> Results {
    match of.op {
        // One program is run once, on the operands. Values that reverse mode keeps come after the results.
        Op::Checkpoint | Op::CustomJvp | Op::CustomVjp | Op::Sharded => {
            let programs = of.statics[0].programs().expect("the op runs programs");
            let mut outs = program(g, &programs[0], &of.args)?;
            outs.truncate(of.outs.len());
            Ok(outs)
        }
        // The results have been computed by ops before it.
        Op::Custom => Ok(of.args[..of.int(1) as usize].to_vec()),
        Op::Scan => scan(g, of),
        Op::While => while_loop(g, of),
        Op::Switch => switch(g, of),
        Op::WhileBack => {
            of.refused("it is part of a derivative, and ONNX models are for inference")
        }
        Op::ShardMap => of.refused("it is a program for each of several devices"),
        Op::CustomLin => of.refused("it exists only to be transposed"),
        _ => of.refused("it runs host code, which has no program"),
    }
}

/// Appends the program of a loop or a branch.
fn body(g: &mut Graph, of: &Program, args: &[Value]) -> Results {
    // The widening of a program leaves the programs of its ops as they are.
    program(g, &pass::widen(of.clone()), args)
}

fn scan(g: &mut Graph, of: &Equation<'_>) -> Results {
    let parts = ScanParts::of(&of.statics);
    let (consts, rest) = of.args.split_at(parts.consts);
    let (states, xs) = rest.split_at(parts.carry);
    if parts.turns == 0 {
        let ys = &of.outs[parts.carry..];
        let ys = ys.iter().map(|(dtype, shape)| g.full(*dtype, 0i64, shape));
        return Ok(states.iter().cloned().chain(ys).collect());
    }
    // The op wants a stacked operand, which gives the number of turns.
    let xs = match xs.is_empty() {
        true => vec![g.iota(0, DType::I64, &[parts.turns])],
        false => xs.to_vec(),
    };
    let slices = xs.iter().map(|x| (x.dtype, x.shape[1..].to_vec()));
    let states_of = states.iter().map(|x| (x.dtype, x.shape.clone()));
    let params: Vec<_> = states_of.chain(slices).collect();
    let n_params = parts.body.params.len() - consts.len();
    let graph = g.subgraph(&params, |g, params| {
        body(g, parts.body, &[consts, &params[..n_params]].concat())
    })?;
    let direction = i64::from(parts.reverse);
    let ins = vec![direction; xs.len()];
    let outs = vec![direction; of.outs.len() - parts.carry];
    let mut attributes = vec![
        Attribute::Int("num_scan_inputs", xs.len() as i64),
        Attribute::Ints("scan_input_directions", &ins),
    ];
    if !outs.is_empty() {
        attributes.push(Attribute::Ints("scan_output_directions", &outs));
    }
    let inputs: Vec<&Value> = states.iter().chain(&xs).collect();
    Ok(g.node_with("Scan", &inputs, &attributes, &[("body", graph)], &of.outs))
}

fn while_loop(g: &mut Graph, of: &Equation<'_>) -> Results {
    let parts = WhileParts::of(&of.statics);
    let (consts, states) = of.args.split_at(parts.consts);
    let goes_on = body(g, parts.cond, &of.args)?.remove(0);
    // The number of the turn and the condition come before the states.
    let flags = [(DType::I64, Vec::new()), (DType::Bool, Vec::new())];
    let of_states = states.iter().map(|x| (x.dtype, x.shape.clone()));
    let params: Vec<_> = flags.into_iter().chain(of_states).collect();
    let graph = g.subgraph(&params, |g, params| {
        let next = body(g, parts.body, &[consts, &params[2..]].concat())?;
        let goes_on = body(g, parts.cond, &[consts, &next].concat())?;
        Ok([goes_on, next].concat())
    })?;
    let unlimited = Value {
        name: String::new(),
        dtype: DType::I64,
        shape: Vec::new(),
    };
    let inputs: Vec<&Value> = [&unlimited, &goes_on].into_iter().chain(states).collect();
    Ok(g.node_with("Loop", &inputs, &[], &[("body", graph)], &of.outs))
}

fn switch(g: &mut Graph, of: &Equation<'_>) -> Results {
    let (index, args) = of.args.split_first().expect("the op has an index");
    let index = g.convert(index, DType::I64);
    chosen(g, of, branches(&of.statics), &index, args, 0)
}

/// Appends the choice between the branches from number `i` on. An index out of range takes the nearest branch.
fn chosen(
    g: &mut Graph,
    of: &Equation<'_>,
    branches: &[Program],
    index: &Value,
    args: &[Value],
    i: usize,
) -> Results {
    if i + 1 == branches.len() {
        return body(g, &branches[i], args);
    }
    let is_this = g.compare_with("LessOrEqual", index, i);
    let this = g.subgraph(&[], |g, _| body(g, &branches[i], args))?;
    let others = g.subgraph(&[], |g, _| chosen(g, of, branches, index, args, i + 1))?;
    let graphs = [("then_branch", this), ("else_branch", others)];
    Ok(g.node_with("If", &[&is_this], &[], &graphs, &of.outs))
}
