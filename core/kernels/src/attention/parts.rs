//! A slice that threads write in disjoint parts.

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
