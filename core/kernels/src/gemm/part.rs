//! A part of a product on one thread: in blocks that fit in a cache, and tiles that fit in
//! registers.
//!
//! The division does not change the bits. Only that of the inner dimension could, and it depends on
//! `k` alone: an element of the result is the sum, in order, of the tiles' results for each of `k /
//! K_BLOCK` equal stretches of `k`.

use crate::gemm::blocks::{FEW_ROWS, Finish, OutputPtr};
use crate::gemm::outer::outer;
use crate::gemm::pack::{MatrixPtr, copy, panels, with_room};
use crate::gemm::prefetch::{Columns, PrefetchRows};
use crate::gemm::tile::{TileElement, Tiles};

/// Maximum length of a chain of multiply-adds. A panel of two vectors with as many rows fits in the
/// L1 cache.
const K_BLOCK: usize = 256;
/// Bytes of a row of a packed block of the right operand: with [`K_BLOCK`] rows, half of an L2
/// cache.
const ROW_BYTES: usize = 2048;
/// Bytes of an operand that stays in the L2 cache as a whole.
const CACHED: usize = 1 << 20;
/// Bytes of a result that an epilogue gets at a time: small enough to be in a cache still.
const FINAL_BYTES: usize = 32 << 10;

/// Computes [`product`](super::blocks::product) on one thread.
///
/// # Safety
///
/// As for [`product`](super::blocks::product).
pub(crate) unsafe fn part<T: TileElement>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    add: bool,
    finish: Option<Finish<'_, T>>,
) {
    if k == 1 && b.cols == 1 && finish.is_none() {
        // SAFETY: the same elements as the caller's. Those of `b` are contiguous.
        return unsafe { outer([m, n], a, b, c, add) };
    }
    let way = Blocking::new(tiles, [m, k, n], a, b, add, finish);
    let early = finish.filter(|_| way.finish_early);
    with_room::<T, _>(way.room_b + way.room_a + way.room_c, |scratch| {
        for j in (0..n).step_by(way.n_block) {
            for p in (0..k).step_by(way.k_block) {
                let k_here = way.k_block.min(k - p);
                let block = PartBlock {
                    tiles,
                    way: &way,
                    size: [m, k_here, way.n_block.min(n - j)],
                    a: a.from(0, p),
                    b: b.from(p, j),
                    c: c.from(0, j),
                    add: add || p > 0,
                    scratch,
                };
                let last = early.filter(|_| p + k_here == k);
                // SAFETY: the block lies inside the part, which the caller guarantees to be valid.
                // `scratch` has the space that `way` asks for.
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

/// Blocking of a part: which operands are copied, and block sizes.
struct Blocking {
    /// Number of rows and of columns of a block of the right operand.
    k_block: usize,
    n_block: usize,
    /// Number of columns of a tile.
    width: usize,
    /// True if the columns of the left operand are contiguous and its rows are not.
    by_column: bool,
    /// True if tiles read a copy of the left operand (`pack_a`) or of the right one (`pack_b`).
    pack_a: bool,
    pack_b: bool,
    /// True if rows of the left operand are prefetched.
    ask: bool,
    /// Distance between copied rows of the left operand.
    a_row: usize,
    /// True if an epilogue gets elements while they are in a cache.
    ///
    /// `apart` is true if these elements are not stored in the result.
    finish_early: bool,
    apart: bool,
    /// Minimum number of elements that an epilogue gets, except for the last.
    enough: usize,
    /// Sizes of the scratch in elements: for copies of both operands, and for elements apart from
    /// the result.
    room_a: usize,
    room_b: usize,
    room_c: usize,
}

impl Blocking {
    fn new<T: TileElement>(
        tiles: &Tiles<T>,
        [m, k, n]: [usize; 3],
        a: MatrixPtr<T>,
        b: MatrixPtr<T>,
        add: bool,
        finish: Option<Finish<'_, T>>,
    ) -> Blocking {
        let k_block = k.div_ceil(k.div_ceil(K_BLOCK));
        let lines_up = a.cols == 1 || a.rows == 1;
        let by_column = a.cols != 1 && a.rows == 1;
        // Rows whose distance is a multiple of a page map to the same cache sets.
        let compete = |x: MatrixPtr<T>| (x.rows * size_of::<T>()).is_multiple_of(4096);
        let few = m <= 2 * tiles.rows
            || (m <= FEW_ROWS && !compete(b) && k * n * size_of::<T>() <= CACHED);
        let pack_b = !(few && lines_up && (b.cols == 1 || n == 1));
        let width = match m <= tiles.wide_rows && !pack_b {
            true => 4 * tiles.lanes,
            false => 2 * tiles.lanes,
        };
        let n_block = match pack_b {
            true => n.min(ROW_BYTES / size_of::<T>()),
            false => n,
        };
        // Columns that are far apart are copied, because a tile reads less than a cache line of a
        // column. So are rows that compete, and elements without contiguous rows or columns.
        let spread = match by_column {
            true => a.cols * size_of::<T>() >= 1024,
            // One set of the L1 cache, of 8 or 12 lines, has to hold those of all rows of a tile, up to 12.
            false => a.rows > 0 && compete(a),
        };
        let pack_a = pack_b && (spread && n_block >= 4 * width || !lines_up);
        // The hardware does not predict rows that are at least a page apart.
        let ask = a.cols == 1
            && a.rows * size_of::<T>() >= 4096
            && m * k * size_of::<T>() > CACHED
            && n_block >= 4 * width;
        // The padding maps copied rows to different cache sets.
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
        Blocking {
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

/// Block of a part: all its rows, `k` steps of the inner dimension, and some columns.
struct PartBlock<'a, T: 'static> {
    tiles: &'a Tiles<T>,
    way: &'a Blocking,
    size: [usize; 3],
    a: MatrixPtr<T>,
    b: MatrixPtr<T>,
    c: OutputPtr<T>,
    add: bool,
    /// Scratch: the copy of the right operand, then that of rows of the left one, then elements
    /// apart from the result.
    scratch: *mut T,
}

/// Rows of the left operand as a tile reads them: the address, and the distance between rows or
/// columns.
type LeftRows<T> = (*const T, usize);

impl<T: TileElement> PartBlock<'_, T> {
    /// Reads the right operand in place. The columns of a tile stay in a cache while all rows use
    /// them.
    ///
    /// # Safety
    ///
    /// The CPU must have the tiles. The operands must be valid for reads and the result for writes.
    #[inline]
    unsafe fn in_place(&self) {
        let [m, _, n] = self.size;
        let mut j = 0;
        while j < n {
            let mut w = 0;
            for (i, rows) in heights(m, self.tiles.rows) {
                // SAFETY: the tile lies inside the block, which the caller guarantees to be valid.
                w = unsafe { self.tile(self.left(i), (i, rows), j, self.c) };
            }
            j += w;
        }
    }

    /// Computes with a packed right operand, which is copied before the first tiles or by them.
    ///
    /// # Safety
    ///
    /// As for [`PartBlock::in_place`], and `scratch` must have the space that the `Blocking` asks for.
    #[inline]
    unsafe fn packed(&self, finish: Option<Finish<'_, T>>) {
        let (tiles, way) = (self.tiles, self.way);
        let [m, k, n] = self.size;
        let a_copy = self.scratch.wrapping_add(way.room_b);
        let mut a_copies = [a_copy, a_copy.wrapping_add(way.room_a / 2)];
        let rows_apart = a_copy.wrapping_add(way.room_a);
        // The columns that the first row of tiles does not pack are packed first.
        let n_early =
            match self.b.cols == 1 && heights(m, tiles.rows).next() == Some((0, tiles.rows)) {
                true => n / way.width * way.width,
                false => 0,
            };
        // SAFETY: the caller guarantees that the block is valid and the scratch large enough. These
        // columns and rows lie inside the block.
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
                    // SAFETY: the rows lie inside the block, and `a_copy` has space for `rows` rows
                    // of `a_row` elements.
                    unsafe { copy(tiles, [rows, k], self.a.from(i, 0), a_copy, way.a_row) };
                    (a_copy.cast_const(), way.a_row)
                }
            };
            let to = match way.apart {
                true => OutputPtr {
                    ptr: rows_apart.wrapping_sub(ready * n),
                    stride: n,
                },
                false => self.c,
            };
            let (end, n_tiles) = (i + rows, n.div_ceil(way.width));
            let below = if way.ask { tiles.rows.min(m - end) } else { 0 };
            let mut asked = PrefetchRows::new([below, k], self.a.from(end, 0), n_tiles);
            let mut copied = self.columns(end, a_copies[1], n_tiles);
            let mut ahead = || {
                asked.ask();
                // SAFETY: the rows lie inside the block, and the copy has space for them.
                unsafe { copied.copy() };
            };
            let mut j = 0;
            if i == 0 {
                while j < n_early {
                    ahead();
                    // SAFETY: the caller guarantees that the block is valid. The tile has all rows
                    // and `width` columns, because `j` is below `n_early`.
                    unsafe { self.packing_tile(left, j, to) };
                    j += way.width;
                }
            }
            while j < n {
                ahead();
                // SAFETY: the tile lies inside the block, whose copies are complete.
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

    /// Computes the tile of `rows` rows at row `i` and column `j`, and returns its number of
    /// columns.
    ///
    /// # Safety
    ///
    /// The CPU must have the tiles. The operands or their copies must be valid for reads, and the
    /// result for writes.
    #[inline]
    unsafe fn tile(
        &self,
        (left, stride): LeftRows<T>,
        (i, rows): (usize, usize),
        j: usize,
        to: OutputPtr<T>,
    ) -> usize {
        let (tiles, [_, k, n]) = (self.tiles, self.size);
        let w = match n - j >= self.way.width {
            true => self.way.width,
            false => (n - j).min(2 * tiles.lanes),
        };
        let vectors = w.div_ceil(tiles.lanes);
        let (right, b_stride) = match self.way.pack_b {
            true => (
                self.scratch.wrapping_add(j * k).cast_const(),
                vectors * tiles.lanes,
            ),
            false => (self.b.element(0, j), self.b.rows),
        };
        let last = w - (vectors - 1) * tiles.lanes;
        let z = to.element(i, j);
        let tile = tiles.tile(self.way.by_column, rows, vectors);
        // SAFETY: the tile lies inside the block, and the operands or their copies cover its rows
        // and columns.
        unsafe {
            tile(
                k, left, stride, right, b_stride, z, to.stride, last, self.add,
            )
        };
        w
    }

    /// Computes the tile of the first rows at column `j` and packs the columns of the right operand
    /// that it reads.
    ///
    /// # Safety
    ///
    /// As for [`PartBlock::packed`], and the tile must have all rows and columns.
    #[inline]
    unsafe fn packing_tile(&self, (left, stride): LeftRows<T>, j: usize, to: OutputPtr<T>) {
        let k = self.size[1];
        let panel = self.scratch.wrapping_add(j * k);
        let (right, z) = (self.b.element(0, j), to.element(0, j));
        let tile = self.tiles.packing(self.way.by_column);
        // SAFETY: the caller guarantees that the block is valid and that the tile has all rows and
        // columns. The panel lies inside the scratch.
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

    /// Packs the right operand from a column on.
    ///
    /// # Safety
    ///
    /// As for [`PartBlock::packed`].
    #[inline]
    unsafe fn pack_columns_from(&self, first: usize) {
        let [_, k, n] = self.size;
        if first < n {
            let to = self.scratch.wrapping_add(first * k);
            // SAFETY: the caller guarantees that the block is valid, and that the scratch has space
            // for all of its columns.
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

    /// Returns the columns that the tiles at row `i` read, if they are copied; else none.
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

    /// Returns the rows from `i` on, in place.
    #[inline]
    fn left(&self, i: usize) -> LeftRows<T> {
        let stride = match self.way.by_column {
            true => self.a.cols,
            false => self.a.rows,
        };
        (self.a.element(i, 0), stride)
    }
}

/// Returns the first row and the number of rows of each tile of `m` rows: about equal, at most
/// `max`.
fn heights(m: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let n = m.div_ceil(max);
    let (rows, more) = (m / n, m % n);
    (0..n).map(move |t| (t * rows + t.min(more), rows + usize::from(t < more)))
}
