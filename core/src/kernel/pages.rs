//! Memory that is fresh from the system.
//!
//! It is mapped when it is first touched, a page at a time, and for a page of 4 KiB that takes longer than to fill it. A page
//! of 2 MiB takes as long as some hundred KiB of these, and many pages that are asked for at once take less than one by one. So
//! what is large comes in large pages, and what several have asked for lies in one of them. A first run is faster for that,
//! and addresses are translated with fewer misses from then on.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, MutexGuard};

/// A part of a mapping. Its memory is initialised, and nobody else has it.
pub(super) struct Part {
    /// At a multiple of a cache line.
    pub(super) start: NonNull<u8>,
    /// Keeps the memory.
    pub(super) mapping: Arc<Mapping>,
}

/// Memory from the system that begins at a multiple of a large page.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is none"))]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is owned; who has a part has it alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The least memory for which it pays to ask for its pages, in bytes.
#[cfg(target_os = "linux")]
const WORTH: usize = 128 << 10;

/// The least memory for which it pays to ask for a large page, in bytes.
#[cfg(target_os = "linux")]
const WORTH_A_LARGE_PAGE: usize = 512 << 10;

/// The length of a page, or a part of it.
#[cfg(target_os = "linux")]
const PAGE: usize = 4 << 10;

/// The length of a large page, and what its address is a multiple of.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// So many bytes, if they are worth a large page, or if there is room for them in one that others have asked for.
#[cfg(target_os = "linux")]
pub(super) fn part(bytes: usize) -> Option<Part> {
    if bytes < WORTH {
        return None;
    }
    let bytes = bytes.checked_next_multiple_of(super::ALIGN)?;
    let mut open = open();
    let part = match &mut *open {
        Some(there) if there.left() >= bytes => there.take(bytes),
        _ if bytes < WORTH_A_LARGE_PAGE => return None,
        there => {
            let unit = match bytes % LARGE_PAGE < WORTH_A_LARGE_PAGE {
                true => PAGE,
                false => LARGE_PAGE,
            };
            let mut fresh = Open {
                mapping: Arc::new(Mapping::new(bytes.checked_next_multiple_of(unit)?)?),
                used: 0,
            };
            let part = fresh.take(bytes);
            if there
                .as_ref()
                .is_none_or(|there| there.left() < fresh.left())
            {
                *there = Some(fresh);
            }
            part
        }
    };
    drop(open);
    // SAFETY: the part is of so many bytes, and nobody else has it.
    let room = unsafe { std::slice::from_raw_parts_mut(part.start.as_ptr().cast(), bytes) };
    populate::<u8>(room);
    Some(part)
}

#[cfg(target_os = "linux")]
fn open() -> MutexGuard<'static, Option<Open>> {
    /// The mapping that has the most room left.
    static OPEN: Mutex<Option<Open>> = Mutex::new(None);
    // No panic leaves it half changed.
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Keeps other threads from asking for pages as long as what is returned lives.
#[cfg(target_os = "linux")]
pub(crate) fn hold_pages() -> impl Sized + 'static {
    open()
}

/// Other systems have no parts.
#[cfg(not(target_os = "linux"))]
pub(crate) fn hold_pages() {}

/// Other systems choose by themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn part(_bytes: usize) -> Option<Part> {
    None
}

/// A mapping of which the first bytes are taken.
#[cfg(target_os = "linux")]
struct Open {
    mapping: Arc<Mapping>,
    used: usize,
}

#[cfg(target_os = "linux")]
impl Open {
    fn left(&self) -> usize {
        self.mapping.bytes - self.used
    }

    fn take(&mut self, bytes: usize) -> Part {
        assert!(bytes <= self.left(), "a part of what is left");
        // SAFETY: the offset lies in the mapping, as asserted.
        let start = unsafe { self.mapping.start.add(self.used) };
        self.used += bytes;
        Part {
            start,
            mapping: self.mapping.clone(),
        }
    }
}

#[cfg(target_os = "linux")]
impl Mapping {
    /// So many bytes, a multiple of a page, all of them zero: in large pages where whole ones fit and the system gives them.
    fn new(bytes: usize) -> Option<Mapping> {
        let around = bytes.checked_add(LARGE_PAGE)?;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, which overlaps nothing.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), around, access, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let before = mapped.cast::<u8>().align_offset(LARGE_PAGE);
        let start = mapped.wrapping_byte_add(before);
        let after = LARGE_PAGE - before;
        // SAFETY: the ranges lie in the mapping, before and after what is kept; they are whole pages. Advice changes no
        // contents, and the system may decline it.
        unsafe {
            if before > 0 {
                libc::munmap(mapped, before);
            }
            if after > 0 {
                libc::munmap(start.wrapping_byte_add(bytes), after);
            }
            libc::madvise(start, bytes - bytes % LARGE_PAGE, libc::MADV_HUGEPAGE);
        }
        Some(Mapping {
            start: NonNull::new(start.cast())?,
            bytes,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole of a mapping of which nobody has a part any more.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.bytes);
        }
    }
}

/// Gives the whole pages among `n` elements back to the system, which may give others there.
///
/// # Safety
///
/// The elements lie in a mapping, and nobody reads or writes them any more.
#[cfg(target_os = "linux")]
pub(super) unsafe fn give_back<T>(start: *mut T, n: usize) {
    let (from, end) = (start as usize, start.wrapping_add(n) as usize);
    let (first, last) = (from.next_multiple_of(PAGE), end - end % PAGE);
    if first < last {
        let pages = start.wrapping_byte_add(first - from);
        // SAFETY: the caller's promise, for whole pages of private memory of no file.
        unsafe { libc::madvise(pages.cast(), last - first, libc::MADV_DONTNEED) };
    }
}

/// Other systems have no parts.
///
/// # Safety
///
/// There is nothing to keep to.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn give_back<T>(_start: *mut T, _n: usize) {}

/// Asks the system to map all pages that lie in `room` at once. It may decline.
#[cfg(target_os = "linux")]
pub(super) fn populate<T>(room: &mut [MaybeUninit<T>]) {
    if size_of_val(room) < WORTH {
        return;
    }
    let start = room.as_mut_ptr() as usize;
    let end = start + size_of_val(room);
    let (first, last) = (start.next_multiple_of(PAGE), end - end % PAGE);
    if first < last {
        let pages = room.as_mut_ptr().wrapping_byte_add(first - start);
        // SAFETY: the range lies in `room`, which is borrowed for writing, and the advice changes no contents. What it
        // returns only says whether the system knows it.
        unsafe { libc::madvise(pages.cast(), last - first, libc::MADV_POPULATE_WRITE) };
    }
}

/// Other systems map pages when they are touched.
#[cfg(not(target_os = "linux"))]
pub(super) fn populate<T>(_room: &mut [MaybeUninit<T>]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{LARGE_PAGE, WORTH_A_LARGE_PAGE, part};

    #[test]
    fn parts_are_zero_and_lie_apart() {
        let sizes = [
            700 << 10,
            300 << 10,
            (3 << 20) + 100,
            600 << 10,
            200 << 10,
            5 << 20,
        ];
        let mut parts = Vec::new();
        for bytes in sizes {
            let Some(part) = part(bytes) else {
                assert!(bytes < WORTH_A_LARGE_PAGE);
                continue;
            };
            let start = part.start.as_ptr();
            assert_eq!(start.align_offset(64), 0);
            // SAFETY: the bytes of the part, which nobody else has.
            let room = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
            assert!(room.iter().all(|x| *x == 0), "nobody has written there");
            room.fill(7);
            parts.push(part);
        }
        assert!(part(1000).is_none(), "the allocator has small blocks");
        assert!(part(usize::MAX).is_none() && part(usize::MAX - LARGE_PAGE).is_none());
    }
}
