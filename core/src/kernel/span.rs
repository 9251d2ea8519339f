//! Elements in memory of their own.

use super::ALIGN;
use super::pages::{Mapping, give_back, part, populate};
use std::alloc::{Layout, alloc_zeroed};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// A type of which zero bytes are a value.
///
/// # Safety
///
/// They are, and nothing is done where a value is dropped.
#[doc(hidden)]
pub unsafe trait Zero: Copy {}

// SAFETY: zero bytes are a number, or false.
unsafe impl Zero for f32 {}
// SAFETY: the same.
unsafe impl Zero for f64 {}
// SAFETY: the same.
unsafe impl Zero for i32 {}
// SAFETY: the same.
unsafe impl Zero for i64 {}
// SAFETY: the same.
unsafe impl Zero for bool {}

/// As much as a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
#[allow(dead_code)] // it is reached through pointers
pub(crate) struct Line([u8; ALIGN]);

/// At least so many lines. A thread keeps them for the next time; if they are too few, what they held is lost.
pub(super) fn at_least(kept: Span<Line>, n: usize) -> Option<Span<Line>> {
    if kept.len() >= n {
        return Some(kept);
    }
    drop(kept);
    Span::zeroed(n)
}

// SAFETY: zero bytes are bytes.
unsafe impl Zero for Line {}

/// Elements one after the other, all of them initialised, and room for more.
pub(crate) struct Span<T> {
    start: NonNull<T>,
    len: usize,
    /// So many elements from the start on are initialised, at least `len`.
    room: usize,
    memory: Memory<T>,
}

/// What keeps the elements.
enum Memory<T> {
    /// The memory of a vector: where it begins, and its capacity.
    Heap { start: NonNull<T>, capacity: usize },
    /// A part of it.
    Mapped { of: Arc<Mapping> },
}

// SAFETY: a span owns its elements as a vector does.
unsafe impl<T: Send> Send for Span<T> {}
// SAFETY: the same.
unsafe impl<T: Sync> Sync for Span<T> {}

/// More bytes lie at a multiple of a cache line, [`ALIGN`]: a vector that lies in two is read and written at half the rate.
const ALIGNED: usize = 1 << 10;

impl<T: Zero> Span<T> {
    /// So many elements, all of them zero, if there is memory. They are not written where the system gives zeros.
    pub(crate) fn zeroed(n: usize) -> Option<Span<T>> {
        let bytes = n.checked_mul(size_of::<T>())?;
        if let Some(part) = part(bytes) {
            return Some(Span {
                start: part.start.cast(),
                len: n,
                room: n,
                memory: Memory::Mapped { of: part.mapping },
            });
        }
        if bytes == 0 {
            return Some(Span::new());
        }
        let more = match bytes >= ALIGNED && align_of::<T>() < ALIGN {
            true => n.checked_add(ALIGN / size_of::<T>() - 1)?,
            false => n,
        };
        let layout = Layout::array::<T>(more).ok()?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<T>();
        // SAFETY: the memory is of the global allocator and of the layout of `more` elements.
        let mut vector: Vec<T> = unsafe { Vec::from_raw_parts(start.as_ptr(), 0, more) };
        populate(vector.spare_capacity_mut());
        std::mem::forget(vector);
        let skipped = start.align_offset(ALIGN).min(more - n);
        Some(Span {
            // SAFETY: there are `more` elements.
            start: unsafe { start.add(skipped) },
            len: n,
            room: n,
            memory: Memory::Heap {
                start,
                capacity: more,
            },
        })
    }
}

impl<T> Span<T> {
    /// No elements.
    pub(crate) const fn new() -> Span<T> {
        Span {
            start: NonNull::dangling(),
            len: 0,
            room: 0,
            memory: Memory::Heap {
                start: NonNull::dangling(),
                capacity: 0,
            },
        }
    }

    /// The first elements, as many as there is [room](Self::room) for.
    pub(crate) fn set_len(&mut self, n: usize) {
        assert!(n <= self.room, "what is initialised");
        self.len = n;
    }

    /// Leaves out the elements before a multiple of a cache line.
    pub(crate) fn align(&mut self) {
        let skipped = self.start.align_offset(ALIGN).min(self.room);
        // SAFETY: there are as many elements.
        self.start = unsafe { self.start.add(skipped) };
        self.room -= skipped;
        self.len = self.len.min(self.room);
    }

    /// How many elements it may have.
    pub(crate) fn room(&self) -> usize {
        self.room
    }
}

impl<T> Drop for Span<T> {
    fn drop(&mut self) {
        match &self.memory {
            Memory::Heap { start, capacity } => {
                // SAFETY: the memory of a vector that was forgotten; nothing is done where an element is dropped.
                drop(unsafe { Vec::from_raw_parts(start.as_ptr(), 0, *capacity) })
            }
            // The mapping goes with the last of its parts, which may be a small one that stays for long.
            Memory::Mapped { of } if Arc::strong_count(of) > 1 => {
                // SAFETY: the memory is the span's, and nobody has it after that.
                unsafe { give_back(self.start.as_ptr(), self.room) }
            }
            Memory::Mapped { .. } => {}
        }
    }
}

impl<T: Copy> From<Vec<T>> for Span<T> {
    fn from(vector: Vec<T>) -> Span<T> {
        let mut vector = std::mem::ManuallyDrop::new(vector);
        // The memory is freed by this pointer, so it comes from the vector, and not from a slice of its elements: it is one to all
        // of the capacity.
        let start = NonNull::new(vector.as_mut_ptr()).expect("the pointer of a vector is not null");
        Span {
            start,
            len: vector.len(),
            room: vector.len(),
            memory: Memory::Heap {
                start,
                capacity: vector.capacity(),
            },
        }
    }
}

impl<T: Copy> Default for Span<T> {
    fn default() -> Span<T> {
        Span::new()
    }
}

impl<T> Deref for Span<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements are initialised, and they are the span's.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Span<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Span<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, Span};

    #[test]
    fn fresh_elements_are_zero_and_there_are_as_many_as_asked_for() {
        for n in [0, 1, 100, 1 << 16, 1 << 18, (3 << 20) + 5] {
            let mut data = Span::<f32>::zeroed(n).unwrap();
            assert_eq!(data.len(), n);
            assert!(data.iter().all(|x| x.to_bits() == 0));
            assert!(n < 1 << 10 || data.as_ptr().align_offset(ALIGN) == 0);
            data.fill(1.0);
            data.set_len(n / 2);
            assert_eq!((data.len(), data.room()), (n / 2, n));
        }
        assert!(Span::<f64>::zeroed(usize::MAX / 8).is_none());
        assert!(Span::<bool>::zeroed(usize::MAX).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_goes_back_although_another_part_of_its_mapping_stays() {
        use super::Memory;
        const PAGE: usize = 4 << 10;
        let bytes = (8 << 20) + (600 << 10);
        let mut span = Span::<f32>::zeroed(bytes / 4).unwrap();
        span.fill(1.0);
        let Memory::Mapped { of } = &span.memory else {
            return;
        };
        let (other_part, start) = (of.clone(), span.as_ptr() as usize);
        drop(span);
        let (first, last) = (start.next_multiple_of(PAGE), (start + bytes) / PAGE * PAGE);
        let mut resident = vec![1u8; (last - first) / PAGE];
        // SAFETY: the pages are mapped as long as a part of the mapping stays, and there is a byte for each.
        let known = unsafe { libc::mincore(first as *mut _, last - first, resident.as_mut_ptr()) };
        drop(other_part);
        assert!(known != 0 || resident.iter().all(|page| page & 1 == 0));
    }

    #[test]
    fn a_vector_stays_where_it_is() {
        let vector = vec![1.0, 2.0];
        let start = vector.as_ptr();
        let span = Span::from(vector);
        assert_eq!((span.as_ptr(), &*span), (start, &[1.0, 2.0][..]));
    }
}
