//! How a product is cut into parts for threads, and a part into blocks that stay in a cache.
//!
//! No cut changes a bit. The one that would, that of the inner dimension, is made from its length alone: an element of the
//! result is the sum, in order, of what the tiles give for each of `k / K_BLOCK` equal stretches of `k`.

use super::ahead::{Columns, Rows};
use super::pack::{At, copy, panels, with_room};
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

/// The most steps of a chain of multiply-adds; a panel of two vectors of as many rows fits a first-level cache.
const K_BLOCK: usize = 256;
/// The bytes of a row of a packed block of the right operand: with [`K_BLOCK`] rows, half of a second-level cache.
const ROW_BYTES: usize = 2048;
/// Up to so many rows, the right operand is read where it lies if it is in a cache: it is not read often enough to be worth
/// a copy.
const FEW_ROWS: usize = 256;
/// The bytes of an operand that a second-level cache has as a whole.
const CACHED: usize = 1 << 20;
/// The bytes of a result that an epilogue gets at a time: they stay in a cache, and the pieces are long.
const FINAL_BYTES: usize = 32 << 10;
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

/// [`product`] on one thread.
///
/// # Safety
///
/// As there.
unsafe fn part<T: Tiled>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: At<T>,
    b: At<T>,
    c: Out<T>,
    add: bool,
    finish: Option<Finish<'_, T>>,
) {
    let k_block = k.div_ceil(k.div_ceil(K_BLOCK));
    let lines_up = a.cols == 1 || a.rows == 1;
    let by_column = a.cols != 1 && a.rows == 1;
    // Rows that are multiples of a page apart compete for the same places in a cache.
    let compete = (b.rows * size_of::<T>()).is_multiple_of(4096);
    let few =
        m <= 2 * tiles.rows || (m <= FEW_ROWS && !compete && k * n * size_of::<T>() <= CACHED);
    let pack_b = !(few && lines_up && (b.cols == 1 || n == 1));
    let width = match m <= tiles.wide_rows && !pack_b {
        true => 4 * tiles.lanes,
        false => 2 * tiles.lanes,
    };
    let n_block = match pack_b {
        true => n.min(ROW_BYTES / size_of::<T>()),
        false => n,
    };
    // A tile reads less than a cache line of a column, so columns that are far apart are better copied. So are elements
    // that do not lie side by side.
    let spread = by_column && a.cols * size_of::<T>() >= 1024 && n_block >= 4 * width;
    let copy_a = pack_b && (spread || !lines_up);
    // Rows that the hardware does not foresee.
    let ask = a.cols == 1
        && a.rows * size_of::<T>() >= 4096
        && m * k * size_of::<T>() > CACHED
        && n_block >= 4 * width;
    // Copied rows start at different places of a cache.
    let a_row = k_block + 64 / size_of::<T>();
    let room_a = match (copy_a, by_column) {
        (false, _) => 0,
        (true, false) => a_row * tiles.rows,
        // The tiles read one copy while the next is made.
        (true, true) => 2 * a_row * tiles.rows,
    };
    let room_b = match pack_b {
        true => k_block * n_block.next_multiple_of(width),
        false => 0,
    };
    let finish_early = finish.filter(|f| pack_b && (n_block == n || !f.epilogue.whole));
    // The fewest elements that are handed over, except for the last.
    let enough = FINAL_BYTES / size_of::<T>();
    let apart = finish_early.is_some_and(|f| f.epilogue.apart) && k == k_block && !add;
    let room_c = match apart {
        true => (enough + tiles.rows * n_block).min(m * n_block),
        false => 0,
    };
    with_room::<T, _>(room_a + room_b + room_c, |room| {
        let (b_copy, a_copy) = (room, room.wrapping_add(room_b));
        let mut a_copies = [a_copy, a_copy.wrapping_add(room_a / 2)];
        let rows_apart = room.wrapping_add(room_b + room_a);
        for j in (0..n).step_by(n_block) {
            let n_here = n_block.min(n - j);
            for p in (0..k).step_by(k_block) {
                let k_here = k_block.min(k - p);
                let add = add || p > 0;
                let tile = |(left, stride), (i, rows): (usize, usize), jj: usize, to: Out<T>| {
                    let wide = n_here - jj >= width;
                    let w = if wide {
                        width
                    } else {
                        (n_here - jj).min(2 * tiles.lanes)
                    };
                    let vectors = w.div_ceil(tiles.lanes);
                    let (right, b_stride) = match pack_b {
                        true => (
                            b_copy.wrapping_add(jj * k_here).cast_const(),
                            vectors * tiles.lanes,
                        ),
                        false => (b.element(p, j + jj), b.rows),
                    };
                    let last = w - (vectors - 1) * tiles.lanes;
                    let z = to.element(i, jj);
                    let tile = tiles.tile(by_column, rows, vectors);
                    // SAFETY: a tile within the block; the operands or their copies have its rows and columns.
                    unsafe {
                        tile(
                            k_here, left, stride, right, b_stride, z, to.stride, last, add,
                        )
                    };
                    w
                };
                let there = |i| (a.element(i, p), if by_column { a.cols } else { a.rows });
                if !pack_b {
                    // What is read of the right operand stays in a cache while the rows go by.
                    let mut jj = 0;
                    while jj < n_here {
                        let mut w = 0;
                        for (i, rows) in heights(m, tiles.rows) {
                            w = tile(there(i), (i, rows), jj, c.from(0, j));
                        }
                        jj += w;
                    }
                    continue;
                }
                // What the first tiles do not copy while they read it is copied before.
                let n_early =
                    match b.cols == 1 && heights(m, tiles.rows).next() == Some((0, tiles.rows)) {
                        true => n_here / width * width,
                        false => 0,
                    };
                if n_early < n_here {
                    let early = n_early * k_here;
                    // SAFETY: of the block, and there is room for it.
                    unsafe {
                        panels(
                            tiles,
                            [k_here, n_here - n_early],
                            b.from(p, j + n_early),
                            b_copy.wrapping_add(early),
                            width,
                        );
                    }
                }
                // The columns of the tiles from row `i` on.
                let columns = |i: usize, to: *mut T, n_steps: usize| {
                    let rows = match i < m && copy_a && by_column {
                        true => tiles.rows.min(m - i),
                        false => 0,
                    };
                    let k = if rows > 0 { k_here } else { 0 };
                    Columns {
                        tiles,
                        from: a.from(i, p),
                        to,
                        rows,
                        whole: rows == tiles.rows,
                        k,
                        step: k.div_ceil(n_steps),
                    }
                };
                // SAFETY: of the block, and there is room for it.
                unsafe { columns(0, a_copies[0], 1).copy() };
                let mut ready = 0;
                for (i, rows) in heights(m, tiles.rows) {
                    let left = match (copy_a, by_column) {
                        (false, _) => there(i),
                        (true, true) => (a_copies[0].cast_const(), tiles.rows),
                        (true, false) => {
                            // SAFETY: as above.
                            unsafe { copy(tiles, [rows, k_here], a.from(i, p), a_copy, a_row) };
                            (a_copy.cast_const(), a_row)
                        }
                    };
                    let to = match apart {
                        true => Out {
                            ptr: rows_apart.wrapping_sub(ready * n_here),
                            stride: n_here,
                        },
                        false => c.from(0, j),
                    };
                    let (end, n_tiles) = (i + rows, n_here.div_ceil(width));
                    let below = tiles.rows.min(m - end);
                    let mut asked = Rows::new(
                        [if ask { below } else { 0 }, k_here],
                        a.from(end, p),
                        n_tiles,
                    );
                    let mut copied = columns(end, a_copies[1], n_tiles);
                    let mut ahead = || {
                        asked.ask();
                        // SAFETY: of the block, and there is room for it.
                        unsafe { copied.copy() };
                    };
                    let mut jj = 0;
                    if i == 0 {
                        for at in (0..n_early).step_by(width) {
                            let (panel, right) =
                                (b_copy.wrapping_add(at * k_here), b.element(p, j + at));
                            let ((left, stride), z) = (left, to.element(0, at));
                            ahead();
                            // SAFETY: as above.
                            unsafe {
                                (tiles.packing(by_column))(
                                    k_here, left, stride, right, b.rows, z, to.stride, panel, add,
                                );
                            }
                        }
                        jj = n_early;
                    }
                    while jj < n_here {
                        ahead();
                        jj += tile(left, (i, rows), jj, to);
                    }
                    a_copies.swap(0, 1);
                    if let Some(finish) = finish_early
                        && p + k_here == k
                        && (end == m || (end - ready) * n_here >= enough)
                    {
                        finish.call(ready..end, j..j + n_here, apart.then_some(rows_apart));
                        ready = end;
                    }
                }
            }
        }
    });
    if finish_early.is_none() {
        finish.into_iter().for_each(|f| f.call(0..m, 0..n, None));
    }
}

/// The first row and the number of rows of each tile of `m` rows, all about equal, none above `max`.
fn heights(m: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let n = m.div_ceil(max);
    let (rows, more) = (m / n, m % n);
    (0..n).map(move |t| (t * rows + t.min(more), rows + usize::from(t < more)))
}
