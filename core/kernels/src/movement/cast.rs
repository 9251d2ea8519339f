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
    ($($from:ident: |$x:ident| $number:expr, $is:expr, $half:expr => $($to:ident)*;)*) => {$(
        of!(@ $from |$x| $number => $($to)*);

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
    f32: |x| x, x != 0.0, x => f32 f64;
    f64: |x| x, x != 0.0, x => f32 f64;
    bf16: |x| x.widen(), x.widen() != 0.0, x.widen() => f32 f64;
    f16: |x| x.widen(), x.widen() != 0.0, x.widen() => f32 f64;
    i32: |x| x, x != 0, f64::from(x) => f32 f64 i32 i64 i8 u8;
    i64: |x| x, x != 0, x as f64 => f32 f64 i32 i64 i8 u8;
    i8: |x| x, x != 0, f32::from(x) => f32 f64 i32 i64 i8 u8;
    u8: |x| x, x != 0, f32::from(x) => f32 f64 i32 i64 i8 u8;
    bool: |x| u8::from(x), x, f32::from(u8::from(x)) => f32 f64 i32 i64 i8 u8;
}

/// Truncates a float, by way of an integer type that vectors of floats are converted to.
macro_rules! truncated {
    ($($from:ident => $($to:ident by $int:ident),*;)*) => {$($(
        impl ConvertFrom<$from> for $to {
            #[inline(always)]
            fn of(x: $from) -> $to {
                // The greatest float that is in the range.
                const MOST: $from = if $to::BITS > $from::MANTISSA_DIGITS {
                    ($to::MAX as $from).next_down()
                } else {
                    $to::MAX as $from
                };
                const LEAST: $from = $to::MIN as $from;
                let number = if x.is_nan() { 0.0 } else { x };
                let number = if number > MOST { MOST } else { number };
                let number = if number < LEAST { LEAST } else { number };
                // SAFETY: the number is not NaN, and it is between two numbers of `$to`, so it is in the range
                // of `$int`.
                let int = unsafe { number.to_int_unchecked::<$int>() } as $to;
                if x > MOST { $to::MAX } else { int }
            }
        }
    )*)*};
}

truncated! {
    f32 => i32 by i32, i64 by i64, i8 by i32, u8 by i32;
    f64 => i32 by i32, i64 by i64, i8 by i32, u8 by i32;
}

macro_rules! truncated_halves {
    ($($from:ident => $($to:ident)*;)*) => {$($(
        impl ConvertFrom<$from> for $to {
            #[inline(always)]
            fn of(x: $from) -> $to {
                ConvertFrom::of(x.widen())
            }
        }
    )*)*};
}

truncated_halves! {
    bf16 => i32 i64 i8 u8;
    f16 => i32 i64 i8 u8;
}

#[cfg(test)]
mod tests {
    use super::{ConvertFrom, cast};

    #[test]
    fn floats_are_truncated_and_saturate() {
        let mut xs = vec![
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
        ];
        for bound in [
            0.0,
            127.0,
            128.0,
            255.0,
            256.0,
            2_147_483_647.0,
            2_147_483_648.0,
            2f64.powi(62),
            2f64.powi(63),
            2f64.powi(64),
        ] {
            for off in [-1.0, -0.5, -0.0, 0.5, 0.99, 1.0] {
                xs.extend([bound + off, -(bound + off)]);
            }
            xs.extend([
                bound.next_up(),
                bound.next_down(),
                -bound.next_up(),
                -bound.next_down(),
            ]);
        }
        fn check<F, T>(xs: &[F], of: impl Fn(F) -> T)
        where
            F: Copy + std::fmt::Debug,
            T: ConvertFrom<F> + Copy + PartialEq + Default + std::fmt::Debug,
        {
            let mut found = vec![T::default(); xs.len()];
            cast(xs, &mut found);
            let want: Vec<T> = xs.iter().map(|x| of(*x)).collect();
            assert_eq!(found, want, "{xs:?}");
        }
        let narrow: Vec<f32> = xs.iter().map(|x| *x as f32).collect();
        let near = narrow.iter().flat_map(|x| [x.next_up(), x.next_down()]);
        let narrow: Vec<f32> = narrow.iter().copied().chain(near).collect();
        macro_rules! check_all {
            ($($to:ident)*) => {$(
                check(&xs, |x| x as $to);
                check(&narrow, |x| x as $to);
            )*};
        }
        check_all!(i32 i64 i8 u8);
    }
}
