//! A slice that threads write in disjoint parts, and thread-local scratch.

use crate::memory::aligned_vec::AlignedVec;
use crate::memory::scratch::{Scratch, lines_for, with_lines};
use std::marker::PhantomData;

/// A slice whose parts are written by different threads.
pub(crate) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    of: PhantomData<&'a mut [T]>,
}

// SAFETY: the elements may move between threads (`T: Send`), and the callers of `part` guarantee
// that no two threads use the same ones.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(crate) fn new(all: &'a mut [T]) -> Parts<'a, T> {
        Parts {
            start: all.as_mut_ptr(),
            len: all.len(),
            of: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns `len` elements from `start` on.
    ///
    /// # Safety
    ///
    /// Nothing else may use any of these elements while the part is in use.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that the parts are distinct"
    )]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(
            start <= self.len && len <= self.len - start,
            "a part must lie inside the slice"
        );
        // SAFETY: the elements lie inside the slice, as asserted, and it is borrowed mutably for
        // `'a`. The caller guarantees exclusive use.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// Element type for which any bits are a valid value.
///
/// # Safety
///
/// The size must be a power of 2, at most 64, and every bit pattern must be valid.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: the size is 4, and every bit pattern is a number or a NaN.
unsafe impl Plain for f32 {}
// SAFETY: the size is 8, and every bit pattern is a number or a NaN.
unsafe impl Plain for f64 {}

/// Calls `f` with thread-local scratch slices of the given lengths, each aligned to a cache line.
///
/// They hold the elements of the last use.
pub(crate) fn with_scratch<T: Plain, R, const N: usize>(
    lens: [usize; N],
    f: impl FnOnce([&mut [T]; N]) -> R,
) -> R {
    thread_local! {
        static SCRATCH: Scratch = const { Scratch::new(AlignedVec::new()) };
    }
    let n_lines = lens.map(lines_for::<T>);
    with_lines(&SCRATCH, n_lines.iter().sum(), |mut rest| {
        let mut at = 0;
        let slices = [(); N].map(|()| {
            let (lines, others) = std::mem::take(&mut rest).split_at_mut(n_lines[at]);
            rest = others;
            let start = lines.as_mut_ptr().cast::<T>();
            let len = lens[at];
            at += 1;
            // SAFETY: the lines are initialised, aligned for `T` and large enough for `len`
            // elements, for which any bits are valid (`Plain`). The slices are disjoint and live
            // until `f` returns.
            unsafe { std::slice::from_raw_parts_mut(start, len) }
        });
        f(slices)
    })
}
