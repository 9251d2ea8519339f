//! Sequence numbers: that give the order in which ops were recorded.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the sequence number of an op whose operands have sequence numbers of at most `after`.
///
/// Threads take sequence numbers in blocks. A block is greater than all blocks taken before it.
pub(crate) fn next_seq_no(after: u64) -> u64 {
    let (mut next, mut end) = NEXT_IN_BLOCK.get();
    if next >= end || next <= after {
        next = fresh_block();
        end = next + BLOCK;
    }
    NEXT_IN_BLOCK.set((next + 1, end));
    next
}

/// Returns a sequence number greater than all sequence numbers in use and less than those this thread records later.
pub(crate) fn seq_no_of_all() -> u64 {
    let next = fresh_block();
    NEXT_IN_BLOCK.set((next + 1, next + BLOCK));
    next
}

/// Returns a number greater than those of all ops that this thread has recorded. It takes none.
pub(crate) fn next_of_thread() -> u64 {
    NEXT_IN_BLOCK.get().0
}

const BLOCK: u64 = 1 << 10;

thread_local! {
    /// Next sequence number of this thread, and the end of its block.
    static NEXT_IN_BLOCK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn fresh_block() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(BLOCK, Ordering::Relaxed)
}
