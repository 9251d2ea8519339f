//! Compilation of a group of elementwise equations to instructions.

use crate::elementwise::bytecode::{Code, CompiledLoop, Instr, Slot};
use crate::elementwise::compiled_loops::{FusedLoop, Loop, LoopOfMany};
use crate::elementwise::group::{Group, Source};
use crate::elementwise::tile::FusedSum;
use crate::simd::level::level;
use gradloom_ir::DType;
use gradloom_ir::op::{BinaryFns, BitFns, CompareFns, Eval, ManyFns, TestFns, UnaryFns};
use gradloom_ir::{Kernel, Op};
use smallvec::{SmallVec, smallvec};

const TAKEN: &str = "the dtype rule refuses a dtype that the op has no loop for";

/// Code of a step.
#[derive(Clone, Copy)]
pub enum Run {
    /// One op with the dtype of its operands and that of its result. For `select`, the first is the
    /// dtype of the values.
    Op(Op, DType, DType),
    /// Several ops as one loop.
    Loop(CompiledLoop),
}

/// Step of a group. Values are numbered: the operands of the group first, then computed values in
/// any order.
pub struct Step {
    pub run: Run,
    pub args: SmallVec<[usize; 4]>,
    pub outs: SmallVec<[usize; 2]>,
}

/// Compiles `steps` into a group of `n` elements and assigns slots to its values.
///
/// `results` are the values with consumers outside of the group, and `sums` those that are summed,
/// all in the same way; both come with their dtypes.
pub fn group(
    n: usize,
    inputs: &[(DType, Source)],
    steps: &[Step],
    results: &[(usize, DType)],
    sums: &[(usize, DType, FusedSum)],
) -> Group {
    let n_inputs = inputs.len();
    let computed = steps.iter().flat_map(|step| &step.outs);
    let n_values = computed.fold(n_inputs, |n, value| n.max(value + 1));
    let mut last_read: SmallVec<[usize; 32]> = smallvec![0; n_values];
    for (i, step) in steps.iter().enumerate() {
        step.args.iter().for_each(|arg| last_read[*arg] = i);
    }
    // Sums read their terms after all steps.
    for (value, ..) in sums {
        last_read[*value] = usize::MAX;
    }
    const NONE: Slot = Slot::MAX;
    let mut slot_of: SmallVec<[Slot; 32]> = smallvec![NONE; n_values];
    let first = (n_inputs + results.len()) as Slot;
    for (slot, value) in (0..n_inputs).chain(results.iter().map(|r| r.0)).enumerate() {
        slot_of[value] = slot as Slot;
    }
    let (mut free, mut n_registers) = (SmallVec::<[Slot; 8]>::new(), 0);
    let mut instrs = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate() {
        for out in &step.outs {
            if slot_of[*out] == NONE {
                slot_of[*out] = free.pop().unwrap_or_else(|| {
                    n_registers += 1;
                    first + n_registers - 1
                });
            }
        }
        let slot = |value: &usize| slot_of[*value];
        let (args, outs) = (step.args.iter().map(slot), step.outs.iter().map(slot));
        let code = match step.run {
            Run::Op(op, from, to) => Ok(code(op, from, to)),
            Run::Loop(CompiledLoop::F32(f)) => of_f32(f).map_err(|many| (many, size_of::<f32>())),
            Run::Loop(CompiledLoop::F64(f)) => of_f64(f).map_err(|many| (many, size_of::<f64>())),
        };
        instrs.push(match code {
            Ok(code) => {
                let mut four = [0; 4];
                four.iter_mut().zip(args).for_each(|(to, from)| *to = from);
                Instr::Op {
                    code,
                    args: four,
                    out: slot(&step.outs[0]),
                }
            }
            Err((code, size)) => Instr::Compiled {
                code,
                level: level(),
                size,
                args: args.collect(),
                outs: outs.collect(),
            },
        });
        // A value that is not read again frees its register. A step may read an operand twice.
        let before = free.len();
        for value in step.args.iter().chain(&step.outs) {
            let slot = slot_of[*value];
            if slot >= first && last_read[*value] <= i && !free[before..].contains(&slot) {
                free.push(slot);
            }
        }
    }
    let outputs: SmallVec<[DType; 4]> = results.iter().map(|(_, dtype)| *dtype).collect();
    let sums = sums
        .iter()
        .map(|&(value, dtype, sum)| (slot_of[value], dtype, sum));
    Group::new(
        n,
        inputs,
        &outputs,
        instrs,
        sums.collect(),
        n_registers as usize,
    )
}

/// Returns the registered loop for a signature, if it has this arity.
pub fn compiled(signature: &str, dtype: DType, arity: (usize, usize)) -> Option<CompiledLoop> {
    let fused = super::compiled_loops::find(signature)?;
    let fits = fused.f32.arity() == arity && fused.f64.arity() == arity;
    in_dtype(fused, dtype).filter(|_| fits)
}

/// Returns the loop for a dtype, or `None` if it is not a float.
pub fn in_dtype(fused: &'static FusedLoop, dtype: DType) -> Option<CompiledLoop> {
    match dtype {
        DType::F32 => Some(CompiledLoop::F32(&fused.f32)),
        DType::F64 => Some(CompiledLoop::F64(&fused.f64)),
        _ => None,
    }
}

/// Returns the code of a loop with few operands and one result, which costs less per instruction than
/// [`Instr::Compiled`], or the loop.
fn of_f32(compiled: &Loop<f32>) -> Result<Code, LoopOfMany> {
    let level = level() as usize;
    Ok(match *compiled {
        Loop::L1x1(f) => Code::UnaryF32(f[level]),
        Loop::L2x1(f) => Code::BinaryF32(f[level]),
        Loop::L3x1(f) => Code::TernaryF32(f[level]),
        Loop::L4x1(f) => Code::QuaternaryF32(f[level]),
        Loop::Many(many) => return Err(many),
    })
}

/// As [`of_f32`].
fn of_f64(compiled: &Loop<f64>) -> Result<Code, LoopOfMany> {
    let level = level() as usize;
    Ok(match *compiled {
        Loop::L1x1(f) => Code::UnaryF64(f[level]),
        Loop::L2x1(f) => Code::BinaryF64(f[level]),
        Loop::L3x1(f) => Code::TernaryF64(f[level]),
        Loop::L4x1(f) => Code::QuaternaryF64(f[level]),
        Loop::Many(many) => return Err(many),
    })
}

/// Returns the loop of an op.
fn code(op: Op, from: DType, to: DType) -> Code {
    match op.def().eval() {
        Eval::Unary(fns) => unary(&fns, from),
        Eval::Binary(fns) => binary(&fns, from),
        Eval::Compare(fns) => compare(&fns, from),
        Eval::Test(fns) => test(&fns, from),
        Eval::Bits(fns) => bits(&fns, from),
        Eval::Many(fns) => many(&fns, from),
        Eval::Kernel(Kernel::Select) => Code::Select(from),
        Eval::Kernel(Kernel::Cast | Kernel::CastT) => Code::Cast(from, to),
        _ => unreachable!("`{op}` is not elementwise"),
    }
}

fn unary(fns: &UnaryFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::UnaryF32(fns.f32.get(level())),
        DType::F64 => Code::UnaryF64(fns.f64.get(level())),
        DType::I32 => Code::UnaryI32(fns.i32.expect(TAKEN).get(level())),
        DType::I64 => Code::UnaryI64(fns.i64.expect(TAKEN).get(level())),
        _ => unreachable!("{TAKEN}"),
    }
}

fn binary(fns: &BinaryFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::BinaryF32(fns.f32.get(level())),
        DType::F64 => Code::BinaryF64(fns.f64.get(level())),
        DType::I32 => Code::BinaryI32(fns.i32.expect(TAKEN).get(level())),
        DType::I64 => Code::BinaryI64(fns.i64.expect(TAKEN).get(level())),
        DType::Bool => Code::CompareBool(fns.bool.expect(TAKEN).get(level())),
        _ => unreachable!("{TAKEN}"),
    }
}

fn many(fns: &ManyFns, dtype: DType) -> Code {
    match (fns, dtype) {
        (ManyFns::Three { f32, .. }, DType::F32) => Code::TernaryF32(f32.get(level())),
        (ManyFns::Three { f64, .. }, DType::F64) => Code::TernaryF64(f64.get(level())),
        (ManyFns::Four { f32, .. }, DType::F32) => Code::QuaternaryF32(f32.get(level())),
        (ManyFns::Four { f64, .. }, DType::F64) => Code::QuaternaryF64(f64.get(level())),
        _ => unreachable!("{TAKEN}"),
    }
}

fn compare(fns: &CompareFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::CompareF32(fns.f32.get(level())),
        DType::F64 => Code::CompareF64(fns.f64.get(level())),
        DType::I32 => Code::CompareI32(fns.i32.get(level())),
        DType::I64 => Code::CompareI64(fns.i64.get(level())),
        DType::Bool => Code::CompareBool(fns.bool.get(level())),
        _ => unreachable!("{TAKEN}"),
    }
}

fn test(fns: &TestFns, dtype: DType) -> Code {
    match dtype {
        DType::F32 => Code::TestF32(fns.f32.get(level())),
        DType::F64 => Code::TestF64(fns.f64.get(level())),
        _ => unreachable!("{TAKEN}"),
    }
}

fn bits(fns: &BitFns, dtype: DType) -> Code {
    match (fns, dtype) {
        (BitFns::One { i32, .. }, DType::I32) => Code::UnaryI32(i32.get(level())),
        (BitFns::One { i64, .. }, DType::I64) => Code::UnaryI64(i64.get(level())),
        (BitFns::One { bool, .. }, DType::Bool) => Code::TestBool(bool.get(level())),
        (BitFns::Two { i32, .. }, DType::I32) => Code::BinaryI32(i32.get(level())),
        (BitFns::Two { i64, .. }, DType::I64) => Code::BinaryI64(i64.get(level())),
        (BitFns::Two { bool, .. }, DType::Bool) => {
            Code::CompareBool(bool.expect(TAKEN).get(level()))
        }
        _ => unreachable!("{TAKEN}"),
    }
}
