//! Elements in aligned memory of their own, or in memory that another owner keeps alive.

use crate::memory::huge_pages::{Mapping, give_back, part, populate};
use half::{bf16, f16};
use std::alloc::{Layout, alloc_zeroed};
use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment in bytes of every value in the arena: a cache line, which is also the widest vector.
pub const ALIGN: usize = 64;

/// A type for which all-zero bytes are a valid value.
///
/// # Safety
///
/// All-zero bytes must be a valid value, and the type must not need drop.
#[doc(hidden)]
pub unsafe trait Zero: Copy {}

// SAFETY: all-zero bytes are the number 0.0; floats need no drop.
unsafe impl Zero for f32 {}
// SAFETY: all-zero bytes are the number 0.0; floats need no drop.
unsafe impl Zero for f64 {}
// SAFETY: all-zero bytes are the number 0; integers need no drop.
unsafe impl Zero for i32 {}
// SAFETY: all-zero bytes are the number 0; integers need no drop.
unsafe impl Zero for i64 {}
// SAFETY: all-zero bytes are the number 0.0; floats need no drop.
unsafe impl Zero for bf16 {}
// SAFETY: all-zero bytes are the number 0.0; floats need no drop.
unsafe impl Zero for f16 {}
// SAFETY: a zero byte is the number 0; integers need no drop.
unsafe impl Zero for i8 {}
// SAFETY: a zero byte is the number 0; integers need no drop.
unsafe impl Zero for u8 {}
// SAFETY: a zero byte is `false`; bools need no drop.
unsafe impl Zero for bool {}

/// Memory of the size and alignment of a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
#[allow(dead_code)] // accessed through pointers
pub(crate) struct Line([u8; ALIGN]);

/// Returns `kept` if it has at least `n` lines, else a fresh zeroed vector.
///
/// The contents of a vector that is too small are lost. Returns `None` if memory runs out.
pub(crate) fn at_least(kept: AlignedVec<Line>, n: usize) -> Option<AlignedVec<Line>> {
    if kept.len() >= n {
        return Some(kept);
    }
    drop(kept);
    AlignedVec::zeroed(n)
}

// SAFETY: any bytes are a valid array of bytes, which needs no drop.
unsafe impl Zero for Line {}

/// Contiguous initialised elements with spare capacity.
pub(crate) struct AlignedVec<T> {
    start: NonNull<T>,
    len: usize,
    /// Number of elements from `start` on that are initialised and may be written: at least `len`, or 0 if the
    /// memory is foreign.
    capacity: usize,
    memory: MemoryOwner<T>,
}

/// Owner of the memory.
enum MemoryOwner<T> {
    /// Memory of a `Vec`: its pointer and its capacity.
    Heap { start: NonNull<T>, capacity: usize },
    /// Part of a mapping, which is unmapped when its last part is dropped.
    Mapped { of: Arc<Mapping> },
    /// Memory of another owner, which is never written.
    Foreign { _owner: Arc<dyn Any + Send + Sync> },
}

// SAFETY: a vector owns its elements, as `Vec` does, and gives access to them through `&` and `&mut`
// only. The owner of foreign elements is `Send` and `Sync`.
unsafe impl<T: Send> Send for AlignedVec<T> {}
// SAFETY: a vector owns its elements, as `Vec` does, and gives access to them through `&` and `&mut`
// only. The owner of foreign elements is `Send` and `Sync`.
unsafe impl<T: Sync> Sync for AlignedVec<T> {}

// The owner of foreign elements is not used until it is dropped.
impl<T: RefUnwindSafe> UnwindSafe for AlignedVec<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for AlignedVec<T> {}

/// Size in bytes from which memory is aligned to [`ALIGN`].
///
/// A vector load or store that straddles two cache lines runs at half the rate.
const ALIGNED: usize = 1 << 10;

impl<T: Zero> AlignedVec<T> {
    /// Returns `n` zeroed elements, or `None` if memory runs out.
    ///
    /// The zeros come from the system where possible, without touching the pages.
    pub(crate) fn zeroed(n: usize) -> Option<AlignedVec<T>> {
        let bytes = n.checked_mul(size_of::<T>())?;
        if let Some(part) = part(bytes) {
            return Some(AlignedVec {
                start: part.start.cast(),
                len: n,
                capacity: n,
                memory: MemoryOwner::Mapped { of: part.mapping },
            });
        }
        if bytes == 0 {
            return Some(AlignedVec::new());
        }
        let more = match bytes >= ALIGNED && align_of::<T>() < ALIGN {
            true => n.checked_add(ALIGN / size_of::<T>() - 1)?,
            false => n,
        };
        let layout = Layout::array::<T>(more).ok()?;
        // SAFETY: the size of the layout is not 0: `bytes` is not 0 and `more` is at least `n`.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<T>();
        // SAFETY: the global allocator gave this memory for the layout of `more` elements of `T`.
        let mut vector: Vec<T> = unsafe { Vec::from_raw_parts(start.as_ptr(), 0, more) };
        populate(vector.spare_capacity_mut());
        std::mem::forget(vector);
        let skipped = start.align_offset(ALIGN).min(more - n);
        Some(AlignedVec {
            // SAFETY: `skipped` is at most `more - n`, so `n` elements follow.
            start: unsafe { start.add(skipped) },
            len: n,
            capacity: n,
            memory: MemoryOwner::Heap {
                start,
                capacity: more,
            },
        })
    }
}

impl<T> AlignedVec<T> {
    /// Returns an empty vector.
    pub(crate) const fn new() -> AlignedVec<T> {
        AlignedVec {
            start: NonNull::dangling(),
            len: 0,
            capacity: 0,
            memory: MemoryOwner::Heap {
                start: NonNull::dangling(),
                capacity: 0,
            },
        }
    }

    /// Returns the `len` elements from `start` on, which can only be read.
    ///
    /// # Safety
    ///
    /// `start` must be aligned and point to `len` initialised elements, which must not change while `owner` is alive.
    pub(crate) unsafe fn foreign(
        start: NonNull<T>,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> AlignedVec<T> {
        AlignedVec {
            start,
            len,
            capacity: 0,
            memory: MemoryOwner::Foreign { _owner: owner },
        }
    }

    /// Returns whether the vector owns its memory. Elements in foreign memory are never written.
    pub(crate) fn is_owned(&self) -> bool {
        !matches!(self.memory, MemoryOwner::Foreign { .. })
    }

    /// Sets the length to `n`, at most the [capacity](Self::capacity).
    pub(crate) fn set_len(&mut self, n: usize) {
        assert!(
            n <= self.capacity,
            "the length must not exceed the initialised elements"
        );
        self.len = n;
    }

    /// Drops elements from the front until the start is aligned to [`ALIGN`].
    pub(crate) fn align(&mut self) {
        let skipped = self.start.align_offset(ALIGN).min(self.capacity);
        // SAFETY: `skipped` is at most `capacity`, the number of elements.
        self.start = unsafe { self.start.add(skipped) };
        self.capacity -= skipped;
        self.len = self.len.min(self.capacity);
    }

    /// Returns the maximum length.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T> Drop for AlignedVec<T> {
    fn drop(&mut self) {
        match &self.memory {
            MemoryOwner::Heap { start, capacity } => {
                // SAFETY: `start` and `capacity` come from a `Vec<T>` that was forgotten. The
                // length 0 drops no elements, and `T` needs no drop (`Zero`, `Copy`).
                drop(unsafe { Vec::from_raw_parts(start.as_ptr(), 0, *capacity) })
            }
            // The mapping lives as long as its last part, which may be small and long-lived, so the
            // pages of this part are returned at once.
            MemoryOwner::Mapped { of } if Arc::strong_count(of) > 1 => {
                // SAFETY: the vector owns this part of the mapping, and this is its last use.
                unsafe { give_back(self.start.as_ptr(), self.capacity) }
            }
            MemoryOwner::Mapped { .. } | MemoryOwner::Foreign { .. } => {}
        }
    }
}

impl<T: Copy> From<Vec<T>> for AlignedVec<T> {
    fn from(vector: Vec<T>) -> AlignedVec<T> {
        let mut vector = std::mem::ManuallyDrop::new(vector);
        // The pointer is used to free the memory, so it must come from the vector: a pointer to the
        // slice of its elements would not cover the whole capacity.
        let start = NonNull::new(vector.as_mut_ptr()).expect("a vector's pointer is never null");
        AlignedVec {
            start,
            len: vector.len(),
            capacity: vector.len(),
            memory: MemoryOwner::Heap {
                start,
                capacity: vector.capacity(),
            },
        }
    }
}

impl<T: Copy> Default for AlignedVec<T> {
    fn default() -> AlignedVec<T> {
        AlignedVec::new()
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` points to at least `len` initialised elements, which the vector or its owner keeps alive.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for AlignedVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        assert!(self.is_owned(), "foreign elements are never written");
        // SAFETY: `start` points to at least `len` initialised elements, which the vector owns and
        // which `self` borrows mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for AlignedVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, AlignedVec};

    #[test]
    fn a_fresh_vector_has_the_requested_length_and_is_zero() {
        for n in [0, 1, 100, 1 << 16, 1 << 18, (3 << 20) + 5] {
            let mut data = AlignedVec::<f32>::zeroed(n).unwrap();
            assert_eq!(data.len(), n);
            assert!(data.iter().all(|x| x.to_bits() == 0));
            assert!(n < 1 << 10 || data.as_ptr().align_offset(ALIGN) == 0);
            data.fill(1.0);
            data.set_len(n / 2);
            assert_eq!((data.len(), data.capacity()), (n / 2, n));
        }
        assert!(AlignedVec::<f64>::zeroed(usize::MAX / 8).is_none());
        assert!(AlignedVec::<bool>::zeroed(usize::MAX).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_dropped_part_returns_its_pages_while_its_mapping_is_alive() {
        use super::MemoryOwner;
        const PAGE: usize = 4 << 10;
        let bytes = (8 << 20) + (600 << 10);
        let mut vector = AlignedVec::<f32>::zeroed(bytes / 4).unwrap();
        vector.fill(1.0);
        let MemoryOwner::Mapped { of } = &vector.memory else {
            return;
        };
        let (other_part, start) = (of.clone(), vector.as_ptr() as usize);
        drop(vector);
        let (first, last) = (start.next_multiple_of(PAGE), (start + bytes) / PAGE * PAGE);
        let mut resident = vec![1u8; (last - first) / PAGE];
        // SAFETY: the pages stay mapped while `other_part` is alive, and `resident` has one byte
        // for each page.
        let known = unsafe { libc::mincore(first as *mut _, last - first, resident.as_mut_ptr()) };
        drop(other_part);
        assert!(known != 0 || resident.iter().all(|page| page & 1 == 0));
    }

    #[test]
    fn an_aligned_vector_from_a_vec_does_not_move_it() {
        let vector = vec![1.0, 2.0];
        let start = vector.as_ptr();
        let vector = AlignedVec::from(vector);
        assert_eq!((vector.as_ptr(), &*vector), (start, &[1.0, 2.0][..]));
    }
}
