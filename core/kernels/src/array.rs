//! Arrays, element by element.
//!
//! Unlike those of the standard library, these functions do not drop elements after a panic, so that less code is
//! compiled for each closure.

use std::mem::MaybeUninit;

/// Returns `f` of each index. If `f` panics, the elements made so far are not dropped.
#[inline(always)]
pub(crate) fn from_fn<T, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut out = MaybeUninit::<[T; N]>::uninit();
    let start = out.as_mut_ptr().cast::<T>();
    let mut i = 0;
    while i < N {
        let x = f(i);
        // SAFETY: the array has more than `i` elements.
        unsafe { start.add(i).write(x) };
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
