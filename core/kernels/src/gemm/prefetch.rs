//! Prefetching of the left operand for the next tiles, a little for each tile.
//!
//! The hardware does not predict these accesses if rows or columns are on pages of their own.

use crate::gemm::pack::MatrixPtr;
use crate::gemm::tile::Tiles;

/// Rows to prefetch into the L2 cache.
pub(crate) struct PrefetchRows<T> {
    at: MatrixPtr<T>,
    /// Number of rows, and of elements per row.
    ///
    /// `next` is the row and column of the next line: it moves down the rows, then a line to the
    /// right.
    size: [usize; 2],
    next: [usize; 2],
    /// Number of cache lines to prefetch per step.
    n_lines: usize,
}

impl<T: Copy> PrefetchRows<T> {
    const LINE: usize = 64 / size_of::<T>();

    /// Prefetches `size[0]` rows of `size[1]` contiguous elements in `n_steps` steps.
    pub(crate) fn new(size: [usize; 2], at: MatrixPtr<T>, n_steps: usize) -> Self {
        let n_lines = size[0] * size[1].div_ceil(Self::LINE);
        PrefetchRows {
            at,
            size,
            next: [0, 0],
            n_lines: n_lines.div_ceil(n_steps),
        }
    }

    /// Prefetches the next cache lines.
    #[inline]
    pub(crate) fn ask(&mut self) {
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

/// Columns to copy with [`Tiles::columns`], some at a time.
pub(crate) struct Columns<'a, T: 'static> {
    pub(crate) tiles: &'a Tiles<T>,
    /// The columns; the elements of each are contiguous.
    pub(crate) from: MatrixPtr<T>,
    pub(crate) to: *mut T,
    /// Number of elements of a column; `whole` is true if it is [`Tiles::rows`].
    pub(crate) rows: usize,
    pub(crate) whole: bool,
    /// Number of columns that are left.
    pub(crate) k: usize,
    /// Number of columns to copy per step.
    pub(crate) step: usize,
}

impl<T: Copy> Columns<'_, T> {
    /// Copies the next columns and prefetches those after them.
    ///
    /// # Safety
    ///
    /// The CPU must have the tiles. The remaining columns must be valid for reads, and their places
    /// in `to` for writes.
    #[inline]
    pub(crate) unsafe fn copy(&mut self) {
        let n = self.step.min(self.k);
        // SAFETY: the caller guarantees that the CPU has the tiles and that the remaining columns
        // are valid; `n` is at most `k`, the number of remaining columns.
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

/// Prefetches a cache line into the L2 cache. The address may be invalid.
#[inline(always)]
fn ask<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch accesses no memory and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
