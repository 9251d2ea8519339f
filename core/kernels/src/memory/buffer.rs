//! Storage of elements.

use crate::lock::get_or_init;
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::memory::pool::PooledVec;
use gradloom_ir::DType;
use gradloom_ir::Static;
use half::{bf16, f16};
use std::sync::{Arc, OnceLock};

/// Elements of a realised tensor, in row-major order.
#[derive(Clone, Debug)]
pub enum Buffer {
    F32(PooledVec<f32>),
    F64(PooledVec<f64>),
    I32(PooledVec<i32>),
    I64(PooledVec<i64>),
    BF16(PooledVec<bf16>),
    F16(PooledVec<f16>),
    I8(PooledVec<i8>),
    U8(PooledVec<u8>),
    Bool(PooledVec<bool>),
}

/// Evaluates `$e` with `$xs` bound to the elements of a buffer, for each element type.
macro_rules! on_elements {
    ($buffer:expr, $xs:ident => $e:expr) => {
        match $buffer {
            $crate::memory::buffer::Buffer::F32($xs) => $e,
            $crate::memory::buffer::Buffer::F64($xs) => $e,
            $crate::memory::buffer::Buffer::I32($xs) => $e,
            $crate::memory::buffer::Buffer::I64($xs) => $e,
            $crate::memory::buffer::Buffer::BF16($xs) => $e,
            $crate::memory::buffer::Buffer::F16($xs) => $e,
            $crate::memory::buffer::Buffer::I8($xs) => $e,
            $crate::memory::buffer::Buffer::U8($xs) => $e,
            $crate::memory::buffer::Buffer::Bool($xs) => $e,
        }
    };
}

impl Buffer {
    /// Returns a buffer of `n` unspecified elements. The caller writes them before it reads them.
    pub fn scratch(dtype: DType, n: usize) -> Result<Buffer, KernelFault> {
        fn of<T: Element>(n: usize) -> Result<Buffer, KernelFault> {
            Ok(T::into_buffer(PooledVec::scratch(n)?))
        }
        on_element!(dtype, of(n))
    }

    /// Returns a buffer with one element, the number that a static argument holds.
    pub fn of_static(value: &Static, dtype: DType) -> Buffer {
        fn of<T: Element>(value: &Static) -> Buffer {
            T::into_buffer(vec![T::from_static(value)].into())
        }
        on_element!(dtype, of(value))
    }

    /// Returns the buffer if this is its only handle and its elements may be written.
    ///
    /// Elements that [another owner](PooledVec::of_bytes) holds, such as those of a mapped file, are only read.
    pub fn writable(this: &mut Arc<Buffer>) -> Option<&mut Buffer> {
        Arc::get_mut(this).filter(|buffer| buffer.is_owned())
    }

    /// Returns whether the memory of the elements is that of the buffer, so that they may be written.
    pub fn is_owned(&self) -> bool {
        on_elements!(self, xs => xs.is_owned())
    }

    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        on_elements!(self, xs => xs.as_ptr().cast())
    }

    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        on_elements!(self, xs => xs.as_mut_ptr().cast())
    }

    /// Returns whether both buffers have the same dtype and bit-identical elements.
    pub fn is_same(&self, other: &Buffer) -> bool {
        macro_rules! bits {
            ($a:expr, $b:expr) => {{
                let mut pairs = $a.iter().zip($b.iter());
                $a.len() == $b.len() && pairs.all(|(x, y)| x.to_bits() == y.to_bits())
            }};
        }
        match (self, other) {
            (Buffer::F32(a), Buffer::F32(b)) => bits!(a, b),
            (Buffer::F64(a), Buffer::F64(b)) => bits!(a, b),
            (Buffer::BF16(a), Buffer::BF16(b)) => bits!(a, b),
            (Buffer::F16(a), Buffer::F16(b)) => bits!(a, b),
            (Buffer::I32(a), Buffer::I32(b)) => a[..] == b[..],
            (Buffer::I64(a), Buffer::I64(b)) => a[..] == b[..],
            (Buffer::I8(a), Buffer::I8(b)) => a[..] == b[..],
            (Buffer::U8(a), Buffer::U8(b)) => a[..] == b[..],
            (Buffer::Bool(a), Buffer::Bool(b)) => a[..] == b[..],
            _ => false,
        }
    }

    /// Returns the dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        match self {
            Buffer::F32(_) => DType::F32,
            Buffer::F64(_) => DType::F64,
            Buffer::I32(_) => DType::I32,
            Buffer::I64(_) => DType::I64,
            Buffer::BF16(_) => DType::BF16,
            Buffer::F16(_) => DType::F16,
            Buffer::I8(_) => DType::I8,
            Buffer::U8(_) => DType::U8,
            Buffer::Bool(_) => DType::Bool,
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        on_elements!(self, xs => xs.len())
    }

    /// Returns the capacity in bytes, which may exceed the size of the elements, and is 0 if another owner holds them.
    pub fn bytes(&self) -> usize {
        on_elements!(self, xs => xs.capacity())
    }

    /// Drops the elements.
    pub fn clear(&mut self) {
        on_elements!(self, xs => *xs = Vec::new().into());
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns an empty vector with capacity for `n` elements, or an error if memory is short.
pub fn reserve<T: Element>(n: usize) -> Result<Vec<T>, KernelFault> {
    let bytes = n.saturating_mul(size_of::<T>());
    let mut data = Vec::new();
    afford(bytes)?;
    match data.try_reserve_exact(n) {
        Ok(()) => Ok(data),
        Err(_) => Err(KernelFault::OutOfMemory { bytes }),
    }
}

/// Returns `n` zeros, or an error if memory is short.
pub(crate) fn fresh<T: Element>(n: usize) -> Result<AlignedVec<T>, KernelFault> {
    let bytes = n.saturating_mul(size_of::<T>());
    afford(bytes)?;
    AlignedVec::zeroed(n).ok_or(KernelFault::OutOfMemory { bytes })
}

/// Returns an error if `bytes` exceeds the memory of the machine.
pub fn afford(bytes: usize) -> Result<(), KernelFault> {
    match bytes > LARGE && bytes > memory() {
        true => Err(KernelFault::OutOfMemory { bytes }),
        false => Ok(()),
    }
}

/// Size in bytes from which allocations are compared with the memory of the machine.
const LARGE: usize = 1 << 30;

/// Returns the size of memory and swap in bytes, or `usize::MAX` if it is unknown.
///
/// An operating system may grant more memory than it has, and kill a process that then uses it.
fn memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *get_or_init(&BYTES, || {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = |name: &str| {
            let line = info.lines().find_map(|l| l.strip_prefix(name))?;
            let kib: usize = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
            kib.checked_mul(1024)
        };
        total("MemTotal:").map_or(usize::MAX, |n| n + total("SwapTotal:").unwrap_or(0))
    })
}
