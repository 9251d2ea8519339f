//! Loops that only move or convert elements: `select` and `cast`.

use crate::memory::Element;
use crate::memory::half_floats::{Half, Widen};
use crate::simd::leveled::leveled;
use crate::task::Prepared;
use crate::threads;
use gradloom_ir::DType;
use half::{bf16, f16};

leveled! {
    /// Selects between elements of any type by their bits alone.
    pub(crate) fn select<A, T: Bits>(cs: &[bool], xs: &[T], ys: &[T], zs: &mut [T]) {
        for (((z, &c), &x), &y) in zs.iter_mut().zip(cs).zip(xs).zip(ys) {
            *z = T::select(c, x, y);
        }
    }
}

/// Bits of an element.
pub(crate) trait Bits: Copy {
    /// Returns `x` if `c` is true, and `y` otherwise.
    ///
    /// A branch on `c` would choose between addresses, which are not loaded as vectors.
    fn select(c: bool, x: Self, y: Self) -> Self;
}

macro_rules! bits {
    ($($t:ident)*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn select(c: bool, x: $t, y: $t) -> $t {
                let mask = $t::from(c).wrapping_neg();
                x & mask | y & !mask
            }
        }
    )*};
}

bits!(u8 u16 u32 u64);

leveled! {
    /// Converts each element to another dtype.
    pub(crate) fn cast<A, T: Copy>(xs: &[T], ys: &mut [impl ConvertFrom<T>]) {
        for (y, &x) in ys.iter_mut().zip(xs) {
            *y = ConvertFrom::of(x);
        }
    }
}

/// Returns the kernel that converts elements of 8 or 16 bits to `f32`.
pub fn widen(dtype: DType) -> Prepared {
    fn typed<T: Element>() -> Prepared
    where
        f32: ConvertFrom<T>,
    {
        Box::new(|args, outs| {
            let (x, y) = (T::slice(args[0]), f32::slice_mut(&mut outs[0]));
            let nanos = x.len() / 4;
            threads::for_each_chunk(y, CHUNK, nanos, |i, y| cast(&x[i * CHUNK..][..y.len()], y));
            Ok(())
        })
    }
    match dtype {
        DType::BF16 => typed::<bf16>(),
        DType::F16 => typed::<f16>(),
        DType::I8 => typed::<i8>(),
        DType::U8 => typed::<u8>(),
        dtype => unreachable!("{dtype} is not widened"),
    }
}

/// Elements that a thread converts at a time.
const CHUNK: usize = 1 << 14;

/// Conversion of an element to another dtype.
///
/// Floats become integers by truncation, which saturates; NaN becomes 0. Floats are rounded to the
/// nearest, and ties to even. A bool is true if the element is not 0.
pub(crate) trait ConvertFrom<T> {
    /// Converts the element.
    fn of(x: T) -> Self;
}

/// Bool as a byte, 0 or 1, for memory that may hold bytes that are not bools.
#[derive(Clone, Copy)]
#[repr(transparent)]
#[allow(dead_code)] // read as a bool
pub(crate) struct Byte(u8);

macro_rules! of {
    ($($from:ident: |$x:ident| $number:expr, $is:expr, $half:expr;)*) => {$(
        of!(@ $from |$x| $number => f32 f64 i32 i64 i8 u8);

        impl ConvertFrom<$from> for bf16 {
            #[inline(always)]
            fn of($x: $from) -> bf16 {
                Half::round($half)
            }
        }
        impl ConvertFrom<$from> for f16 {
            #[inline(always)]
            fn of($x: $from) -> f16 {
                Half::round($half)
            }
        }
        impl ConvertFrom<$from> for Byte {
            #[inline(always)]
            fn of($x: $from) -> Byte {
                Byte(u8::from($is))
            }
        }
    )*};
    (@ $from:ident |$x:ident| $number:expr => $($to:ident)*) => {$(
        impl ConvertFrom<$from> for $to {
            #[inline(always)]
            fn of($x: $from) -> $to {
                $number as $to
            }
        }
    )*};
}

of! {
    f32: |x| x, x != 0.0, x;
    f64: |x| x, x != 0.0, x;
    bf16: |x| x.widen(), x.widen() != 0.0, x.widen();
    f16: |x| x.widen(), x.widen() != 0.0, x.widen();
    i32: |x| x, x != 0, f64::from(x);
    i64: |x| x, x != 0, x as f64;
    i8: |x| x, x != 0, f32::from(x);
    u8: |x| x, x != 0, f32::from(x);
    bool: |x| u8::from(x), x, f32::from(u8::from(x));
}
