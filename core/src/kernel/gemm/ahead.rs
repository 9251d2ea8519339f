//! What is about to be read is asked for while something else is computed.

use super::pack::At;

/// Rows or columns that tiles will read, which the second-level cache is asked for a few lines at a time. The hardware does
/// not foresee them, because each lies in a page of its own.
pub(super) struct Ahead<T> {
    /// Its columns lie side by side.
    at: At<T>,
    /// The rows, and the elements of each; then where it goes on, from row to row and then a line to the right.
    size: [usize; 2],
    next: [usize; 2],
    /// The lines that are asked for at a time.
    n_lines: usize,
}

impl<T: Copy> Ahead<T> {
    const LINE: usize = 64 / size_of::<T>();

    /// For `m` by `n` elements, in so many steps.
    pub(super) fn new([m, n]: [usize; 2], at: At<T>, n_steps: usize) -> Self {
        let (size, at) = match at.cols {
            1 => ([m, n], at),
            _ => ([n, m], at.transposed()),
        };
        let n_lines = match at.cols {
            1 => size[0] * size[1].div_ceil(Self::LINE),
            _ => 0,
        };
        Ahead {
            at,
            size,
            next: [0, 0],
            n_lines: n_lines.div_ceil(n_steps),
        }
    }

    /// Asks for the next lines.
    pub(super) fn ask(&mut self) {
        let [mut i, mut j] = self.next;
        for _ in 0..self.n_lines {
            if j >= self.size[1] {
                break;
            }
            ask(self.at.element(i, j));
            i += 1;
            if i == self.size[0] {
                (i, j) = (0, j + Self::LINE);
            }
        }
        self.next = [i, j];
    }
}

/// Asks the second-level cache for a line, if there is memory.
#[inline(always)]
fn ask<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: it neither reads nor fails, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
