//! The elements that a kernel reads and writes, whatever their type.

use crate::DType;

/// What a kernel reads.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    Bool(&'a [bool]),
    /// The elements that this result holds before it is written. Only groups get it, for operands that they read in order.
    Same(usize),
}

/// What a kernel writes: all of it.
#[derive(Debug)]
pub enum DataMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
    /// The bytes of bools. Before they are written they may be any, because other values have been there.
    Bool(&'a mut [u8]),
}

impl Data<'_> {
    /// No elements.
    pub(crate) const EMPTY: Data<'static> = Data::Bool(&[]);
}

/// Calls a generic function with the Rust type of a dtype.
macro_rules! on_element {
    ($dtype:expr, $($f:ident)::+($($arg:expr),* $(,)?)) => {
        match $dtype {
            $crate::DType::F32 => $($f)::+::<f32>($($arg),*),
            $crate::DType::F64 => $($f)::+::<f64>($($arg),*),
            $crate::DType::I32 => $($f)::+::<i32>($($arg),*),
            $crate::DType::I64 => $($f)::+::<i64>($($arg),*),
            $crate::DType::Bool => $($f)::+::<bool>($($arg),*),
        }
    };
}

/// The bytes of the largest element.
pub(crate) const WIDEST: usize = 8;

const _: () = assert!(DType::F64.size() == WIDEST && DType::I64.size() == WIDEST);

/// Evaluates an expression with `$xs` bound to the elements, whatever their type.
macro_rules! on_data {
    ($data:expr, $xs:ident => $e:expr) => {
        match $data {
            $crate::kernel::data::Data::F32($xs) => $e,
            $crate::kernel::data::Data::F64($xs) => $e,
            $crate::kernel::data::Data::I32($xs) => $e,
            $crate::kernel::data::Data::I64($xs) => $e,
            $crate::kernel::data::Data::Bool($xs) => $e,
            $crate::kernel::data::Data::Same(_) => unreachable!("only a group computes in place"),
        }
    };
}

/// The same with the bytes of bools in place of bools, for those who write where the bytes may be any.
macro_rules! on_bytes {
    ($data:expr, $xs:ident => $e:expr) => {
        match $data {
            $crate::kernel::data::Data::F32($xs) => $e,
            $crate::kernel::data::Data::F64($xs) => $e,
            $crate::kernel::data::Data::I32($xs) => $e,
            $crate::kernel::data::Data::I64($xs) => $e,
            $crate::kernel::data::Data::Bool($xs) => {
                let $xs = $crate::kernel::data::bytes_of($xs);
                $e
            }
            $crate::kernel::data::Data::Same(_) => unreachable!("only a group computes in place"),
        }
    };
}
pub(crate) use {on_bytes, on_element};

impl<'a> Data<'a> {
    /// `len` elements from `start` on.
    pub(crate) fn part(self, start: usize, len: usize) -> Data<'a> {
        match self {
            Data::F32(xs) => Data::F32(&xs[start..][..len]),
            Data::F64(xs) => Data::F64(&xs[start..][..len]),
            Data::I32(xs) => Data::I32(&xs[start..][..len]),
            Data::I64(xs) => Data::I64(&xs[start..][..len]),
            Data::Bool(xs) => Data::Bool(&xs[start..][..len]),
            Data::Same(_) => unreachable!("only a group computes in place"),
        }
    }

    /// Elements that lie somewhere.
    ///
    /// # Safety
    ///
    /// There are `len` aligned elements of the dtype, and nobody writes them as long as this is used.
    #[inline(always)]
    pub(super) unsafe fn at(dtype: DType, start: *const u8, len: usize) -> Data<'a> {
        // SAFETY: the caller's.
        unsafe {
            match dtype {
                DType::F32 => Data::F32(std::slice::from_raw_parts(start.cast(), len)),
                DType::F64 => Data::F64(std::slice::from_raw_parts(start.cast(), len)),
                DType::I32 => Data::I32(std::slice::from_raw_parts(start.cast(), len)),
                DType::I64 => Data::I64(std::slice::from_raw_parts(start.cast(), len)),
                DType::Bool => Data::Bool(std::slice::from_raw_parts(start.cast(), len)),
            }
        }
    }
}

impl Data<'_> {
    pub(crate) fn dtype(self) -> Option<DType> {
        match self {
            Data::F32(_) => Some(DType::F32),
            Data::F64(_) => Some(DType::F64),
            Data::I32(_) => Some(DType::I32),
            Data::I64(_) => Some(DType::I64),
            Data::Bool(_) => Some(DType::Bool),
            Data::Same(_) => None,
        }
    }

    /// The number of elements.
    pub(crate) fn len(self) -> usize {
        on_data!(self, xs => xs.len())
    }

    pub(crate) fn as_ptr(self) -> *const u8 {
        on_data!(self, xs => xs.as_ptr().cast())
    }
}

impl<'a> DataMut<'a> {
    /// Elements that lie somewhere.
    ///
    /// # Safety
    ///
    /// There are `len` aligned elements of the dtype, and nobody else uses them as long as this is used.
    #[inline(always)]
    pub(super) unsafe fn at(dtype: DType, start: *mut u8, len: usize) -> DataMut<'a> {
        // SAFETY: the caller's.
        unsafe {
            match dtype {
                DType::F32 => DataMut::F32(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::F64 => DataMut::F64(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::I32 => DataMut::I32(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::I64 => DataMut::I64(std::slice::from_raw_parts_mut(start.cast(), len)),
                DType::Bool => DataMut::Bool(std::slice::from_raw_parts_mut(start, len)),
            }
        }
    }
}

impl DataMut<'_> {
    pub(crate) fn dtype(&self) -> DType {
        match self {
            DataMut::F32(_) => DType::F32,
            DataMut::F64(_) => DType::F64,
            DataMut::I32(_) => DType::I32,
            DataMut::I64(_) => DType::I64,
            DataMut::Bool(_) => DType::Bool,
        }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        match self {
            DataMut::F32(xs) => xs.len(),
            DataMut::F64(xs) => xs.len(),
            DataMut::I32(xs) => xs.len(),
            DataMut::I64(xs) => xs.len(),
            DataMut::Bool(xs) => xs.len(),
        }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            DataMut::F32(xs) => xs.as_mut_ptr().cast(),
            DataMut::F64(xs) => xs.as_mut_ptr().cast(),
            DataMut::I32(xs) => xs.as_mut_ptr().cast(),
            DataMut::I64(xs) => xs.as_mut_ptr().cast(),
            DataMut::Bool(xs) => xs.as_mut_ptr(),
        }
    }
}

/// The bytes of bools.
pub(crate) fn bytes_of(bools: &[bool]) -> &[u8] {
    // SAFETY: a bool is an initialised byte.
    unsafe { std::slice::from_raw_parts(bools.as_ptr().cast(), bools.len()) }
}

/// Bytes as bools: those that are not 0 become true.
pub(crate) fn bools_of(bytes: &mut [u8]) -> &mut [bool] {
    bytes
        .iter_mut()
        .for_each(|byte| *byte = u8::from(*byte != 0));
    // SAFETY: all bytes are 0 or 1, and who has the bools writes no others.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::bools_of;

    #[test]
    fn any_bytes_become_bools() {
        let mut bytes = [0, 1, 2, 255];
        assert_eq!(bools_of(&mut bytes), [false, true, true, true]);
        assert_eq!(bytes, [0, 1, 1, 1]);
    }
}
