//! Memory that a thread keeps for what a kernel has in the making.

use super::span::{Line, Span, at_least};
use crate::spare::{keep_room, take_room};
use std::cell::Cell;
use std::thread::LocalKey;

/// Where a thread keeps it between two uses of one kind. A kernel that runs inside of another has one of its own.
pub(super) type Room = Cell<Span<Line>>;

/// Calls `f` with at least so many cache lines; what they hold is what the last use left in them.
///
/// # Panics
///
/// There is no memory for them.
pub(super) fn with_lines<R>(
    room: &'static LocalKey<Room>,
    n: usize,
    f: impl FnOnce(&mut [Line]) -> R,
) -> R {
    let lines = at_least(take_room(room), n);
    let mut lines = lines.expect("there is memory for what a kernel works in");
    let result = f(&mut lines);
    keep_room(room, lines);
    result
}

/// How many cache lines hold `len` elements.
pub(super) const fn lines_for<T>(len: usize) -> usize {
    (len * size_of::<T>()).div_ceil(size_of::<Line>())
}
