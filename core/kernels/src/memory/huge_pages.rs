//! Fresh memory from the system, in huge pages where possible.
//!
//! The system maps a page when it is first touched. For small pages that takes longer than to fill
//! them, and for a huge page much less per byte; mapping many pages with one call is faster than
//! one by one. So large memory comes in huge pages, and several allocations share one. The first
//! run of a plan is faster for it, and later runs have fewer TLB misses.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, MutexGuard};

/// Part of a mapping: initialised memory with a single owner.
pub(crate) struct MappingPart {
    /// Aligned to a cache line.
    pub(crate) start: NonNull<u8>,
    /// Keeps the memory mapped.
    pub(crate) mapping: Arc<Mapping>,
}

/// Memory from the system, aligned to a huge page.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux has mappings")
)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping owns its memory, and each part of it has a single owner.
unsafe impl Send for Mapping {}
// SAFETY: the mapping owns its memory, and each part of it has a single owner.
unsafe impl Sync for Mapping {}

/// Size in bytes from which requesting all pages at once pays off.
#[cfg(target_os = "linux")]
const WORTH: usize = 128 << 10;

/// Size in bytes from which a huge page of its own pays off.
#[cfg(target_os = "linux")]
const WORTH_A_LARGE_PAGE: usize = 512 << 10;

/// Size of a page in bytes, or a divisor of it.
#[cfg(target_os = "linux")]
const PAGE: usize = 4 << 10;

/// Size and alignment of a huge page in bytes.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Returns `bytes` of zeroed memory from a mapping, or `None` if the allocator should serve the
/// request.
///
/// Takes them from the open mapping if it has the space. Otherwise a large request gets a fresh
/// mapping.
#[cfg(target_os = "linux")]
pub(crate) fn part(bytes: usize) -> Option<MappingPart> {
    if bytes < WORTH {
        return None;
    }
    let bytes = bytes.checked_next_multiple_of(super::aligned_vec::ALIGN)?;
    let mut open = open();
    let part = match &mut *open {
        Some(there) if there.left() >= bytes => there.take(bytes),
        _ if bytes < WORTH_A_LARGE_PAGE => return None,
        there => {
            let unit = match bytes % LARGE_PAGE < WORTH_A_LARGE_PAGE {
                true => PAGE,
                false => LARGE_PAGE,
            };
            let mut fresh = OpenMapping {
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
    // SAFETY: the part has `bytes` bytes, and only this function holds it.
    let capacity = unsafe { std::slice::from_raw_parts_mut(part.start.as_ptr().cast(), bytes) };
    populate::<u8>(capacity);
    Some(part)
}

#[cfg(target_os = "linux")]
fn open() -> MutexGuard<'static, Option<OpenMapping>> {
    /// The mapping with the most space left.
    static OPEN: Mutex<Option<OpenMapping>> = Mutex::new(None);
    // A poisoned lock is usable: no panic leaves the mapping half changed.
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Locks the open mapping until the returned guard is dropped.
#[cfg(target_os = "linux")]
pub(crate) fn hold_pages() -> impl Sized + 'static {
    open()
}

/// Other systems have no mappings to lock.
#[cfg(not(target_os = "linux"))]
pub(crate) fn hold_pages() {}

/// Other systems have no huge pages to request.
#[cfg(not(target_os = "linux"))]
pub(crate) fn part(_bytes: usize) -> Option<MappingPart> {
    None
}

/// A mapping whose first `used` bytes are in use.
#[cfg(target_os = "linux")]
struct OpenMapping {
    mapping: Arc<Mapping>,
    used: usize,
}

#[cfg(target_os = "linux")]
impl OpenMapping {
    fn left(&self) -> usize {
        self.mapping.bytes - self.used
    }

    fn take(&mut self, bytes: usize) -> MappingPart {
        assert!(
            bytes <= self.left(),
            "a part must fit into the space that is left"
        );
        // SAFETY: the offset lies inside the mapping, as asserted.
        let start = unsafe { self.mapping.start.add(self.used) };
        self.used += bytes;
        MappingPart {
            start,
            mapping: self.mapping.clone(),
        }
    }
}

#[cfg(target_os = "linux")]
impl Mapping {
    /// Maps `bytes` zeroed bytes, a multiple of [`PAGE`], aligned to a huge page.
    ///
    /// Huge pages are a request that the system may decline; the tail that does not fill one has
    /// small pages.
    fn new(bytes: usize) -> Option<Mapping> {
        let around = bytes.checked_add(LARGE_PAGE)?;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh anonymous mapping at an address that the system chooses overlaps nothing.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), around, access, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let before = mapped.cast::<u8>().align_offset(LARGE_PAGE);
        let start = mapped.wrapping_byte_add(before);
        let after = LARGE_PAGE - before;
        // SAFETY: both ranges that are unmapped are whole pages of the mapping, before and after
        // the part that is used. `madvise` changes no contents, and the system may decline it.
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
        // SAFETY: this is the whole mapping, and none of its parts is alive: each holds an `Arc` of
        // it.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.bytes);
        }
    }
}

/// Returns the whole pages among `n` elements to the system, which may map fresh pages there.
///
/// # Safety
///
/// The elements must lie in a mapping and must not be read or written afterwards.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn give_back<T>(start: *mut T, n: usize) {
    let (from, end) = (start as usize, start.wrapping_add(n) as usize);
    let (first, last) = (from.next_multiple_of(PAGE), end - end % PAGE);
    if first < last {
        let pages = start.wrapping_byte_add(first - from);
        // SAFETY: the caller gives up the elements. The range is whole pages of a private anonymous
        // mapping.
        unsafe { libc::madvise(pages.cast(), last - first, libc::MADV_DONTNEED) };
    }
}

/// Other systems have no mappings.
///
/// # Safety
///
/// No requirements.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn give_back<T>(_start: *mut T, _n: usize) {}

/// Asks the system to map all pages that lie in `capacity` at once; it may decline.
#[cfg(target_os = "linux")]
pub(crate) fn populate<T>(capacity: &mut [MaybeUninit<T>]) {
    if size_of_val(capacity) < WORTH {
        return;
    }
    let start = capacity.as_mut_ptr() as usize;
    let end = start + size_of_val(capacity);
    let (first, last) = (start.next_multiple_of(PAGE), end - end % PAGE);
    if first < last {
        let pages = capacity.as_mut_ptr().wrapping_byte_add(first - start);
        // SAFETY: the range lies in `capacity`, which is borrowed mutably, and the advice changes no
        // contents. An error only means that the system does not support it.
        unsafe { libc::madvise(pages.cast(), last - first, libc::MADV_POPULATE_WRITE) };
    }
}

/// Other systems map pages on first touch.
#[cfg(not(target_os = "linux"))]
pub(crate) fn populate<T>(_room: &mut [MaybeUninit<T>]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{LARGE_PAGE, WORTH_A_LARGE_PAGE, part};

    #[test]
    fn parts_are_zero_and_do_not_overlap() {
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
            // SAFETY: these are the bytes of the part, which only this test holds.
            let capacity = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
            assert!(
                capacity.iter().all(|x| *x == 0),
                "a part must not overlap an earlier one"
            );
            capacity.fill(7);
            parts.push(part);
        }
        assert!(
            part(1000).is_none(),
            "small requests are left to the allocator"
        );
        assert!(part(usize::MAX).is_none() && part(usize::MAX - LARGE_PAGE).is_none());
    }
}
