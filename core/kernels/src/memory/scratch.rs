//! Thread-local scratch memory of kernels.

use crate::array;
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

/// Element type for which any bits are a valid value.
///
/// # Safety
///
/// The size must be a power of 2, at most 64, and every bit pattern must be valid.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: the size is 4, and every bit pattern is a number or a NaN.
unsafe impl Plain for f32 {}
// SAFETY: the size is 8, and every bit pattern is a number or a NaN.
unsafe impl Plain for f64 {}
// SAFETY: the size is 4, and every bit pattern is a number.
unsafe impl Plain for i32 {}
// SAFETY: the size is 8, and every bit pattern is a number.
unsafe impl Plain for i64 {}
// SAFETY: the size is 16, and every bit pattern is a number.
unsafe impl Plain for i128 {}

/// Calls `f` with thread-local scratch slices of the given lengths, each aligned to a cache line.
///
/// They hold the elements of the last use.
pub(crate) fn with_scratch<T: Plain, R, const N: usize>(
    lens: [usize; N],
    f: impl FnOnce([&mut [T]; N]) -> R,
) -> R {
    thread_local! {
        static SCRATCH: Scratch = const { Scratch::new(AlignedVec::new()) };
    }
    with_slices(&SCRATCH, lens, f)
}

/// As [`with_scratch`], for a kernel that calls another one that needs scratch.
pub(crate) fn with_slices<T: Plain, R, const N: usize>(
    scratch: &'static LocalKey<Scratch>,
    lens: [usize; N],
    f: impl FnOnce([&mut [T]; N]) -> R,
) -> R {
    let n_lines = lens.iter().map(|len| lines_for::<T>(*len)).sum();
    with_lines(scratch, n_lines, |mut rest| {
        let slices = array::map(lens, |len| {
            let (lines, others) = std::mem::take(&mut rest).split_at_mut(lines_for::<T>(len));
            rest = others;
            let start = lines.as_mut_ptr().cast::<T>();
            // SAFETY: the lines are initialised, aligned for `T` and large enough for `len`
            // elements, for which any bits are valid (`Plain`). The slices are disjoint and live
            // until `f` returns.
            unsafe { std::slice::from_raw_parts_mut(start, len) }
        });
        f(slices)
    })
}
