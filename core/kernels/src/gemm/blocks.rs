//! Division of a product into parts for threads, each computed [in blocks](super::part).
//!
//! The division does not change the bits.

use crate::gemm::pack::MatrixPtr;
use crate::gemm::part::part;
use crate::gemm::tile::{TileElement, Tiles};
use crate::threads;
use std::ops::Range;

/// Result of a product, or a part of it.
#[derive(Clone, Copy)]
pub(crate) struct OutputPtr<T> {
    pub(crate) ptr: *mut T,
    /// Distance between rows. Columns are contiguous.
    pub(crate) stride: usize,
}

// SAFETY: this is an address. The code that writes through it guarantees that no two threads write
// the same elements.
unsafe impl<T: Send> Sync for OutputPtr<T> {}

impl<T> OutputPtr<T> {
    pub(crate) fn element(&self, i: usize, j: usize) -> *mut T {
        self.ptr.wrapping_add(i * self.stride + j)
    }

    pub(crate) fn from(&self, i: usize, j: usize) -> OutputPtr<T> {
        OutputPtr {
            ptr: self.element(i, j),
            stride: self.stride,
        }
    }
}

/// Function that runs on elements of the result once they are final, while they are in a cache.
pub(crate) struct Epilogue<'a, T> {
    /// Called once for each final element. The calls of one thread go from the first row to the
    /// last.
    pub(crate) each: &'a (dyn Fn(FinalBlock<T>) + Sync),
    /// If not 1, threads share whole rows, in multiples of this.
    pub(crate) align: usize,
    /// True if calls must cover whole rows.
    pub(crate) whole: bool,
    /// True if the elements may be stored apart from the result, which is not written then.
    pub(crate) apart: bool,
    /// Estimated time of all calls on one thread.
    pub(crate) nanos: usize,
}

/// Final rows and columns of a result.
pub(crate) struct FinalBlock<T> {
    /// First element of the whole result.
    pub(crate) result: *mut T,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    /// First of the final elements, and the distance between their rows.
    pub(crate) first: *mut T,
    pub(crate) stride: usize,
}

/// An epilogue with the position in the result where a part of a product begins.
#[derive(Clone, Copy)]
pub(crate) struct Finish<'a, T> {
    pub(crate) epilogue: &'a Epilogue<'a, T>,
    pub(crate) result: OutputPtr<T>,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<T: Copy> Finish<'_, T> {
    /// Returns the epilogue of the part that begins at row `i` and column `j` of this one.
    pub(crate) fn from(self, i: usize, j: usize) -> Self {
        Finish {
            row: self.row + i,
            column: self.column + j,
            ..self
        }
    }

    /// Calls the epilogue with final rows and columns of the part. They are in the result, or
    /// contiguous at `own`.
    pub(crate) fn call(self, rows: Range<usize>, columns: Range<usize>, own: Option<*mut T>) {
        let after = |by: usize, range: Range<usize>| by + range.start..by + range.end;
        let n_columns = columns.len();
        let (rows, columns) = (after(self.row, rows), after(self.column, columns));
        let (first, stride) = match own {
            Some(first) => (first, n_columns),
            None => (
                self.result.element(rows.start, columns.start),
                self.result.stride,
            ),
        };
        (self.epilogue.each)(FinalBlock {
            result: self.result.ptr,
            rows,
            columns,
            first,
            stride,
        });
    }

    /// Returns whether threads must share whole rows.
    fn by_rows(self) -> bool {
        self.epilogue.whole || self.epilogue.align > 1
    }
}

/// Number of rows up to which a right operand that fits in a cache is read in place.
///
/// With so few rows, a copy does not pay off.
pub(crate) const FEW_ROWS: usize = 256;
/// Minimum number of panels of columns per call of an epilogue, unless the result has fewer.
const FEW_PANELS: usize = 16;

/// Computes `c = a b`, or `c += a b` if `add`. None of `m`, `k` and `n` is 0.
///
/// # Safety
///
/// The CPU must have the tiles. The elements of `a` and `b` must be valid for reads and those of
/// `c` for writes. The elements of `c` must be distinct and must not overlap `a` or `b`. If there
/// is a `finish`, the rows of `c` must be `n` apart.
pub(crate) unsafe fn product<T: TileElement>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    add: bool,
    finish: Option<Finish<'_, T>>,
) {
    if n == 1 && m > 1 && c.stride == 1 {
        // A column is computed as a row of the transposed product, because the tiles are fast for
        // rows.
        // SAFETY: the same elements as the caller's; the stride of `c` is 1, so its column is one
        // contiguous row.
        unsafe {
            product(
                tiles,
                [1, k, m],
                b.transposed(),
                a.transposed(),
                c,
                add,
                None,
            )
        };
        return finish.into_iter().for_each(|f| f.call(0..m, 0..1, None));
    }
    let more = finish.map_or(0, |f| f.epilogue.nanos);
    let nanos = nanos(tiles, [m, k, n]).saturating_add(more);
    let n_threads = threads::worth(nanos);
    if n_threads < 2 {
        // SAFETY: the caller guarantees the requirements of `part`, which are the same.
        return unsafe { part(tiles, [m, k, n], a, b, c, add, finish) };
    }
    // Parts by columns share no copies. Parts by rows finish longer pieces, and sums in an epilogue
    // allow only them.
    let width = 2 * tiles.lanes;
    let by_rows = n < 2 * n_threads * width
        || finish.is_some_and(|f| {
            m >= 64 * n_threads && (f.by_rows() || n < FEW_PANELS * n_threads * width)
        });
    let align = finish.map_or(1, |f| f.epilogue.align);
    if by_rows {
        let unit = tiles.rows.div_ceil(align) * align;
        let rows = unit * share(m.div_ceil(unit), n_threads, (2 * tiles.rows).div_ceil(unit));
        threads::for_each(m.div_ceil(rows), nanos, |i| {
            let i = i * rows;
            let m = rows.min(m - i);
            let finish = finish.map(|f| f.from(i, 0));
            // SAFETY: the part lies inside the product, which the caller guarantees to be valid. No
            // two parts share a row of `c`.
            unsafe { part(tiles, [m, k, n], a.from(i, 0), b, c.from(i, 0), add, finish) };
        });
    } else {
        let now = finish.filter(|f| !f.by_rows());
        let least = match (now, m > FEW_ROWS) {
            (Some(_), _) => FEW_PANELS,
            (None, true) => 4,
            (None, false) => 1,
        };
        let columns = width * share(n.div_ceil(width), n_threads, least);
        threads::for_each(n.div_ceil(columns), nanos, |j| {
            let j = j * columns;
            let n = columns.min(n - j);
            let finish = now.map(|f| f.from(0, j));
            // SAFETY: the part lies inside the product, which the caller guarantees to be valid. No
            // two parts share a column of `c`.
            unsafe { part(tiles, [m, k, n], a, b.from(0, j), c.from(0, j), add, finish) };
        });
        if let (Some(finish), None) = (finish, now) {
            let rows = m.div_ceil(n_threads).next_multiple_of(align);
            threads::for_each(m.div_ceil(rows), more, |i| {
                finish.call(i * rows..m.min((i + 1) * rows), 0..n, None);
            });
        }
    }
}

/// Returns the part size with which `n_threads` finish `n` units soonest, with up to four parts per
/// thread.
///
/// With several parts per thread, others can take over from a thread that loses its core. No part
/// is smaller than `least`, except the last.
fn share(n: usize, n_threads: usize, least: usize) -> usize {
    let most = n.div_ceil(n_threads);
    let sizes = least.max(n.div_ceil(4 * n_threads)).min(most)..=most;
    let rounds = |size: usize| n.div_ceil(size).div_ceil(n_threads) * size;
    sizes.min_by_key(|size| rounds(*size)).unwrap_or(most)
}

/// Returns the estimated time of a product on one thread.
pub(crate) fn nanos<T>(tiles: &Tiles<T>, [m, k, n]: [usize; 3]) -> usize {
    m.saturating_mul(k).saturating_mul(n) / (tiles.rate / 1000)
}
