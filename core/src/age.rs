//! Ages: the order in which what ops compute was recorded.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The next age of what an op computes whose oldest operand has the age `after`.
///
/// Threads take ages in blocks. A block is later than all that were taken before.
pub(crate) fn next_age(after: u64) -> u64 {
    let (mut next, mut end) = AGES.get();
    if next >= end || next <= after {
        next = fresh_ages();
        end = next + BLOCK;
    }
    AGES.set((next + 1, end));
    next
}

/// An age that is later than those of all there is, and earlier than those of what this thread records from now on.
pub(crate) fn age_of_all() -> u64 {
    let next = fresh_ages();
    AGES.set((next + 1, next + BLOCK));
    next
}

const BLOCK: u64 = 1 << 10;

thread_local! {
    /// The next age of this thread, and the end of its block.
    static AGES: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn fresh_ages() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(BLOCK, Ordering::Relaxed)
}
