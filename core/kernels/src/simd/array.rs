//! Arrays, element by element.
//!
//! The functions of the standard library also drop elements after a panic. A kernel has a copy of them for each dtype and
//! level: they were a fifth of the code that rustc had to optimise.

use std::mem::MaybeUninit;

/// Returns `f` of each index. A panic of `f` does not drop the elements.
#[inline(always)]
pub(crate) fn from_fn<T, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut out = MaybeUninit::<[T; N]>::uninit();
    let start = out.as_mut_ptr().cast::<T>();
    let mut i = 0;
    while i < N {
        // SAFETY: the array has more than `i` elements.
        unsafe { start.add(i).write(f(i)) };
        i += 1;
    }
    // SAFETY: all elements are written.
    unsafe { out.assume_init() }
}

/// Returns `f` of each element.
#[inline(always)]
pub(crate) fn map<T: Copy, U, const N: usize>(xs: [T; N], mut f: impl FnMut(T) -> U) -> [U; N] {
    from_fn(|i| f(xs[i]))
}
