//! Elementwise groups, each of which becomes one task, including sums over its members.

use super::consumers::Consumers;
use super::instructions::{Instructions, Members, instructions};
use super::steps::Planning;
use super::{BOUND, aval, epilogue};
use crate::Aval;
use crate::DType;
use crate::backend::cpu;
use crate::backend::{InPlace, Operand, TaskBuilder, TaskKind, View};
use gradloom_ir::Program;
use gradloom_kernels::elementwise::compile;
use gradloom_kernels::elementwise::{self, FusedSum, Source};
use gradloom_kernels::memory::Layout;
use gradloom_kernels::movement;
use gradloom_kernels::reduce;
use smallvec::SmallVec;
use std::collections::BTreeSet;

const MEMBERS: &str = "a group has members";

/// Plans elementwise equations with results of one shape as one task, which also computes `sums`.
pub(super) fn group(planning: &mut Planning<'_>, step: &[usize], sums: &[(usize, FusedSum)]) {
    let Planning {
        program,
        build,
        places,
        placed,
        consumers,
        constants,
        numbers,
    } = planning;
    let program = *program;
    let eqns = || step.iter().map(|i| &program.eqns[*i]);
    build.op = eqns().next_back().expect(MEMBERS).op;
    let summed = sums.iter().map(|(i, _)| i);
    build.eqns = step.iter().chain(summed).map(|i| *i as u32).collect();
    let out = aval(program, eqns().next().expect(MEMBERS).out());
    let shape = out.shape();
    // Values are numbered: operands first, then members.
    numbers.next_group();
    let mut inputs: SmallVec<[Operand; 4]> = SmallVec::new();
    for var in eqns().flat_map(|eqn| eqn.data()) {
        let view = |place: &View| place.broadcast_to(shape).into();
        let operand = || places.get(*var).map(view).or(placed.get(*var).cloned());
        if let (None, Some(operand)) = (numbers.get(*var), operand()) {
            numbers.set(*var, inputs.len());
            inputs.push(operand);
        }
    }
    for (i, eqn) in eqns().enumerate() {
        numbers.set(eqn.out(), inputs.len() + i);
    }
    let dtype_of = |i: usize| {
        let dtype = program.aval(program.eqns[step[i]].out()).dtype;
        dtype.expect("a plan knows its dtypes")
    };
    // Members that only fused sums read are not stored.
    let made: BTreeSet<usize> = sums.iter().map(|(i, _)| *i).collect();
    let is_result = |i: &usize| {
        let mut others = consumers.outside(program.eqns[step[*i]].out(), step);
        others.any(|by| !made.contains(&by))
    };
    let results: SmallVec<[usize; 8]> = (0..step.len()).filter(is_result).collect();
    let member_of =
        |sum: usize| numbers.get(program.eqns[sum].data()[0]).expect(BOUND) - inputs.len();
    let summed: SmallVec<[(usize, FusedSum); 2]> =
        sums.iter().map(|(i, sum)| (member_of(*i), *sum)).collect();
    let mut outs: SmallVec<[Aval; 2]> = results
        .iter()
        .map(|i| Aval::new(dtype_of(*i), shape))
        .collect();
    outs.extend(
        summed
            .iter()
            .map(|(i, sum)| Aval::new(dtype_of(*i), [sum.len(out.numel())])),
    );
    let is_read = |i: &usize| {
        let mut outside = consumers.outside(program.eqns[*i].out(), step);
        outside.next().is_some()
    };
    let members = Members {
        program,
        constants,
        step,
        n_inputs: inputs.len(),
        is_read: &step.iter().map(is_read).collect::<SmallVec<[bool; 16]>>(),
        numbers,
    };
    let Instructions {
        steps,
        used,
        compiled,
    } = instructions(&members);
    let mut args: SmallVec<[Operand; 4]> = used.iter().map(|i| inputs[*i].clone()).collect();
    let sums_of: SmallVec<[FusedSum; 2]> = summed.iter().map(|(_, sum)| *sum).collect();
    let jumps = |x: &View| movement::jumps(x.dtype(), &x.layout);
    let mut sources: SmallVec<[(DType, Source); 4]> = args.iter().map(Operand::source).collect();
    let copied: Vec<usize> = match epilogue::product(build, &args, out.numel()) {
        None => elementwise::copied(&sources, &sums_of),
        // An epilogue gets its elements in the order of the product.
        Some(_) => (0..args.len())
            .filter(|i| args[*i].as_view().is_some_and(jumps))
            .collect(),
    };
    for i in copied {
        args[i] = copy_without_repetition(build, &args[i].view).into();
        sources[i] = args[i].source();
    }
    let value = |i: usize| args.len() + i;
    let stored: SmallVec<[_; 8]> = results.iter().map(|i| (value(*i), dtype_of(*i))).collect();
    let totals: SmallVec<[_; 2]> = summed
        .iter()
        .map(|(i, sum)| (value(*i), dtype_of(*i), *sum))
        .collect();
    let kernel = compile::group(out.numel(), &sources, &steps, &stored, &totals);
    let what = match step {
        [i] if sums.is_empty() => TaskKind::Op(program.eqns[*i].op),
        _ => TaskKind::Group {
            after: None,
            ops: eqns()
                .map(|eqn| eqn.op)
                .chain(sums.iter().map(|(i, _)| program.eqns[*i].op))
                .collect(),
            compiled,
            loops: steps.len(),
        },
    };
    let in_order = |x: &Operand| x.as_view().is_some_and(|x| x.layout.is_contiguous());
    let in_order = args.iter().map(in_order).collect();
    let mut made = epilogue::group(build, what, &args, &outs, results.len(), kernel);
    let draft = build.drafts.last_mut().expect(MEMBERS);
    if draft.followed.is_none() {
        draft.may_fail = false;
        draft.in_place = InPlace::Group {
            results: results.len(),
            in_order,
        };
    }
    let totals = made.split_off(results.len());
    for (i, place) in results.iter().zip(made) {
        places.insert(program.eqns[step[*i]].out(), place);
    }
    for ((i, sum), totals) in sums.iter().zip(totals) {
        let var = program.eqns[*i].outs[0];
        let out = aval(program, var);
        let place = match sum {
            FusedSum::Rows(_) => totals,
            FusedSum::All | FusedSum::Columns(_) if totals.layout.numel() == out.numel() => totals,
            FusedSum::All | FusedSum::Columns(_) => {
                build.op = program.eqns[*i].op;
                let kernel = reduce::join_totals(out.dtype(), sum.joined());
                build.join(&totals, &out, kernel)
            }
        };
        places.insert(var, place.with(Layout::contiguous(out.shape())));
    }
}

/// Copies a view in row-major order, with one copy of the elements that it repeats.
fn copy_without_repetition(build: &mut TaskBuilder, x: &View) -> View {
    let repeated = (0..x.rank()).filter(|axis| x.layout.strides[*axis] == 0);
    let once = repeated.fold(x.clone(), |x, axis| x.narrow(axis, 0, 1));
    build.contiguous(&once).broadcast_to(x.shape())
}

/// Returns the sums over members that the group can compute: equation and kind of each.
pub(super) fn sums(
    program: &Program,
    step: &[usize],
    consumers: &Consumers,
) -> Vec<(usize, FusedSum)> {
    let mut found: Vec<(usize, FusedSum)> = Vec::new();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    for member in step {
        let var = program.eqns[*member].out();
        for i in consumers.outside(var, step) {
            let Some(eqn) = program.eqns.get(i) else {
                continue;
            };
            let Some(over) = eqn.op.def().facts().sum else {
                continue;
            };
            let statics: Vec<_> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
            let (shape, out) = (aval(program, var), aval(program, eqn.outs[0]));
            let sum = cpu::fused_sum(over, eqn.op, &statics, shape.shape(), out.shape());
            let others = found.iter().map(|(_, other)| *other);
            if let Some(sum) = sum
                && FusedSum::together(others.chain([sum]), shape.numel())
                && seen.insert(i)
            {
                found.push((i, sum));
            }
        }
    }
    found
}
