//! Memory that is fresh from the system.
//!
//! It is mapped when it is first touched, a page at a time, and for a page of 4 KiB that takes longer than to fill it. A page
//! of 2 MiB takes as long as some of these, and many pages that are asked for at once take less than one by one. So a
//! first run is faster, and where pages are large its addresses are translated with fewer misses from then on.

use crate::dtype::Element;
use std::alloc::{Layout, alloc_zeroed};
use std::mem::MaybeUninit;

/// So many elements, all of them zero, if there is memory. They are not written where the system gives zeros.
pub(crate) fn zeroed<T: Element>(n: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(n).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size.
    let data = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if data.is_null() {
        return None;
    }
    // SAFETY: the memory is of the global allocator and of the layout of `n` elements; elements are numbers and bools, of which
    // zero bytes are values.
    let mut data = unsafe { Vec::from_raw_parts(data, 0, n) };
    populate(data.spare_capacity_mut());
    // SAFETY: as above; all `n` elements are zero.
    unsafe { data.set_len(n) };
    Some(data)
}

/// The least memory for which it pays to ask for its pages, in bytes.
#[cfg(target_os = "linux")]
const WORTH: usize = 128 << 10;

/// The length of a page, or a part of it.
#[cfg(target_os = "linux")]
const PAGE: usize = 4 << 10;

/// Asks the system to map all pages that lie in `room` at once. It may decline.
#[cfg(target_os = "linux")]
pub(super) fn populate<T>(room: &mut [MaybeUninit<T>]) {
    if size_of_val(room) < WORTH {
        return;
    }
    prefer_large(room);
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

/// The length of a large page, and what its address is a multiple of.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Asks the system for large pages where whole ones fit into memory that is not used yet. It may decline.
#[cfg(target_os = "linux")]
fn prefer_large<T>(room: &mut [MaybeUninit<T>]) {
    let start = room.as_mut_ptr() as usize;
    let end = start + size_of_val(room);
    let first = start.next_multiple_of(LARGE_PAGE);
    let last = end - end % LARGE_PAGE;
    if first < last {
        let pages = room.as_mut_ptr().wrapping_byte_add(first - start);
        // SAFETY: the range lies in `room`, which is borrowed for writing, and the advice changes no contents. What it
        // returns only says whether the system knows of large pages.
        unsafe { libc::madvise(pages.cast(), last - first, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems choose by themselves.
#[cfg(not(target_os = "linux"))]
fn prefer_large<T>(_room: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::{prefer_large, zeroed};

    #[test]
    fn fresh_elements_are_zero_and_there_are_as_many_as_asked_for() {
        for n in [0, 1, 100, 1 << 16, (3 << 20) + 5] {
            let data = zeroed::<f32>(n).unwrap();
            assert_eq!(data.len(), n);
            assert!(data.iter().all(|x| x.to_bits() == 0));
        }
        assert!(zeroed::<f64>(usize::MAX / 8).is_none());
        assert!(zeroed::<bool>(usize::MAX).is_none());
    }

    #[test]
    fn memory_of_any_size_and_address_can_be_asked_for_in_large_pages() {
        for n in [0, 1, 1 << 20, (6 << 20) + 3] {
            let mut data: Vec<u8> = Vec::with_capacity(n);
            for skipped in [0, 1, n / 2] {
                let room = data.spare_capacity_mut();
                prefer_large(&mut room[skipped.min(n)..]);
            }
            data.resize(n, 7);
            assert!(data.iter().all(|x| *x == 7));
        }
    }
}
