//! Memory that several threads write, each its own part, and memory that a thread keeps for what it has in the making.

use super::super::room::{Room, lines_for, with_lines};
use super::super::span::Span;
use std::marker::PhantomData;

/// A slice of which threads write different parts.
pub(super) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    of: PhantomData<&'a mut [T]>,
}

// SAFETY: the elements may go to another thread, and `part` says that no two threads have the same.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(super) fn new(all: &'a mut [T]) -> Parts<'a, T> {
        Parts {
            start: all.as_mut_ptr(),
            len: all.len(),
            of: PhantomData,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// `len` elements from `start` on.
    ///
    /// # Safety
    ///
    /// Nobody has any of them while the part is in use.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller vouches that the parts are distinct"
    )]
    pub(super) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(
            start <= self.len && len <= self.len - start,
            "a part lies in the whole"
        );
        // SAFETY: the elements lie in the slice, which is borrowed mutably, and are the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// A type of elements of which any bits are one.
///
/// # Safety
///
/// Its size is a power of two of at most 64, and there are no bits that are none.
pub(in crate::kernel) unsafe trait Plain: Copy {}

// SAFETY: all bits are a number or a NaN.
unsafe impl Plain for f32 {}
// SAFETY: the same.
unsafe impl Plain for f64 {}

/// Calls `f` with slices of the given lengths, each from the start of a cache line on. A thread keeps the memory for the next
/// time; the elements are those of the last time.
pub(super) fn with_room<T: Plain, R, const N: usize>(
    lens: [usize; N],
    f: impl FnOnce([&mut [T]; N]) -> R,
) -> R {
    thread_local! {
        static ROOM: Room = const { Room::new(Span::new()) };
    }
    let n_lines = lens.map(lines_for::<T>);
    with_lines(&ROOM, n_lines.iter().sum(), |mut rest| {
        let mut at = 0;
        let slices = [(); N].map(|()| {
            let (lines, others) = std::mem::take(&mut rest).split_at_mut(n_lines[at]);
            rest = others;
            let start = lines.as_mut_ptr().cast::<T>();
            let len = lens[at];
            at += 1;
            // SAFETY: the lines are initialised, aligned for `T` and hold `len` elements, whose bits may be any; nobody
            // else has them, and they live until `f` is done.
            unsafe { std::slice::from_raw_parts_mut(start, len) }
        });
        f(slices)
    })
}
