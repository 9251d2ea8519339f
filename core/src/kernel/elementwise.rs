//! From a group of elementwise equations to the instructions of its loop.

use super::fused::{Code, Compiled, Group, Instr, Slot, Sum};
use super::level::level;
use super::memory::Prepared;
use crate::DType;
use crate::layout::Layout;
use gradloom_ir::op::{BinaryFns, CompareFns, Eval, UnaryFns};
use gradloom_ir::{Kernel, Op};
use std::collections::HashMap;

const TAKEN: &str = "the dtype rule refuses what the op has no loop for";

/// An equation of a group. Values are numbers: operands of the group come first, the results of members follow in order.
pub(crate) struct Member {
    pub(crate) op: Op,
    pub(crate) args: Vec<usize>,
    /// The dtype of its operands; of `select`, of those between which it chooses.
    pub(crate) from: DType,
    /// The dtype of its result.
    pub(crate) to: DType,
}

/// The kernel of a group of `n` elements. `results` are the members whose values others read; `sums` those that are summed,
/// all in the same way.
pub(crate) fn group(
    n: usize,
    inputs: &[(DType, Layout)],
    members: &[Member],
    results: &[usize],
    sums: &[(usize, Sum)],
) -> Prepared {
    let n_inputs = inputs.len();
    let mut last_read: HashMap<usize, usize> = HashMap::new();
    for (i, member) in members.iter().enumerate() {
        last_read.extend(member.args.iter().map(|arg| (*arg, i)));
    }
    // A sum reads when all members have been computed.
    last_read.extend(sums.iter().map(|(m, _)| (n_inputs + m, usize::MAX)));
    let result_of: HashMap<usize, usize> =
        results.iter().enumerate().map(|(r, m)| (*m, r)).collect();
    let mut slot_of: Vec<Slot> = (0..n_inputs as Slot).collect();
    let first = (n_inputs + results.len()) as Slot;
    let (mut free, mut n_registers) = (Vec::new(), 0);
    let mut instrs = Vec::with_capacity(members.len());
    for (i, member) in members.iter().enumerate() {
        let out = match result_of.get(&i) {
            Some(r) => (n_inputs + r) as Slot,
            None => free.pop().unwrap_or_else(|| {
                n_registers += 1;
                first + n_registers - 1
            }),
        };
        let mut args = [0; 3];
        for (slot, arg) in args.iter_mut().zip(&member.args) {
            *slot = slot_of[*arg];
        }
        instrs.push(Instr::Op {
            code: code(member),
            args,
            out,
        });
        slot_of.push(out);
        // What is not read again leaves its register to the next. An operand may be read twice by one member.
        let mut read = member.args.clone();
        read.push(n_inputs + i);
        read.sort_unstable();
        read.dedup();
        for value in read {
            let slot = slot_of[value];
            if slot >= first && last_read.get(&value).is_none_or(|last| *last <= i) {
                free.push(slot);
            }
        }
    }
    let outputs: Vec<DType> = results.iter().map(|m| members[*m].to).collect();
    let sums = sums
        .iter()
        .map(|&(m, sum)| (slot_of[n_inputs + m], members[m].to, sum));
    Group::new(
        n,
        inputs,
        &outputs,
        instrs,
        sums.collect(),
        n_registers as usize,
    )
    .prepare()
}

/// The kernel of a group of `n` elements that one compiled loop computes. `outs` says of each result of the loop which result of
/// the kernel it is; what is none of them is only summed. `sums` are those that are summed, by position in `outs`.
pub(crate) fn compiled_group(
    n: usize,
    inputs: &[(DType, Layout)],
    code: Compiled,
    outs: &[Option<usize>],
    sums: &[(usize, Sum)],
) -> Prepared {
    let dtype = match code {
        Compiled::F32(_) => DType::F32,
        Compiled::F64(_) => DType::F64,
    };
    let n_results = outs.iter().flatten().count();
    let mut next = inputs.len() + n_results;
    let slot = |out: &Option<usize>| match out {
        Some(result) => (inputs.len() + result) as Slot,
        None => {
            next += 1;
            next as Slot - 1
        }
    };
    let slots: Box<[Slot]> = outs.iter().map(slot).collect();
    let sums = sums
        .iter()
        .map(|&(out, sum)| (slots[out], dtype, sum))
        .collect();
    let instr = Instr::Compiled {
        code,
        args: (0..inputs.len() as Slot).collect(),
        outs: slots.clone(),
    };
    let n_registers = outs.len() - n_results;
    Group::new(
        n,
        inputs,
        &vec![dtype; n_results],
        vec![instr],
        sums,
        n_registers,
    )
    .prepare()
}

/// The loop that some traced function brings along for a signature, if it is for so many operands and results.
pub(crate) fn compiled(signature: &str, dtype: DType, arity: (usize, usize)) -> Option<Compiled> {
    let fused = super::compiled::find(signature)?;
    let found = match dtype {
        DType::F32 => Compiled::F32(&fused.f32),
        DType::F64 => Compiled::F64(&fused.f64),
        _ => return None,
    };
    (fused.f32.arity() == arity && fused.f64.arity() == arity).then_some(found)
}

/// The loop of a member.
fn code(member: &Member) -> Code {
    match member.op.def().eval() {
        Eval::Unary(fns) => unary(&fns, member.from),
        Eval::Binary(fns) => binary(&fns, member.from),
        Eval::Compare(fns) => compare(&fns, member.from),
        Eval::Kernel(Kernel::Select) => Code::Select(member.from),
        Eval::Kernel(Kernel::Cast | Kernel::CastT) => Code::Cast(member.from, member.to),
        _ => unreachable!("`{}` is not elementwise", member.op),
    }
}

fn unary(fns: &UnaryFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::UnaryF32(fns.f32.get(level())),
        DType::F64 => Code::UnaryF64(fns.f64.get(level())),
        DType::I32 => Code::UnaryI32(fns.i32.expect(TAKEN).get(level())),
        DType::I64 => Code::UnaryI64(fns.i64.expect(TAKEN).get(level())),
        DType::Bool => unreachable!("{TAKEN}"),
    }
}

fn binary(fns: &BinaryFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::BinaryF32(fns.f32.get(level())),
        DType::F64 => Code::BinaryF64(fns.f64.get(level())),
        DType::I32 => Code::BinaryI32(fns.i32.expect(TAKEN).get(level())),
        DType::I64 => Code::BinaryI64(fns.i64.expect(TAKEN).get(level())),
        DType::Bool => unreachable!("{TAKEN}"),
    }
}

fn compare(fns: &CompareFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::CompareF32(fns.f32.get(level())),
        DType::F64 => Code::CompareF64(fns.f64.get(level())),
        DType::I32 => Code::CompareI32(fns.i32.get(level())),
        DType::I64 => Code::CompareI64(fns.i64.get(level())),
        DType::Bool => Code::CompareBool(fns.bool.get(level())),
    }
}
