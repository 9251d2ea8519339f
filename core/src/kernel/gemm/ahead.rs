//! What the next tiles read of the left operand is fetched while the tiles before them compute, a little at a time. The
//! hardware does not foresee it where rows or columns lie in pages of their own.

use super::pack::At;
use super::tile::Tiles;

/// Rows that the second-level cache is asked for.
pub(super) struct Rows<T> {
    at: At<T>,
    /// The rows, and the elements of each; then where it goes on, from row to row and then a line to the right.
    size: [usize; 2],
    next: [usize; 2],
    /// The lines that are asked for at a time.
    n_lines: usize,
}

impl<T: Copy> Rows<T> {
    const LINE: usize = 64 / size_of::<T>();

    /// For so many rows, and elements of each, in so many steps. The elements of a row lie side by side.
    pub(super) fn new(size: [usize; 2], at: At<T>, n_steps: usize) -> Self {
        let n_lines = size[0] * size[1].div_ceil(Self::LINE);
        Rows {
            at,
            size,
            next: [0, 0],
            n_lines: n_lines.div_ceil(n_steps),
        }
    }

    /// Asks for the next lines.
    #[inline]
    pub(super) fn ask(&mut self) {
        let [mut i, mut j] = self.next;
        let mut n_left = self.n_lines;
        while n_left > 0 && j < self.size[1] {
            let n = n_left.min(self.size[0] - i);
            let mut line = self.at.element(i, j);
            for _ in 0..n {
                ask(line);
                line = line.wrapping_add(self.at.rows);
            }
            n_left -= n;
            i += n;
            if i == self.size[0] {
                (i, j) = (0, j + Self::LINE);
            }
        }
        self.next = [i, j];
    }
}

/// Columns that are [copied](Tiles::columns).
pub(super) struct Columns<'a, T: 'static> {
    pub(super) tiles: &'a Tiles<T>,
    /// The elements of a column lie side by side.
    pub(super) from: At<T>,
    pub(super) to: *mut T,
    /// The elements of a column, and whether there are [`Tiles::rows`].
    pub(super) rows: usize,
    pub(super) whole: bool,
    /// The columns that are left.
    pub(super) k: usize,
    /// The columns that are copied at a time.
    pub(super) step: usize,
}

impl<T: Copy> Columns<'_, T> {
    /// Copies the next columns, and asks for those after them.
    ///
    /// # Safety
    ///
    /// The CPU has the tiles; the columns that are left may be read, and there is room for them.
    #[inline]
    pub(super) unsafe fn copy(&mut self) {
        let n = self.step.min(self.k);
        // SAFETY: what the caller vouches for.
        unsafe {
            (self.tiles.columns)(
                [n, self.rows],
                self.whole,
                self.from.ptr,
                self.from.cols,
                self.to,
            );
        }
        self.k -= n;
        self.from = self.from.from(0, n);
        self.to = self.to.wrapping_add(n * self.tiles.rows);
        for p in 0..self.step.min(self.k) {
            ask(self.from.element(0, p));
            ask(self.from.element(self.rows - 1, p));
        }
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
