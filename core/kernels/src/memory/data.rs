//! Typed slices that kernels read and write.

use crate::memory::element::Element;
use gradloom_ir::DType;
use half::{bf16, f16};

/// Operand of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    BF16(&'a [bf16]),
    F16(&'a [f16]),
    I8(&'a [i8]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
    /// In place: the elements that result `.0` holds before it is written.
    ///
    /// Groups get this for operands that they read in order, and kernels that change a part of their
    /// first operand get it for that one. See [`Base`].
    Same(usize),
}

/// Result of a kernel, which writes all of it.
#[derive(Debug)]
pub enum DataMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
    BF16(&'a mut [bf16]),
    F16(&'a mut [f16]),
    I8(&'a mut [i8]),
    U8(&'a mut [u8]),
    /// Bytes of bools. Before they are written they may have any value, left from other dtypes.
    Bool(&'a mut [u8]),
}

impl Data<'_> {
    /// Empty operand.
    pub const EMPTY: Data<'static> = Data::Bool(&[]);
}

/// Size of the largest element in bytes.
pub const WIDEST: usize = 8;

pub(crate) const IN_PLACE: &str = "the kernel does not compute in place";

const _: () = assert!(DType::F64.size() == WIDEST && DType::I64.size() == WIDEST);

/// Evaluates `$e` with `$xs` bound to the slice, whatever its element type.
macro_rules! on_data {
    ($data:expr, $xs:ident => $e:expr) => {
        match $data {
            $crate::memory::data::Data::F32($xs) => $e,
            $crate::memory::data::Data::F64($xs) => $e,
            $crate::memory::data::Data::I32($xs) => $e,
            $crate::memory::data::Data::I64($xs) => $e,
            $crate::memory::data::Data::BF16($xs) => $e,
            $crate::memory::data::Data::F16($xs) => $e,
            $crate::memory::data::Data::I8($xs) => $e,
            $crate::memory::data::Data::U8($xs) => $e,
            $crate::memory::data::Data::Bool($xs) => $e,
            $crate::memory::data::Data::Same(_) => {
                unreachable!("{}", $crate::memory::data::IN_PLACE)
            }
        }
    };
}

/// As `on_data`, but with bools as bytes, so that they can be copied to uninitialised bools.
macro_rules! on_bytes {
    ($data:expr, $xs:ident => $e:expr) => {
        match $data {
            $crate::memory::data::Data::F32($xs) => $e,
            $crate::memory::data::Data::F64($xs) => $e,
            $crate::memory::data::Data::I32($xs) => $e,
            $crate::memory::data::Data::I64($xs) => $e,
            $crate::memory::data::Data::BF16($xs) => $e,
            $crate::memory::data::Data::F16($xs) => $e,
            $crate::memory::data::Data::I8($xs) => $e,
            $crate::memory::data::Data::U8($xs) => $e,
            $crate::memory::data::Data::Bool($xs) => {
                let $xs = $crate::memory::data::bytes_of($xs);
                $e
            }
            $crate::memory::data::Data::Same(_) => {
                unreachable!("{}", $crate::memory::data::IN_PLACE)
            }
        }
    };
}
pub(crate) use on_bytes;

impl<'a> Data<'a> {
    /// Returns the `len` elements from `start` on.
    pub fn part(self, start: usize, len: usize) -> Data<'a> {
        match self {
            Data::F32(xs) => Data::F32(&xs[start..][..len]),
            Data::F64(xs) => Data::F64(&xs[start..][..len]),
            Data::I32(xs) => Data::I32(&xs[start..][..len]),
            Data::I64(xs) => Data::I64(&xs[start..][..len]),
            Data::BF16(xs) => Data::BF16(&xs[start..][..len]),
            Data::F16(xs) => Data::F16(&xs[start..][..len]),
            Data::I8(xs) => Data::I8(&xs[start..][..len]),
            Data::U8(xs) => Data::U8(&xs[start..][..len]),
            Data::Bool(xs) => Data::Bool(&xs[start..][..len]),
            Data::Same(_) => unreachable!("{IN_PLACE}"),
        }
    }

    /// Returns `len` elements of `dtype` at `start`.
    ///
    /// # Safety
    ///
    /// `start` must be aligned and point to `len` valid elements of `dtype`, which must not be
    /// written during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at(dtype: DType, start: *const u8, len: usize) -> Data<'a> {
        // SAFETY: the caller guarantees aligned, valid elements without writes during `'a`.
        unsafe {
            match dtype {
                DType::F32 => Data::F32(std::slice::from_raw_parts(start.cast(), len)),
                DType::F64 => Data::F64(std::slice::from_raw_parts(start.cast(), len)),
                DType::I32 => Data::I32(std::slice::from_raw_parts(start.cast(), len)),
                DType::I64 => Data::I64(std::slice::from_raw_parts(start.cast(), len)),
                DType::BF16 => Data::BF16(std::slice::from_raw_parts(start.cast(), len)),
                DType::F16 => Data::F16(std::slice::from_raw_parts(start.cast(), len)),
                DType::I8 => Data::I8(std::slice::from_raw_parts(start.cast(), len)),
                DType::U8 => Data::U8(std::slice::from_raw_parts(start.cast(), len)),
                DType::Bool => Data::Bool(std::slice::from_raw_parts(start.cast(), len)),
            }
        }
    }
}

/// Copies bytes. Single numbers are copied without a call.
///
/// # Safety
///
/// Both must have `n` bytes and not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller guarantees `n` bytes that do not overlap.
    unsafe {
        match n {
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
            _ => std::ptr::copy_nonoverlapping(from, to, n),
        }
    }
}

/// Elements that a result holds before a kernel writes a part of it.
#[derive(Clone, Copy)]
pub(crate) enum Base<'a, T> {
    Zeros,
    /// Those of an operand.
    Copy(&'a [T]),
    /// Those that are there.
    Same,
}

impl<'a, T: Element> Base<'a, T> {
    /// Returns the elements of an operand, which may be those of the result.
    pub(crate) fn of(data: Data<'a>) -> Base<'a, T> {
        match data {
            Data::Same(_) => Base::Same,
            data => Base::Copy(T::slice(data)),
        }
    }

    /// Fills `out`, the elements of the result from `from` on.
    pub(crate) fn start(self, from: usize, out: &mut [T]) {
        match self {
            Base::Zeros => out.fill(T::default()),
            Base::Copy(xs) => out.copy_from_slice(&xs[from..][..out.len()]),
            Base::Same => {}
        }
    }
}

impl Data<'_> {
    pub fn dtype(self) -> Option<DType> {
        match self {
            Data::F32(_) => Some(DType::F32),
            Data::F64(_) => Some(DType::F64),
            Data::I32(_) => Some(DType::I32),
            Data::I64(_) => Some(DType::I64),
            Data::BF16(_) => Some(DType::BF16),
            Data::F16(_) => Some(DType::F16),
            Data::I8(_) => Some(DType::I8),
            Data::U8(_) => Some(DType::U8),
            Data::Bool(_) => Some(DType::Bool),
            Data::Same(_) => None,
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(self) -> usize {
        on_data!(self, xs => xs.len())
    }

    pub fn as_ptr(self) -> *const u8 {
        on_data!(self, xs => xs.as_ptr().cast())
    }
}

impl<'a> DataMut<'a> {
    /// Returns `len` elements of `dtype` at `start`.
    ///
    /// # Safety
    ///
    /// `start` must be aligned and point to `len` elements of `dtype` that nothing else uses during
    /// `'a`. Bools may have any bytes.
    #[inline(always)]
    pub(crate) unsafe fn at(dtype: DType, start: *mut u8, len: usize) -> DataMut<'a> {
        // SAFETY: the caller guarantees aligned elements and exclusive use during `'a`.
        unsafe {
            match dtype {
                DType::F32 => DataMut::F32(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::F64 => DataMut::F64(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::I32 => DataMut::I32(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::I64 => DataMut::I64(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::BF16 => DataMut::BF16(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::F16 => DataMut::F16(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::I8 => DataMut::I8(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::U8 => DataMut::U8(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::Bool => DataMut::Bool(std::slice::from_raw_parts_mut(start, len)),
            }
        }
    }
}

impl DataMut<'_> {
    pub fn dtype(&self) -> DType {
        match self {
            DataMut::F32(_) => DType::F32,
            DataMut::F64(_) => DType::F64,
            DataMut::I32(_) => DType::I32,
            DataMut::I64(_) => DType::I64,
            DataMut::BF16(_) => DType::BF16,
            DataMut::F16(_) => DType::F16,
            DataMut::I8(_) => DType::I8,
            DataMut::U8(_) => DType::U8,
            DataMut::Bool(_) => DType::Bool,
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        match self {
            DataMut::F32(xs) => xs.len(),
            DataMut::F64(xs) => xs.len(),
            DataMut::I32(xs) => xs.len(),
            DataMut::I64(xs) => xs.len(),
            DataMut::BF16(xs) => xs.len(),
            DataMut::F16(xs) => xs.len(),
            DataMut::I8(xs) => xs.len(),
            DataMut::U8(xs) => xs.len(),
            DataMut::Bool(xs) => xs.len(),
        }
    }

    /// Returns the elements, all of which a kernel has written.
    pub(crate) fn as_data(&self) -> Data<'_> {
        match self {
            DataMut::F32(xs) => Data::F32(xs),
            DataMut::F64(xs) => Data::F64(xs),
            DataMut::I32(xs) => Data::I32(xs),
            DataMut::I64(xs) => Data::I64(xs),
            DataMut::BF16(xs) => Data::BF16(xs),
            DataMut::F16(xs) => Data::F16(xs),
            DataMut::I8(xs) => Data::I8(xs),
            DataMut::U8(xs) => Data::U8(xs),
            DataMut::Bool(xs) => {
                assert!(xs.iter().all(|byte| *byte <= 1), "the bytes are bools");
                // SAFETY: a bool is a byte that is 0 or 1.
                Data::Bool(unsafe { std::slice::from_raw_parts(xs.as_ptr().cast(), xs.len()) })
            }
        }
    }

    /// Returns the same elements for a shorter time.
    pub(crate) fn reborrow(&mut self) -> DataMut<'_> {
        self.part_mut(0, self.len())
    }

    /// Returns the `len` elements from `start` on.
    pub fn part_mut(&mut self, start: usize, len: usize) -> DataMut<'_> {
        match self {
            DataMut::F32(xs) => DataMut::F32(&mut xs[start..][..len]),
            DataMut::F64(xs) => DataMut::F64(&mut xs[start..][..len]),
            DataMut::I32(xs) => DataMut::I32(&mut xs[start..][..len]),
            DataMut::I64(xs) => DataMut::I64(&mut xs[start..][..len]),
            DataMut::BF16(xs) => DataMut::BF16(&mut xs[start..][..len]),
            DataMut::F16(xs) => DataMut::F16(&mut xs[start..][..len]),
            DataMut::I8(xs) => DataMut::I8(&mut xs[start..][..len]),
            DataMut::U8(xs) => DataMut::U8(&mut xs[start..][..len]),
            DataMut::Bool(xs) => DataMut::Bool(&mut xs[start..][..len]),
        }
    }

    /// Copies elements of the same dtype and number.
    pub(crate) fn copy_from(&mut self, from: Data<'_>) {
        match (self, from) {
            (DataMut::F32(to), Data::F32(from)) => to.copy_from_slice(from),
            (DataMut::F64(to), Data::F64(from)) => to.copy_from_slice(from),
            (DataMut::I32(to), Data::I32(from)) => to.copy_from_slice(from),
            (DataMut::I64(to), Data::I64(from)) => to.copy_from_slice(from),
            (DataMut::BF16(to), Data::BF16(from)) => to.copy_from_slice(from),
            (DataMut::F16(to), Data::F16(from)) => to.copy_from_slice(from),
            (DataMut::I8(to), Data::I8(from)) => to.copy_from_slice(from),
            (DataMut::U8(to), Data::U8(from)) => to.copy_from_slice(from),
            (DataMut::Bool(to), Data::Bool(from)) => to.copy_from_slice(bytes_of(from)),
            (to, from) => unreachable!("{from:?} is not copied to {}", to.dtype()),
        }
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            DataMut::F32(xs) => xs.as_mut_ptr().cast(),
            DataMut::F64(xs) => xs.as_mut_ptr().cast(),
            DataMut::I32(xs) => xs.as_mut_ptr().cast(),
            DataMut::I64(xs) => xs.as_mut_ptr().cast(),
            DataMut::BF16(xs) => xs.as_mut_ptr().cast(),
            DataMut::F16(xs) => xs.as_mut_ptr().cast(),
            DataMut::I8(xs) => xs.as_mut_ptr().cast(),
            DataMut::U8(xs) => xs.as_mut_ptr().cast(),
            DataMut::Bool(xs) => xs.as_mut_ptr(),
        }
    }
}

/// Returns the bytes of bools.
pub fn bytes_of(bools: &[bool]) -> &[u8] {
    // SAFETY: a bool is one initialised byte.
    unsafe { std::slice::from_raw_parts(bools.as_ptr().cast(), bools.len()) }
}

/// Turns bytes into bools in place: nonzero becomes true.
pub fn bools_of(bytes: &mut [u8]) -> &mut [bool] {
    bytes
        .iter_mut()
        .for_each(|byte| *byte = u8::from(*byte != 0));
    // SAFETY: every byte is 0 or 1, and `bool` writes through the result keep it so.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::bools_of;

    #[test]
    fn bools_of_turns_nonzero_bytes_into_true() {
        let mut bytes = [0, 1, 2, 255];
        assert_eq!(bools_of(&mut bytes), [false, true, true, true]);
        assert_eq!(bytes, [0, 1, 1, 1]);
    }
}
