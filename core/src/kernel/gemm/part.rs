//! A part of a product, on one thread: by blocks that stay in a cache, and tiles that stay in registers.
//!
//! No cut changes a bit. The one that would, that of the inner dimension, is made from its length alone: an element of the
//! result is the sum, in order, of what the tiles give for each of `k / K_BLOCK` equal stretches of `k`.

use super::ahead::{Columns, Rows};
use super::blocks::{FEW_ROWS, Finish, Out};
use super::pack::{At, copy, panels, with_room};
use super::tile::{Tiled, Tiles};

/// The most steps of a chain of multiply-adds; a panel of two vectors of as many rows fits a first-level cache.
const K_BLOCK: usize = 256;
/// The bytes of a row of a packed block of the right operand: with [`K_BLOCK`] rows, half of a second-level cache.
const ROW_BYTES: usize = 2048;
/// The bytes of an operand that a second-level cache has as a whole.
const CACHED: usize = 1 << 20;
/// The bytes of a result that an epilogue gets at a time: they stay in a cache, and the pieces are long.
const FINAL_BYTES: usize = 32 << 10;

/// [`product`](super::blocks::product) on one thread.
///
/// # Safety
///
/// As there.
pub(super) unsafe fn part<T: Tiled>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: At<T>,
    b: At<T>,
    c: Out<T>,
    add: bool,
    finish: Option<Finish<'_, T>>,
) {
    let way = Way::new(tiles, [m, k, n], a, b, add, finish);
    let early = finish.filter(|_| way.finish_early);
    with_room::<T, _>(way.room_b + way.room_a + way.room_c, |room| {
        for j in (0..n).step_by(way.n_block) {
            for p in (0..k).step_by(way.k_block) {
                let k_here = way.k_block.min(k - p);
                let block = Block {
                    tiles,
                    way: &way,
                    size: [m, k_here, way.n_block.min(n - j)],
                    a: a.from(0, p),
                    b: b.from(p, j),
                    c: c.from(0, j),
                    add: add || p > 0,
                    room,
                };
                let last = early.filter(|_| p + k_here == k);
                // SAFETY: a block of the part, and there is room for what its way copies.
                unsafe {
                    match way.pack_b {
                        true => block.packed(last.map(|f| f.from(0, j))),
                        false => block.in_place(),
                    }
                }
            }
        }
    });
    if early.is_none() {
        finish.into_iter().for_each(|f| f.call(0..m, 0..n, None));
    }
}

/// What is copied of the operands of a part, and by how much at a time.
struct Way {
    /// The rows and columns of a block of the right operand.
    k_block: usize,
    n_block: usize,
    /// The columns of a tile.
    width: usize,
    /// Whether the elements of the columns of the left operand lie side by side, and those of its rows do not.
    by_column: bool,
    /// Whether tiles read copies of the operands.
    pack_a: bool,
    pack_b: bool,
    /// Whether rows of the left operand are asked for before they are read.
    ask: bool,
    /// What lies between copied rows of the left operand.
    a_row: usize,
    /// Whether an epilogue gets elements while they are in a cache, and whether these lie apart from the result.
    finish_early: bool,
    apart: bool,
    /// The fewest elements that it gets, except for the last.
    enough: usize,
    /// The room for copies of both operands, and for elements apart from the result.
    room_a: usize,
    room_b: usize,
    room_c: usize,
}

impl Way {
    fn new<T: Tiled>(
        tiles: &Tiles<T>,
        [m, k, n]: [usize; 3],
        a: At<T>,
        b: At<T>,
        add: bool,
        finish: Option<Finish<'_, T>>,
    ) -> Way {
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
        let pack_a = pack_b && (spread || !lines_up);
        // Rows that the hardware does not foresee.
        let ask = a.cols == 1
            && a.rows * size_of::<T>() >= 4096
            && m * k * size_of::<T>() > CACHED
            && n_block >= 4 * width;
        // Copied rows start at different places of a cache.
        let a_row = k_block + 64 / size_of::<T>();
        let room_a = match (pack_a, by_column) {
            (false, _) => 0,
            (true, false) => a_row * tiles.rows,
            // The tiles read one copy while the next is made.
            (true, true) => 2 * a_row * tiles.rows,
        };
        let room_b = match pack_b {
            true => k_block * n_block.next_multiple_of(width),
            false => 0,
        };
        let early = finish.filter(|f| pack_b && (n_block == n || !f.epilogue.whole));
        let enough = FINAL_BYTES / size_of::<T>();
        let apart = early.is_some_and(|f| f.epilogue.apart) && k == k_block && !add;
        let room_c = match apart {
            true => (enough + tiles.rows * n_block).min(m * n_block),
            false => 0,
        };
        Way {
            k_block,
            n_block,
            width,
            by_column,
            pack_a,
            pack_b,
            ask,
            a_row,
            finish_early: early.is_some(),
            apart,
            enough,
            room_a,
            room_b,
            room_c,
        }
    }
}

/// All rows of a part, some steps of the inner dimension, and some columns.
struct Block<'a, T: 'static> {
    tiles: &'a Tiles<T>,
    way: &'a Way,
    size: [usize; 3],
    a: At<T>,
    b: At<T>,
    c: Out<T>,
    add: bool,
    /// A copy of the right operand, then of rows of the left one, then elements apart from the result.
    room: *mut T,
}

/// Rows of the left operand as a tile reads them: the first element, and what lies between rows, or columns.
type Left<T> = (*const T, usize);

impl<T: Tiled> Block<'_, T> {
    /// Reads the right operand where it lies. What is read of it stays in a cache while the rows go by.
    ///
    /// # Safety
    ///
    /// The CPU has the tiles; the operands may be read, and the result written.
    #[inline]
    unsafe fn in_place(&self) {
        let [m, _, n] = self.size;
        let mut j = 0;
        while j < n {
            let mut w = 0;
            for (i, rows) in heights(m, self.tiles.rows) {
                // SAFETY: what the caller vouches for.
                w = unsafe { self.tile(self.left(i), (i, rows), j, self.c) };
            }
            j += w;
        }
    }

    /// Copies the right operand first, or while the first tiles read it.
    ///
    /// # Safety
    ///
    /// As [`Block::in_place`], and there is the room that the way takes.
    #[inline]
    unsafe fn packed(&self, finish: Option<Finish<'_, T>>) {
        let (tiles, way) = (self.tiles, self.way);
        let [m, k, n] = self.size;
        let a_copy = self.room.wrapping_add(way.room_b);
        let mut a_copies = [a_copy, a_copy.wrapping_add(way.room_a / 2)];
        let rows_apart = a_copy.wrapping_add(way.room_a);
        // What the first tiles do not copy while they read it is copied before.
        let n_early =
            match self.b.cols == 1 && heights(m, tiles.rows).next() == Some((0, tiles.rows)) {
                true => n / way.width * way.width,
                false => 0,
            };
        // SAFETY: of the block, and there is room for it.
        unsafe {
            self.pack_columns_from(n_early);
            self.columns(0, a_copies[0], 1).copy();
        }
        let mut ready = 0;
        for (i, rows) in heights(m, tiles.rows) {
            let left = match (way.pack_a, way.by_column) {
                (false, _) => self.left(i),
                (true, true) => (a_copies[0].cast_const(), tiles.rows),
                (true, false) => {
                    // SAFETY: as above.
                    unsafe { copy(tiles, [rows, k], self.a.from(i, 0), a_copy, way.a_row) };
                    (a_copy.cast_const(), way.a_row)
                }
            };
            let to = match way.apart {
                true => Out {
                    ptr: rows_apart.wrapping_sub(ready * n),
                    stride: n,
                },
                false => self.c,
            };
            let (end, n_tiles) = (i + rows, n.div_ceil(way.width));
            let below = if way.ask { tiles.rows.min(m - end) } else { 0 };
            let mut asked = Rows::new([below, k], self.a.from(end, 0), n_tiles);
            let mut copied = self.columns(end, a_copies[1], n_tiles);
            let mut ahead = || {
                asked.ask();
                // SAFETY: of the block, and there is room for it.
                unsafe { copied.copy() };
            };
            let mut j = 0;
            if i == 0 {
                while j < n_early {
                    ahead();
                    // SAFETY: as above; the tile has all rows and columns.
                    unsafe { self.packing_tile(left, j, to) };
                    j += way.width;
                }
            }
            while j < n {
                ahead();
                // SAFETY: as above.
                j += unsafe { self.tile(left, (i, rows), j, to) };
            }
            a_copies.swap(0, 1);
            if let Some(finish) = finish
                && (end == m || (end - ready) * n >= way.enough)
            {
                finish.call(ready..end, 0..n, way.apart.then_some(rows_apart));
                ready = end;
            }
        }
    }

    /// Computes a tile of so many rows from row `i` and column `j` on, and says how many columns it has.
    ///
    /// # Safety
    ///
    /// The CPU has the tiles; the operands or their copies may be read, and the result written.
    #[inline]
    unsafe fn tile(
        &self,
        (left, stride): Left<T>,
        (i, rows): (usize, usize),
        j: usize,
        to: Out<T>,
    ) -> usize {
        let (tiles, [_, k, n]) = (self.tiles, self.size);
        let w = match n - j >= self.way.width {
            true => self.way.width,
            false => (n - j).min(2 * tiles.lanes),
        };
        let vectors = w.div_ceil(tiles.lanes);
        let (right, b_stride) = match self.way.pack_b {
            true => (
                self.room.wrapping_add(j * k).cast_const(),
                vectors * tiles.lanes,
            ),
            false => (self.b.element(0, j), self.b.rows),
        };
        let last = w - (vectors - 1) * tiles.lanes;
        let z = to.element(i, j);
        let tile = tiles.tile(self.way.by_column, rows, vectors);
        // SAFETY: a tile within the block; the operands or their copies have its rows and columns.
        unsafe {
            tile(
                k, left, stride, right, b_stride, z, to.stride, last, self.add,
            )
        };
        w
    }

    /// Computes the tile of the first rows from column `j` on, and copies what it reads of the right operand.
    ///
    /// # Safety
    ///
    /// As [`Block::packed`], and the tile has all rows and columns.
    #[inline]
    unsafe fn packing_tile(&self, (left, stride): Left<T>, j: usize, to: Out<T>) {
        let k = self.size[1];
        let panel = self.room.wrapping_add(j * k);
        let (right, z) = (self.b.element(0, j), to.element(0, j));
        let tile = self.tiles.packing(self.way.by_column);
        // SAFETY: what the caller vouches for.
        unsafe {
            tile(
                k,
                left,
                stride,
                right,
                self.b.rows,
                z,
                to.stride,
                panel,
                self.add,
            )
        };
    }

    /// Copies the right operand from a column on.
    ///
    /// # Safety
    ///
    /// As [`Block::packed`].
    #[inline]
    unsafe fn pack_columns_from(&self, first: usize) {
        let [_, k, n] = self.size;
        if first < n {
            let to = self.room.wrapping_add(first * k);
            // SAFETY: what the caller vouches for.
            unsafe {
                panels(
                    self.tiles,
                    [k, n - first],
                    self.b.from(0, first),
                    to,
                    self.way.width,
                )
            };
        }
    }

    /// The columns that the tiles read from row `i` on, if they are copied.
    #[inline]
    fn columns(&self, i: usize, to: *mut T, n_steps: usize) -> Columns<'_, T> {
        let [m, k, _] = self.size;
        let rows = match i < m && self.way.pack_a && self.way.by_column {
            true => self.tiles.rows.min(m - i),
            false => 0,
        };
        let k = if rows > 0 { k } else { 0 };
        Columns {
            tiles: self.tiles,
            from: self.a.from(i, 0),
            to,
            rows,
            whole: rows == self.tiles.rows,
            k,
            step: k.div_ceil(n_steps),
        }
    }

    /// The rows from `i` on where they lie.
    #[inline]
    fn left(&self, i: usize) -> Left<T> {
        let stride = match self.way.by_column {
            true => self.a.cols,
            false => self.a.rows,
        };
        (self.a.element(i, 0), stride)
    }
}

/// The first row and the number of rows of each tile of `m` rows, all about equal, none above `max`.
fn heights(m: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let n = m.div_ceil(max);
    let (rows, more) = (m / n, m % n);
    (0..n).map(move |t| (t * rows + t.min(more), rows + usize::from(t < more)))
}
