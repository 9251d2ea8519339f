//! How a product is cut into parts for threads, and a part into blocks that stay in a cache.
//!
//! No cut changes a bit. The one that would, that of the inner dimension, is made from its length alone: an element of the
//! result is the sum, in order, of what the tiles give for each of `k / K_BLOCK` equal stretches of `k`.

use super::pack::{At, copy, panels, with_room};
use super::tile::{Tiled, Tiles};
use crate::kernel::threads;

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

/// What is done to rows of the result when they are final, while they are in a cache: it is given the number of the
/// first and their elements. The rows lie side by side.
pub(crate) type Finish<'a, T> = &'a (dyn Fn(usize, &mut [T]) + Sync);

/// The most steps of a chain of multiply-adds; a panel of two vectors of as many rows fits a first-level cache.
const K_BLOCK: usize = 256;
/// The bytes of a row of a packed block of the right operand: with [`K_BLOCK`] rows, half of a second-level cache.
const ROW_BYTES: usize = 2048;
/// Up to so many rows, the right operand is read where it lies: it is not read often enough to be worth a copy.
const FEW_ROWS: usize = 256;

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
        return finish_rows(finish, 0, m, c.ptr, 1);
    }
    let nanos = nanos(tiles, [m, k, n]);
    let n_threads = threads::worth(nanos);
    if n_threads < 2 {
        // SAFETY: what the caller vouches for.
        return unsafe { part(tiles, [m, k, n], a, b, c, add, finish) };
    }
    // Columns do not share anything that is copied; rows can be finished by who computes them.
    let width = 2 * tiles.lanes;
    let by_rows = n < 2 * n_threads * width || (finish.is_some() && m >= 64 * n_threads);
    if by_rows {
        let rows = tiles.rows * share(m.div_ceil(tiles.rows), n_threads, 2);
        threads::for_each(m.div_ceil(rows), nanos, |i| {
            let i = i * rows;
            let m = rows.min(m - i);
            let finish = finish.map(|f| move |row: usize, z: &mut [T]| f(i + row, z));
            let finish = finish.as_ref().map(|f| f as Finish<'_, T>);
            // SAFETY: of what the caller vouches for; no two parts have a row of `c` in common.
            unsafe { part(tiles, [m, k, n], a.from(i, 0), b, c.from(i, 0), add, finish) };
        });
    } else {
        let columns = width
            * share(
                n.div_ceil(width),
                n_threads,
                if m > FEW_ROWS { 4 } else { 1 },
            );
        threads::for_each(n.div_ceil(columns), nanos, |j| {
            let j = j * columns;
            let n = columns.min(n - j);
            // SAFETY: of what the caller vouches for; no two parts have a column of `c` in common.
            unsafe { part(tiles, [m, k, n], a, b.from(0, j), c.from(0, j), add, None) };
        });
        finish_rows(finish, 0, m, c.ptr, n);
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

/// Finishes rows that a finished part of a product has left: as many at a time as a first-level cache has.
pub(super) fn finish_rows<T>(
    finish: Option<Finish<'_, T>>,
    from: usize,
    m: usize,
    c: *mut T,
    n: usize,
) {
    let Some(finish) = finish else { return };
    let step = (ROW_BYTES * 8 / size_of::<T>() / n).max(1);
    for i in (from..m).step_by(step) {
        let rows = step.min(m - i);
        // SAFETY: the elements of `c` are the caller's alone to write, and have been written.
        finish(i, unsafe {
            std::slice::from_raw_parts_mut(c.wrapping_add(i * n), rows * n)
        });
    }
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
    let lines_up = a.cols == 1 || a.rows == 1;
    let by_column = a.cols != 1 && a.rows == 1;
    // Rows that are multiples of a page apart compete for the same places in a cache.
    let compete = (b.rows * size_of::<T>()).is_multiple_of(4096);
    let few = m <= 2 * tiles.rows || (m <= FEW_ROWS && !compete);
    let pack_b = !(few && lines_up && (b.cols == 1 || n == 1));
    let width = match m <= tiles.wide_rows && !pack_b {
        true => 4 * tiles.lanes,
        false => 2 * tiles.lanes,
    };
    let k_block = k.div_ceil(k.div_ceil(K_BLOCK));
    let n_block = match pack_b {
        true => n.min(ROW_BYTES / size_of::<T>()),
        false => n,
    };
    // A tile reads less than a cache line of a column, so columns that are far apart are better copied. So are elements
    // that do not lie side by side.
    let spread = by_column && a.cols * size_of::<T>() >= 1024 && n_block >= 4 * width;
    let copy_a = pack_b && (spread || !lines_up);
    // Copied rows start at different places of a cache.
    let a_row = k_block + 64 / size_of::<T>();
    let room_a = if copy_a { a_row * tiles.rows } else { 0 };
    let room_b = match pack_b {
        true => k_block * n_block.next_multiple_of(width),
        false => 0,
    };
    let finish_early = finish.filter(|_| pack_b && n_block == n);
    with_room::<T, _>(room_a + room_b, |room| {
        let (b_copy, a_copy) = (room, room.wrapping_add(room_b));
        for j in (0..n).step_by(n_block) {
            let n_here = n_block.min(n - j);
            for p in (0..k).step_by(k_block) {
                let k_here = k_block.min(k - p);
                let add = add || p > 0;
                let tile = |(left, stride), (i, rows): (usize, usize), jj: usize| {
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
                    let z = c.element(i, j + jj);
                    let tile = tiles.tile(by_column, rows, vectors);
                    // SAFETY: a tile within the block; the operands or their copies have its rows and columns.
                    unsafe {
                        tile(
                            k_here, left, stride, right, b_stride, z, c.stride, last, add,
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
                            w = tile(there(i), (i, rows), jj);
                        }
                        jj += w;
                    }
                    continue;
                }
                // SAFETY: of the block, and there is room for it.
                unsafe { panels(tiles, [k_here, n_here], b.from(p, j), b_copy, width) };
                for (i, rows) in heights(m, tiles.rows) {
                    let left = match (copy_a, by_column) {
                        (false, _) => there(i),
                        (true, true) => {
                            let whole = i + tiles.rows <= m;
                            // SAFETY: as above; `whole` is true where the rows go on so far.
                            unsafe {
                                (tiles.columns)(
                                    [k_here, rows],
                                    whole,
                                    a.element(i, p),
                                    a.cols,
                                    a_copy,
                                )
                            };
                            (a_copy.cast_const(), tiles.rows)
                        }
                        (true, false) => {
                            // SAFETY: as above.
                            unsafe { copy(tiles, [rows, k_here], a.from(i, p), a_copy, a_row) };
                            (a_copy.cast_const(), a_row)
                        }
                    };
                    let mut jj = 0;
                    while jj < n_here {
                        jj += tile(left, (i, rows), jj);
                    }
                    if p + k_here == k {
                        finish_rows(finish_early, i, i + rows, c.ptr, n);
                    }
                }
            }
        }
    });
    if finish_early.is_none() {
        finish_rows(finish, 0, m, c.ptr, n);
    }
}

/// The first row and the number of rows of each tile of `m` rows, all about equal, none above `max`.
fn heights(m: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let n = m.div_ceil(max);
    let (rows, more) = (m / n, m % n);
    (0..n).map(move |t| (t * rows + t.min(more), rows + usize::from(t < more)))
}
