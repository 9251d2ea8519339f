//! Instructions of elementwise groups.

use crate::elementwise::compiled_loops::{Loop, MOST_ARGS, MOST_OUTS};
use crate::movement::cast::{Byte, ConvertFrom, cast, select};
use gradloom_ir::DType;
use half::{bf16, f16};

/// Loop with three operands and one result, all of equal length.
type Ternary<T> = unsafe fn(&[T], &[T], &[T], &mut [T]);

/// Loop with four operands and one result, all of equal length.
type Quaternary<T> = unsafe fn(&[T], &[T], &[T], &[T], &mut [T]);

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
        /// Slots of the operands; those beyond the arity of the code are unused.
        args: [Slot; 4],
        out: Slot,
    },
    /// Several ops as one loop.
    Compiled {
        code: CompiledLoop,
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
            _ => 2,
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

    /// Returns the size in bytes of an element of its results.
    pub(crate) fn result_size(&self) -> usize {
        let code = match self {
            Instr::Op { code, .. } => *code,
            Instr::Compiled { code, .. } => {
                return match code {
                    CompiledLoop::F32(_) => size_of::<f32>(),
                    CompiledLoop::F64(_) => size_of::<f64>(),
                };
            }
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
        let (code, [x, y, z, w], out) = match self {
            Instr::Op { code, args, out } => {
                let args = args.map(|slot| slots.get(slot as usize).copied());
                (*code, args, slots[*out as usize])
            }
            Instr::Compiled { code, args, outs } => {
                let (mut x, mut y) = (
                    [std::ptr::null_mut(); MOST_ARGS],
                    [std::ptr::null_mut(); MOST_OUTS],
                );
                let fill = |to: &mut [*mut u8], list: &[Slot]| {
                    for (to, slot) in to.iter_mut().zip(list) {
                        *to = slots[*slot as usize];
                    }
                };
                fill(&mut x, args);
                fill(&mut y, outs);
                let (args, outs) = (&x[..args.len()], &y[..outs.len()]);
                // SAFETY: the caller guarantees that the slots hold `n` elements each and that the
                // results overlap nothing.
                return unsafe {
                    match code {
                        CompiledLoop::F32(f) => f.call(args, outs, n),
                        CompiledLoop::F64(f) => f.call(args, outs, n),
                    }
                };
            }
        };
        unsafe fn of<'a, T>(slot: Option<*mut u8>, n: usize) -> &'a [T] {
            let start = slot.expect("an instruction has a slot for each operand of its code");
            // SAFETY: the caller guarantees that the slot holds `n` elements of type `T`.
            unsafe { std::slice::from_raw_parts(start.cast::<T>(), n) }
        }
        unsafe fn of_mut<'a, T>(slot: *mut u8, n: usize) -> &'a mut [T] {
            // SAFETY: the caller guarantees that the slot has space for `n` elements of type `T` and
            // overlaps nothing.
            unsafe { std::slice::from_raw_parts_mut(slot.cast::<T>(), n) }
        }
        // SAFETY: the caller guarantees that the slots have `n` elements of the code's dtypes and
        // that the result overlaps nothing. The loops were chosen for the level of this CPU.
        unsafe {
            match code {
                Code::UnaryF32(f) => f(of(x, n), of_mut(out, n)),
                Code::UnaryF64(f) => f(of(x, n), of_mut(out, n)),
                Code::UnaryI32(f) => f(of(x, n), of_mut(out, n)),
                Code::UnaryI64(f) => f(of(x, n), of_mut(out, n)),
                Code::BinaryF32(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::BinaryF64(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::BinaryI32(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::BinaryI64(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::TernaryF32(f) => f(of(x, n), of(y, n), of(z, n), of_mut(out, n)),
                Code::TernaryF64(f) => f(of(x, n), of(y, n), of(z, n), of_mut(out, n)),
                Code::QuaternaryF32(f) => f(of(x, n), of(y, n), of(z, n), of(w, n), of_mut(out, n)),
                Code::QuaternaryF64(f) => f(of(x, n), of(y, n), of(z, n), of(w, n), of_mut(out, n)),
                Code::CompareF32(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::CompareF64(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::CompareI32(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::CompareI64(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::CompareBool(f) => f(of(x, n), of(y, n), of_mut(out, n)),
                Code::TestF32(f) => f(of(x, n), of_mut(out, n)),
                Code::TestF64(f) => f(of(x, n), of_mut(out, n)),
                Code::TestBool(f) => f(of(x, n), of_mut(out, n)),
                Code::Select(dtype) => match dtype.size() {
                    1 => select::<u8>(of(x, n), of(y, n), of(z, n), of_mut(out, n)),
                    2 => select::<u16>(of(x, n), of(y, n), of(z, n), of_mut(out, n)),
                    4 => select::<u32>(of(x, n), of(y, n), of(z, n), of_mut(out, n)),
                    _ => select::<u64>(of(x, n), of(y, n), of(z, n), of_mut(out, n)),
                },
                Code::Cast(from, to) => {
                    macro_rules! cast {
                        ($($a:ident: $from:ty),*) => {
                            match from {
                                $(DType::$a => cast_from::<$from>(of(x, n), to, out, n),)*
                            }
                        };
                    }
                    cast!(
                        F32: f32, F64: f64, BF16: bf16, F16: f16,
                        I32: i32, I64: i64, I8: i8, U8: u8, Bool: bool
                    )
                }
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
    }
}
