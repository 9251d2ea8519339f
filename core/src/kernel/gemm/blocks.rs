//! How a product is cut into parts for threads, each of which is computed [by blocks](super::part). No cut changes a bit.

use super::pack::At;
use super::part::part;
use super::tile::{Tiled, Tiles};
use crate::kernel::threads;
use std::ops::Range;

/// The result of a product, or a part of it.
#[derive(Clone, Copy)]
pub(crate) struct Out<T> {
    pub(super) ptr: *mut T,
    /// Between rows. Columns lie side by side.
    pub(super) stride: usize,
}

// SAFETY: it says where elements lie; those that write there vouch that no two threads write the same ones.
unsafe impl<T: Send> Sync for Out<T> {}

impl<T> Out<T> {
    pub(super) fn element(&self, i: usize, j: usize) -> *mut T {
        self.ptr.wrapping_add(i * self.stride + j)
    }

    pub(super) fn from(&self, i: usize, j: usize) -> Out<T> {
        Out {
            ptr: self.element(i, j),
            stride: self.stride,
        }
    }
}

/// What is done to elements of the result when they are final, while they are in a cache.
pub(crate) struct Epilogue<'a, T> {
    /// Each element is final once, and what one thread hands over goes from the first row to the last.
    pub(crate) each: &'a (dyn Fn(Final<T>) + Sync),
    /// If this is not 1, whole rows are shared among threads, in multiples of so many.
    pub(crate) align: usize,
    /// Whether only whole rows are handed over.
    pub(crate) whole: bool,
    /// Whether elements may lie apart from the result, which is not written then.
    pub(crate) apart: bool,
    /// About how long one thread takes for all.
    pub(crate) nanos: usize,
}

/// Rows and columns of a result that are final.
pub(crate) struct Final<T> {
    /// The first element of the result.
    pub(crate) result: *mut T,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    /// The first of the elements, and what lies between their rows.
    pub(crate) first: *mut T,
    pub(crate) stride: usize,
}

/// An epilogue, and where in the result a part of a product begins.
#[derive(Clone, Copy)]
pub(crate) struct Finish<'a, T> {
    pub(super) epilogue: &'a Epilogue<'a, T>,
    pub(super) result: Out<T>,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl<T: Copy> Finish<'_, T> {
    /// For the part that begins at these row and column of this one.
    pub(super) fn from(self, i: usize, j: usize) -> Self {
        Finish {
            row: self.row + i,
            column: self.column + j,
            ..self
        }
    }

    /// Says that these rows and columns of the part are final; they lie in the result or in rows of their own.
    pub(super) fn call(self, rows: Range<usize>, columns: Range<usize>, own: Option<*mut T>) {
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
        (self.epilogue.each)(Final {
            result: self.result.ptr,
            rows,
            columns,
            first,
            stride,
        });
    }

    /// Whether threads share whole rows alone.
    fn by_rows(self) -> bool {
        self.epilogue.whole || self.epilogue.align > 1
    }
}

/// Up to so many rows, the right operand is read where it lies if it is in a cache: it is not read often enough to be worth
/// a copy.
pub(super) const FEW_ROWS: usize = 256;
/// An epilogue gets rows of at least so many panels, if there are more columns.
const FEW_PANELS: usize = 16;

/// `c = a b`, or `c += a b` if `add`; `[m, k]` times `[k, n]`, none of which is 0.
///
/// # Safety
///
/// The CPU has the tiles. All elements of `a` and `b` may be read, those of `c` written, and these are distinct and no
/// elements of `a` or `b`. If there is a `finish`, the rows of `c` are `n` apart.
pub(super) unsafe fn product<T: Tiled>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: At<T>,
    b: At<T>,
    c: Out<T>,
    add: bool,
    finish: Option<Finish<'_, T>>,
) {
    if n == 1 && m > 1 && c.stride == 1 {
        // A column is a row of the transposed product, and rows are what is fast.
        // SAFETY: the same elements, and those of `c` are one row.
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
        // SAFETY: what the caller vouches for.
        return unsafe { part(tiles, [m, k, n], a, b, c, add, finish) };
    }
    // Columns do not share anything that is copied; rows are finished in longer pieces, and are all that sums in an
    // epilogue allow.
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
            // SAFETY: of what the caller vouches for; no two parts have a row of `c` in common.
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
            // SAFETY: of what the caller vouches for; no two parts have a column of `c` in common.
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

/// The size of parts in which `n_threads` finish `n` things soonest, up to four for each thread: a thread may lose its
/// core for a while, and then others take its parts. No part is smaller than `least`, except the last.
fn share(n: usize, n_threads: usize, least: usize) -> usize {
    let most = n.div_ceil(n_threads);
    let sizes = least.max(n.div_ceil(4 * n_threads)).min(most)..=most;
    let rounds = |size: usize| n.div_ceil(size).div_ceil(n_threads) * size;
    sizes.min_by_key(|size| rounds(*size)).unwrap_or(most)
}

/// About how long one thread takes for a product.
pub(super) fn nanos<T>(tiles: &Tiles<T>, [m, k, n]: [usize; 3]) -> usize {
    m.saturating_mul(k).saturating_mul(n) / (tiles.rate / 1000)
}
