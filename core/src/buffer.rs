//! Storage of elements.

use crate::DType;
use crate::dtype::Element;
use crate::fork::get_or_init;
use crate::kernel::{KernelFault, Span, on_element};
use crate::shelf::Block;
use gradloom_ir::Static;
use std::sync::OnceLock;

/// The elements of a realised tensor, in row-major order.
#[derive(Clone, Debug)]
pub enum Buffer {
    F32(Block<f32>),
    F64(Block<f64>),
    I32(Block<i32>),
    I64(Block<i64>),
    Bool(Block<bool>),
}

/// Evaluates an expression with `$xs` bound to the elements of a buffer, whatever their type.
macro_rules! on_elements {
    ($buffer:expr, $xs:ident => $e:expr) => {
        match $buffer {
            $crate::buffer::Buffer::F32($xs) => $e,
            $crate::buffer::Buffer::F64($xs) => $e,
            $crate::buffer::Buffer::I32($xs) => $e,
            $crate::buffer::Buffer::I64($xs) => $e,
            $crate::buffer::Buffer::Bool($xs) => $e,
        }
    };
}

impl Buffer {
    /// `n` elements, of which nobody may look at one before it is written.
    pub(crate) fn scratch(dtype: DType, n: usize) -> Result<Buffer, KernelFault> {
        fn of<T: Element>(n: usize) -> Result<Buffer, KernelFault> {
            Ok(T::into_buffer(Block::scratch(n)?))
        }
        on_element!(dtype, of(n))
    }

    /// One number.
    pub(crate) fn of_static(value: &Static, dtype: DType) -> Buffer {
        fn of<T: Element>(value: &Static) -> Buffer {
            T::into_buffer(vec![T::from_static(value)].into())
        }
        on_element!(dtype, of(value))
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        on_elements!(self, xs => xs.as_ptr().cast())
    }

    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        on_elements!(self, xs => xs.as_mut_ptr().cast())
    }
    /// Whether another buffer has the same elements, bit for bit.
    pub(crate) fn is_same(&self, other: &Buffer) -> bool {
        let bits = |x: &f32, y: &f32| x.to_bits() == y.to_bits();
        let wide = |x: &f64, y: &f64| x.to_bits() == y.to_bits();
        match (self, other) {
            (Buffer::F32(a), Buffer::F32(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| bits(x, y))
            }
            (Buffer::F64(a), Buffer::F64(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| wide(x, y))
            }
            (Buffer::I32(a), Buffer::I32(b)) => a[..] == b[..],
            (Buffer::I64(a), Buffer::I64(b)) => a[..] == b[..],
            (Buffer::Bool(a), Buffer::Bool(b)) => a[..] == b[..],
            _ => false,
        }
    }

    /// The type of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        match self {
            Buffer::F32(_) => DType::F32,
            Buffer::F64(_) => DType::F64,
            Buffer::I32(_) => DType::I32,
            Buffer::I64(_) => DType::I64,
            Buffer::Bool(_) => DType::Bool,
        }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        on_elements!(self, xs => xs.len())
    }

    /// The bytes of the memory that the elements lie in.
    pub(crate) fn bytes(&self) -> usize {
        on_elements!(self, xs => xs.room())
    }

    /// Lets go of the elements.
    pub(crate) fn clear(&mut self) {
        on_elements!(self, xs => *xs = Vec::new().into());
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An empty vector with room for `n` elements. Every buffer of a kernel comes from here.
pub(crate) fn reserve<T: Element>(n: usize) -> Result<Vec<T>, KernelFault> {
    let bytes = n.saturating_mul(size_of::<T>());
    let mut data = Vec::new();
    afford(bytes)?;
    match data.try_reserve_exact(n) {
        Ok(()) => Ok(data),
        Err(_) => Err(KernelFault::OutOfMemory { bytes }),
    }
}

/// `n` elements that are zero.
pub(crate) fn fresh<T: Element>(n: usize) -> Result<Span<T>, KernelFault> {
    let bytes = n.saturating_mul(size_of::<T>());
    afford(bytes)?;
    Span::zeroed(n).ok_or(KernelFault::OutOfMemory { bytes })
}

/// Refuses what is more than the machine has.
pub(crate) fn afford(bytes: usize) -> Result<(), KernelFault> {
    match bytes > LARGE && bytes > memory() {
        true => Err(KernelFault::OutOfMemory { bytes }),
        false => Ok(()),
    }
}

/// From this size on it is asked whether the machine has so much memory.
const LARGE: usize = 1 << 30;

/// The bytes of memory and swap space that the machine has, where that can be told.
///
/// A system may grant more than it has, and end the process that uses what it was granted.
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
