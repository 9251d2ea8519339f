//! Thread-local scratch memory of kernels.

use crate::memory::aligned_vec::{AlignedVec, Line, at_least};
use std::cell::Cell;
use std::thread::LocalKey;

/// Scratch of one use. A kernel that runs inside another one needs its own.
pub(crate) type Scratch = Cell<AlignedVec<Line>>;

/// Takes scratch memory of this thread, or empty memory while the thread exits.
///
/// Destructors of the user may still compute at that time.
pub fn take<T: Default>(scratch: &'static LocalKey<Cell<T>>) -> T {
    scratch.try_with(Cell::take).unwrap_or_default()
}

/// Gives scratch memory back to this thread, for the next use.
pub fn restore<T>(scratch: &'static LocalKey<Cell<T>>, memory: T) {
    let mut memory = Some(memory);
    let _ = scratch.try_with(|scratch| memory.take().map(|memory| scratch.set(memory)));
}

/// Calls `f` with at least `n` cache lines of scratch. They hold the data of the last use.
///
/// # Panics
///
/// Panics if memory runs out.
pub(crate) fn with_lines<R>(
    scratch: &'static LocalKey<Scratch>,
    n: usize,
    f: impl FnOnce(&mut [Line]) -> R,
) -> R {
    let lines = at_least(take(scratch), n);
    let mut lines = lines.expect("out of memory for the scratch of a kernel");
    let result = f(&mut lines);
    restore(scratch, lines);
    result
}

/// Returns the number of cache lines that hold `len` elements.
pub(crate) const fn lines_for<T>(len: usize) -> usize {
    (len * size_of::<T>()).div_ceil(size_of::<Line>())
}
