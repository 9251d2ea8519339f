//! Instructions of elementwise groups.

use crate::elementwise::compiled_loops::{Loop, LoopOfMany, Quaternary, Ternary};
use crate::movement::cast::{Byte, ConvertFrom, cast, select};
use gradloom_ir::DType;
use gradloom_maths::Level;
use half::{bf16, f16};

/// Code of an instruction with one result. A loop is the version for the SIMD level of this CPU.
///
/// It reads and writes the same number of elements of each operand and of the result.
#[derive(Clone, Copy)]
pub enum Code {
    UnaryF32(unsafe fn(&[f32], &mut [f32])),
    UnaryF64(unsafe fn(&[f64], &mut [f64])),
    UnaryI32(unsafe fn(&[i32], &mut [i32])),
    UnaryI64(unsafe fn(&[i64], &mut [i64])),
    BinaryF32(unsafe fn(&[f32], &[f32], &mut [f32])),
    BinaryF64(unsafe fn(&[f64], &[f64], &mut [f64])),
    BinaryI32(unsafe fn(&[i32], &[i32], &mut [i32])),
    BinaryI64(unsafe fn(&[i64], &[i64], &mut [i64])),
    TernaryF32(Ternary<f32>),
    TernaryF64(Ternary<f64>),
    QuaternaryF32(Quaternary<f32>),
    QuaternaryF64(Quaternary<f64>),
    CompareF32(unsafe fn(&[f32], &[f32], &mut [u8])),
    CompareF64(unsafe fn(&[f64], &[f64], &mut [u8])),
    CompareI32(unsafe fn(&[i32], &[i32], &mut [u8])),
    CompareI64(unsafe fn(&[i64], &[i64], &mut [u8])),
    CompareBool(unsafe fn(&[bool], &[bool], &mut [u8])),
    TestF32(unsafe fn(&[f32], &mut [u8])),
    TestF64(unsafe fn(&[f64], &mut [u8])),
    TestBool(unsafe fn(&[bool], &mut [u8])),
    /// Takes the first value operand where the bool is true, and the second elsewhere.
    Select(DType),
    Cast(DType, DType),
}

/// Index of a chunk: the operands of the group first, then its results, then registers.
pub(crate) type Slot = u32;

/// Instruction that runs on one chunk.
pub enum Instr {
    /// One op, or several as a loop with up to four operands and one result.
    Op {
        code: Code,
        /// Slots of the operands; those beyond the arity of the code are 0 and unused.
        args: [Slot; 4],
        out: Slot,
    },
    /// Several ops as one loop.
    Compiled {
        code: LoopOfMany,
        /// Level of this CPU.
        level: Level,
        /// Size in bytes of an element of the results.
        size: usize,
        args: Box<[Slot]>,
        outs: Box<[Slot]>,
    },
}

/// Loop over a whole group, typed by its operands and results.
#[derive(Clone, Copy)]
pub enum CompiledLoop {
    F32(&'static Loop<f32>),
    F64(&'static Loop<f64>),
}

impl Code {
    /// Returns the number of operands.
    fn n_args(self) -> usize {
        match self {
            Code::UnaryF32(_) | Code::UnaryF64(_) | Code::UnaryI32(_) | Code::UnaryI64(_) => 1,
            Code::Cast(..) | Code::TestF32(_) | Code::TestF64(_) | Code::TestBool(_) => 1,
            Code::Select(_) | Code::TernaryF32(_) | Code::TernaryF64(_) => 3,
            Code::QuaternaryF32(_) | Code::QuaternaryF64(_) => 4,
            Code::BinaryF32(_) | Code::BinaryF64(_) | Code::BinaryI32(_) | Code::BinaryI64(_) => 2,
            Code::CompareF32(_) | Code::CompareF64(_) | Code::CompareBool(_) => 2,
            Code::CompareI32(_) | Code::CompareI64(_) => 2,
        }
    }
}

impl Instr {
    /// Returns the slots of the operands and of the results.
    pub(crate) fn slots(&self) -> (&[Slot], &[Slot]) {
        match self {
            Instr::Op { code, args, out } => (&args[..code.n_args()], std::slice::from_ref(out)),
            Instr::Compiled { args, outs, .. } => (args, outs),
        }
    }

    /// Gives all slots other numbers.
    pub(crate) fn renumber(&mut self, number: impl Fn(Slot) -> Slot) {
        let renumber = |slot: &mut Slot| *slot = number(*slot);
        match self {
            Instr::Op { code, args, out } => {
                args[..code.n_args()].iter_mut().for_each(renumber);
                *out = number(*out);
            }
            Instr::Compiled { args, outs, .. } => {
                args.iter_mut().chain(outs).for_each(renumber);
            }
        }
    }

    /// Returns the size in bytes of an element of its results.
    pub(crate) fn result_size(&self) -> usize {
        let code = match self {
            Instr::Op { code, .. } => *code,
            Instr::Compiled { size, .. } => return *size,
        };
        match code {
            Code::UnaryF32(_) | Code::BinaryF32(_) | Code::UnaryI32(_) | Code::BinaryI32(_) => 4,
            Code::UnaryF64(_) | Code::BinaryF64(_) | Code::UnaryI64(_) | Code::BinaryI64(_) => 8,
            Code::TernaryF32(_) | Code::QuaternaryF32(_) => 4,
            Code::TernaryF64(_) | Code::QuaternaryF64(_) => 8,
            Code::CompareF32(_) | Code::CompareF64(_) | Code::CompareBool(_) => 1,
            Code::CompareI32(_) | Code::CompareI64(_) => 1,
            Code::TestF32(_) | Code::TestF64(_) | Code::TestBool(_) => 1,
            Code::Select(dtype) | Code::Cast(_, dtype) => dtype.size(),
        }
    }

    /// Runs the instruction on `n` elements of each slot.
    ///
    /// # Safety
    ///
    /// The operand slots must hold `n` valid elements of the dtypes of the code. The result slots
    /// must have space for `n` elements and overlap nothing else.
    #[inline]
    pub(crate) unsafe fn run(&self, slots: &[*mut u8], n: usize) {
        // SAFETY: the caller guarantees the slots.
        unsafe {
            match self {
                Instr::Op { code, args, out } => code.run(slots, args, *out, n),
                Instr::Compiled {
                    code,
                    level,
                    args,
                    outs,
                    ..
                } => (code.call)(*level, slots, args, outs, n),
            }
        }
    }
}

impl Code {
    /// Runs the code on `n` elements of each slot.
    ///
    /// # Safety
    ///
    /// As for [`Instr::run`].
    // Not inlined: what the loops of the callers keep in registers would be saved for each instruction.
    #[inline(never)]
    unsafe fn run(self, slots: &[*mut u8], args: &[Slot; 4], out: Slot, n: usize) {
        let at = |i: usize| slots[args[i] as usize];
        let y = slots[out as usize];
        // SAFETY: the caller guarantees that the slots have `n` elements of the code's dtypes and
        // that the result overlaps nothing. The loops were chosen for the level of this CPU.
        unsafe {
            match self {
                Code::UnaryF32(f) => f(of(at(0), n), of_mut(y, n)),
                Code::UnaryF64(f) => f(of(at(0), n), of_mut(y, n)),
                Code::UnaryI32(f) => f(of(at(0), n), of_mut(y, n)),
                Code::UnaryI64(f) => f(of(at(0), n), of_mut(y, n)),
                Code::BinaryF32(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::BinaryF64(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::BinaryI32(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::BinaryI64(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::TernaryF32(f) => f(of(at(0), n), of(at(1), n), of(at(2), n), of_mut(y, n)),
                Code::TernaryF64(f) => f(of(at(0), n), of(at(1), n), of(at(2), n), of_mut(y, n)),
                Code::QuaternaryF32(f) => {
                    let (x, z) = ((of(at(0), n), of(at(1), n)), (of(at(2), n), of(at(3), n)));
                    f(x.0, x.1, z.0, z.1, of_mut(y, n))
                }
                Code::QuaternaryF64(f) => {
                    let (x, z) = ((of(at(0), n), of(at(1), n)), (of(at(2), n), of(at(3), n)));
                    f(x.0, x.1, z.0, z.1, of_mut(y, n))
                }
                Code::CompareF32(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::CompareF64(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::CompareI32(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::CompareI64(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::CompareBool(f) => f(of(at(0), n), of(at(1), n), of_mut(y, n)),
                Code::TestF32(f) => f(of(at(0), n), of_mut(y, n)),
                Code::TestF64(f) => f(of(at(0), n), of_mut(y, n)),
                Code::TestBool(f) => f(of(at(0), n), of_mut(y, n)),
                Code::Select(dtype) => select_by_size(dtype.size(), [at(0), at(1), at(2)], y, n),
                Code::Cast(from, to) => cast_to(from, to, at(0), y, n),
            }
        }
    }
}

/// # Safety
///
/// The slot must hold `n` valid elements of type `T`.
#[inline(always)]
unsafe fn of<'a, T>(slot: *mut u8, n: usize) -> &'a [T] {
    // SAFETY: the caller guarantees the elements.
    unsafe { std::slice::from_raw_parts(slot.cast::<T>(), n) }
}

/// # Safety
///
/// The slot must have space for `n` elements of type `T` and overlap nothing that is used.
#[inline(always)]
unsafe fn of_mut<'a, T>(slot: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller guarantees the elements.
    unsafe { std::slice::from_raw_parts_mut(slot.cast::<T>(), n) }
}

/// Runs [`Code::Select`] on values of `size` bytes.
///
/// # Safety
///
/// As for [`Instr::run`].
#[inline(never)]
unsafe fn select_by_size(size: usize, [c, x, y]: [*mut u8; 3], out: *mut u8, n: usize) {
    // SAFETY: the caller guarantees the elements.
    unsafe {
        match size {
            1 => select::<u8>(of(c, n), of(x, n), of(y, n), of_mut(out, n)),
            2 => select::<u16>(of(c, n), of(x, n), of(y, n), of_mut(out, n)),
            4 => select::<u32>(of(c, n), of(x, n), of(y, n), of_mut(out, n)),
            _ => select::<u64>(of(c, n), of(x, n), of(y, n), of_mut(out, n)),
        }
    }
}

/// Runs [`Code::Cast`].
///
/// # Safety
///
/// As for [`Instr::run`].
#[inline(never)]
unsafe fn cast_to(from: DType, to: DType, x: *mut u8, out: *mut u8, n: usize) {
    macro_rules! cast {
        ($($a:ident: $from:ty),*) => {
            match from {
                $(DType::$a => cast_from::<$from>(of(x, n), to, out, n),)*
            }
        };
    }
    // SAFETY: the caller guarantees the elements.
    unsafe {
        cast!(
            F32: f32, F64: f64, BF16: bf16, F16: f16,
            I32: i32, I64: i64, I8: i8, U8: u8, Bool: bool
        )
    }
}

/// # Safety
///
/// `out` must have space for `n` elements of `to`.
unsafe fn cast_from<T: Copy>(xs: &[T], to: DType, out: *mut u8, n: usize)
where
    f32: ConvertFrom<T>,
    f64: ConvertFrom<T>,
    bf16: ConvertFrom<T>,
    f16: ConvertFrom<T>,
    i32: ConvertFrom<T>,
    i64: ConvertFrom<T>,
    i8: ConvertFrom<T>,
    u8: ConvertFrom<T>,
    Byte: ConvertFrom<T>,
{
    // SAFETY: the caller guarantees that `out` has space for `n` elements of `to`. `Byte`
    // accepts memory that holds no bools.
    unsafe {
        match to {
            DType::F32 => cast(xs, of_mut::<f32>(out, n)),
            DType::F64 => cast(xs, of_mut::<f64>(out, n)),
            DType::I32 => cast(xs, of_mut::<i32>(out, n)),
            DType::I64 => cast(xs, of_mut::<i64>(out, n)),
            DType::BF16 => cast(xs, of_mut::<bf16>(out, n)),
            DType::F16 => cast(xs, of_mut::<f16>(out, n)),
            DType::I8 => cast(xs, of_mut::<i8>(out, n)),
            DType::U8 => cast(xs, of_mut::<u8>(out, n)),
            DType::Bool => cast(xs, of_mut::<Byte>(out, n)),
        }
    }
}
