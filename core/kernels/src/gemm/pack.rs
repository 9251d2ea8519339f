//! Copies of blocks of matrices, in the order in which the tiles read them.

use crate::gemm::tile::{TileElement, Tiles};
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::scratch::{Scratch, lines_for, with_lines};

/// A strided matrix in memory: element `(i, j)` is at `ptr + i * rows + j * cols`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixPtr<T> {
    pub(crate) ptr: *const T,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

// SAFETY: this is an address. The code that dereferences it guarantees that the access is valid.
unsafe impl<T: Sync> Sync for MatrixPtr<T> {}

impl<T: Copy> MatrixPtr<T> {
    pub(crate) fn element(self, i: usize, j: usize) -> *const T {
        self.ptr.wrapping_add(i * self.rows + j * self.cols)
    }

    /// Returns the matrix moved by `offset` elements.
    pub(crate) fn after(self, offset: usize) -> MatrixPtr<T> {
        MatrixPtr {
            ptr: self.ptr.wrapping_add(offset),
            ..self
        }
    }

    /// Returns the matrix from element `(i, j)` on.
    pub(crate) fn from(self, i: usize, j: usize) -> MatrixPtr<T> {
        MatrixPtr {
            ptr: self.element(i, j),
            ..self
        }
    }

    pub(crate) fn transposed(self) -> MatrixPtr<T> {
        MatrixPtr {
            rows: self.cols,
            cols: self.rows,
            ..self
        }
    }
}

/// Products of matrices with contiguous rows and vectors, one after another in memory.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(
        dead_code,
        reason = "tiles of other CPUs multiply no small matrices with vectors"
    )
)]
pub(crate) struct MatVecs<T> {
    pub(crate) n_products: usize,
    /// Rows and columns of each matrix.
    pub(crate) size: [usize; 2],
    /// The first matrix, and the distance between its rows.
    pub(crate) a: (*const T, usize),
    /// The first vector, and the distance between its elements.
    pub(crate) x: (*const T, usize),
    /// The first result, whose elements are contiguous.
    pub(crate) y: *mut T,
    /// Distances between matrices, vectors and results.
    pub(crate) steps: [usize; 3],
    /// True if the products are added to the results.
    pub(crate) add: bool,
}

/// Calls `f` with thread-local scratch for `len` elements, aligned to a cache line.
pub(crate) fn with_room<T: TileElement, R>(len: usize, f: impl FnOnce(*mut T) -> R) -> R {
    thread_local! {
        static SCRATCH: Scratch = const { Scratch::new(AlignedVec::new()) };
    }
    match len {
        0 => f(std::ptr::dangling_mut()),
        _ => with_lines(&SCRATCH, lines_for::<T>(len), |lines| {
            f(lines.as_mut_ptr().cast())
        }),
    }
}

/// Copies `m` by `n` elements into rows that are `stride` apart.
///
/// # Safety
///
/// The CPU must have the tiles. The elements that the strides reach must be valid for reads in
/// `from` and for writes in `to`, and must not overlap.
pub(crate) unsafe fn copy<T: TileElement>(
    tiles: &Tiles<T>,
    [m, n]: [usize; 2],
    from: MatrixPtr<T>,
    to: *mut T,
    stride: usize,
) {
    // SAFETY: `i < m` and `j < n`; the caller guarantees that these elements are valid, and the
    // tiles.
    unsafe {
        if from.cols == 1 {
            for i in 0..m {
                std::ptr::copy_nonoverlapping(from.element(i, 0), to.add(i * stride), n);
            }
        } else if from.rows == 1 {
            (tiles.transpose)([m, n], from.ptr, from.cols, to, stride);
        } else {
            copy_each([m, n], from, to, stride);
        }
    }
}

/// As [`copy`], element by element.
///
/// # Safety
///
/// As for [`copy`], on any CPU.
pub(crate) unsafe fn copy_each<T: Copy>(
    [m, n]: [usize; 2],
    from: MatrixPtr<T>,
    to: *mut T,
    stride: usize,
) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: `i < m` and `j < n`; the caller guarantees that these elements are valid.
            unsafe { *to.add(i * stride + j) = *from.element(i, j) };
        }
    }
}

/// Copies `k` by `n` elements into panels of `width` columns, one after another, each `k` rows of
/// `width`.
///
/// The last panel may be narrower: its width is the rest rounded up to whole vectors.
///
/// # Safety
///
/// As for [`copy`].
pub(crate) unsafe fn panels<T: TileElement>(
    tiles: &Tiles<T>,
    [k, n]: [usize; 2],
    from: MatrixPtr<T>,
    to: *mut T,
    width: usize,
) {
    let n_whole = n / width;
    // SAFETY: the panels together have `k` by `n` elements, which the caller guarantees to be
    // valid.
    unsafe {
        if from.cols == 1 {
            (tiles.panels)([k, n_whole], from.ptr, from.rows, to);
        } else {
            for j in 0..n_whole {
                copy(
                    tiles,
                    [k, width],
                    from.from(0, j * width),
                    to.add(j * width * k),
                    width,
                );
            }
        }
        let rest = n - n_whole * width;
        if rest > 0 {
            let narrow = rest.next_multiple_of(tiles.lanes);
            copy(
                tiles,
                [k, rest],
                from.from(0, n_whole * width),
                to.add(n_whole * width * k),
                narrow,
            );
        }
    }
}
