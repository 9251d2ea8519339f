//! Loops that compute nothing: between dtypes, and between two operands.

use super::leveled::leveled;

leveled! {
    /// Elements of one size are chosen in one way, whatever they are.
    pub(super) fn select<A, T: Copy>(cs: &[bool], xs: &[T], ys: &[T], zs: &mut [T]) {
        for (((z, &c), &x), &y) in zs.iter_mut().zip(cs).zip(xs).zip(ys) {
            *z = if c { x } else { y };
        }
    }
}

leveled! {
    /// Elements as those of another dtype.
    pub(super) fn cast<A, T: Copy>(xs: &[T], ys: &mut [impl Of<T>]) {
        for (y, &x) in ys.iter_mut().zip(xs) {
            *y = Of::of(x);
        }
    }
}

/// An element as one of another dtype. Floats become integers by truncation that saturates, NaN becomes 0; a bool is whether
/// the element is not 0.
pub(super) trait Of<T> {
    /// The element.
    fn of(x: T) -> Self;
}

/// A bool, where bytes that are none may have been: 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
#[allow(dead_code)] // it is read as a bool
pub(super) struct Byte(u8);

macro_rules! of {
    ($($from:ident: |$x:ident| $number:expr, $is:expr;)*) => {$(
        of!(@ $from |$x| $number => f32 f64 i32 i64);

        impl Of<$from> for Byte {
            #[inline(always)]
            fn of($x: $from) -> Byte {
                Byte(u8::from($is))
            }
        }
    )*};
    (@ $from:ident |$x:ident| $number:expr => $($to:ident)*) => {$(
        impl Of<$from> for $to {
            #[inline(always)]
            fn of($x: $from) -> $to {
                $number as $to
            }
        }
    )*};
}

of! {
    f32: |x| x, x != 0.0;
    f64: |x| x, x != 0.0;
    i32: |x| x, x != 0;
    i64: |x| x, x != 0;
    bool: |x| u8::from(x), x;
}
