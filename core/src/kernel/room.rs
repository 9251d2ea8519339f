//! Thread-local scratch memory of kernels.

use super::span::{Line, Span, at_least};
use crate::spare::{keep_room, take_room};
use std::cell::Cell;
use std::thread::LocalKey;

/// Scratch of one use. A kernel that runs inside another one needs its own.
pub(super) type Room = Cell<Span<Line>>;

/// Calls `f` with at least `n` cache lines of scratch. They hold the data of the last use.
///
/// # Panics
///
/// Panics if memory runs out.
pub(super) fn with_lines<R>(
    room: &'static LocalKey<Room>,
    n: usize,
    f: impl FnOnce(&mut [Line]) -> R,
) -> R {
    let lines = at_least(take_room(room), n);
    let mut lines = lines.expect("out of memory for the scratch of a kernel");
    let result = f(&mut lines);
    keep_room(room, lines);
    result
}

/// Returns the number of cache lines that hold `len` elements.
pub(super) const fn lines_for<T>(len: usize) -> usize {
    (len * size_of::<T>()).div_ceil(size_of::<Line>())
}
