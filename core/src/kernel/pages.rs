//! Large pages for the arena.
//!
//! What a process gets from the system is mapped when it is first touched, a page at a time, and for a page of 4 KiB that takes
//! longer than to fill it. A page of 2 MiB takes as long as some of these, so a first run is faster, and its addresses
//! are translated with fewer misses from then on.

use std::mem::MaybeUninit;

/// The length of a large page, and what its address is a multiple of.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Asks the system for large pages where whole ones fit into memory that is not used yet. It may decline.
#[cfg(target_os = "linux")]
pub(super) fn prefer_large<T>(room: &mut [MaybeUninit<T>]) {
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
pub(super) fn prefer_large<T>(_room: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::prefer_large;

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
