//! Ages: sequence numbers that give the order in which ops were recorded.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the age of an op whose operands have ages of at most `after`.
///
/// Threads take ages in blocks. A block is greater than all blocks taken before it.
pub(crate) fn next_age(after: u64) -> u64 {
    let (mut next, mut end) = AGES.get();
    if next >= end || next <= after {
        next = fresh_ages();
        end = next + BLOCK;
    }
    AGES.set((next + 1, end));
    next
}

/// Returns an age greater than all ages in use and less than those this thread records later.
pub(crate) fn age_of_all() -> u64 {
    let next = fresh_ages();
    AGES.set((next + 1, next + BLOCK));
    next
}

const BLOCK: u64 = 1 << 10;

thread_local! {
    /// Next age of this thread, and the end of its block.
    static AGES: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn fresh_ages() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(BLOCK, Ordering::Relaxed)
}
