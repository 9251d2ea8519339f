//! Copies of axes that change places.
//!
//! - A *unit* is a run of elements that are contiguous in the operand and in the result, often a single
//!   element.
//! - *Rows* are axes that are dense in the operand, and *columns* are axes that are contiguous in the
//!   result. So a block of rows and columns is made of whole cache lines in both.
//!
//! Units of up to 8 bytes are transposed in registers, a block of as many rows and columns as units fit
//! in a line at a time. Longer units are copied one by one.

use crate::memory::element::Element;
use crate::simd::bytes::{Bytes, LANE, OneLane};
use crate::simd::leveled::leveled;
use crate::simd::vector::{Simd, fence, non_temporal};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Size of a cache line in bytes.
pub(crate) const LINE: usize = 64;

/// Number of rows and of columns of a square. A square is copied before the next one, so that the pages
/// of its rows and columns stay in the TLB.
const SQUARE: usize = 512;

/// As [`SQUARE`], in blocks, if the rows of the result lie in the same sets of the L1 cache.
const DIAGONAL: usize = 16;

/// Multiple of bytes at which rows lie in few sets of the L1 cache.
const SETS: usize = 1024;

/// Multiple of bytes at which rows lie in the same set of the L1 cache.
const ONE_SET: usize = 4096;

/// Number of lines of a row that are written together if rows lie in the same set of the L1 cache.
pub(crate) const WIDE: usize = 4;

/// Number of units along rows and columns of a tile of longer units.
const TILE: usize = 16;

/// Number of columns up to which longer units are copied in the order of the result: the L1 cache
/// holds a line of each column.
const FEW_COLS: usize = 256;

/// Axis with its strides in the operand and in the result, in elements.
#[derive(Clone, Copy, Debug)]
struct Axis {
    len: usize,
    from: usize,
    to: usize,
}

/// A copy, resolved for a layout. The axes are in the order of the result.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Number of elements of a unit.
    unit: usize,
    /// Distance between units along the rows in the operand.
    step: usize,
    rows: SmallVec<[Axis; 2]>,
    cols: SmallVec<[Axis; 2]>,
    outer: SmallVec<[Axis; 4]>,
    /// Number of elements of the operand, from the first to the last one, and of the result.
    spans: [usize; 2],
    /// Number of elements of the result that the copy writes a part of.
    pub(crate) whole: usize,
}

impl Blocks {
    /// Resolves a copy of elements of `size` bytes.
    ///
    /// `runs` are the lengths of the axes of the result and their strides in the operand. Returns `None`
    /// if no axes change places, or if the order of the result is faster.
    pub(crate) fn new(runs: &[(usize, usize)], size: usize) -> Option<Blocks> {
        let mut to = 1;
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        for &(len, from) in runs.iter().rev() {
            axes.push(Axis { len, from, to });
            to *= len;
        }
        axes.reverse();
        let reach = |a: &Axis| a.len.saturating_sub(1) * a.from;
        let spans = [axes.iter().map(reach).sum::<usize>() + 1, to];
        let unit = match axes.last()?.from {
            1 => axes.pop()?.len,
            _ => 1,
        };
        let last = axes.pop()?;
        let dense = axes.iter().enumerate().filter(|(_, a)| a.from > 0);
        let first = dense.min_by_key(|(_, a)| a.from);
        let first = first.filter(|(_, a)| a.from < last.from).map(|(i, _)| i)?;
        let in_registers = (unit * size).is_power_of_two() && unit * size <= 8;
        if !in_registers && (unit * size >= LINE || last.len <= FEW_COLS) {
            return None;
        }
        let row = axes.remove(first);
        let mut blocks = Blocks {
            unit,
            step: row.from,
            rows: SmallVec::from_elem(row, 1),
            cols: SmallVec::from_elem(last, 1),
            outer: axes,
            spans,
            whole: spans[1],
        };
        let block = (LINE / size / unit).max(TILE);
        blocks.widen(block, block);
        if blocks.in_one_set(size) {
            blocks.widen(block, WIDE * block);
        }
        Some(blocks)
    }

    /// Adds outer axes to the rows and columns until there are as many as given.
    fn widen(&mut self, n_rows: usize, n_cols: usize) {
        while numel(&self.cols) < n_cols {
            let to = self.cols[0].len * self.cols[0].to;
            let Some(i) = self.outer.iter().position(|a| a.to == to) else {
                break;
            };
            self.cols.insert(0, self.outer.remove(i));
        }
        while numel(&self.rows) < n_rows {
            let from = self.rows[0].len * self.rows[0].from;
            let Some(i) = self.outer.iter().position(|a| a.from == from) else {
                break;
            };
            self.rows.insert(0, self.outer.remove(i));
        }
    }

    /// Returns whether rows of the result lie in the same set of the L1 cache.
    fn in_one_set(&self, size: usize) -> bool {
        let one_set = |a: &Axis| (a.to * size).is_multiple_of(ONE_SET);
        self.rows.iter().any(one_set)
    }

    /// Writes all of `out`. The first element of the layout is that of `data`.
    pub(crate) fn run<T: Copy>(&self, data: &[T], out: &mut [T]) {
        if out.is_empty() {
            return;
        }
        let size = size_of::<T>();
        // SAFETY: elements have no padding. All bytes that are written are those of elements, each at
        // its place in an element, so they make valid elements.
        let (data, out) = unsafe {
            (
                std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)),
                std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), size_of_val(out)),
            )
        };
        match self.unit * size {
            1 => transposed::<[u8; 1]>(self, size, data, out),
            2 => transposed::<[u8; 2]>(self, size, data, out),
            4 => transposed::<[u8; 4]>(self, size, data, out),
            8 => transposed::<[u8; 8]>(self, size, data, out),
            _ => tiled::<[u8; LANE]>(self, size, data, out),
        }
    }

    /// Returns the start of the operand and of the result, of elements of `size` bytes.
    ///
    /// The offsets of all units are in bounds.
    #[inline(always)]
    fn bounds(&self, size: usize, data: &[u8], out: &mut [u8]) -> Copied {
        assert!(self.spans[0] * size <= data.len() && self.spans[1] * size == out.len());
        let (from, to) = (data.as_ptr_range(), out.as_mut_ptr_range());
        Copied {
            from: from.start,
            from_end: from.end,
            to: to.start,
            to_end: to.end,
        }
    }
}

fn numel(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.len).product()
}

/// Operand and result of a copy, from a unit on.
#[derive(Clone, Copy)]
struct Copied {
    from: *const u8,
    from_end: *const u8,
    to: *mut u8,
    to_end: *mut u8,
}

impl Copied {
    #[inline(always)]
    fn skip(self, from: usize, to: usize) -> Copied {
        Copied {
            from: self.from.wrapping_add(from),
            to: self.to.wrapping_add(to),
            ..self
        }
    }
}

/// Offsets of each index of some axes in the operand and in the result, in elements.
///
/// It is an iterator, because a closure might not be compiled for the level.
struct Offsets<'a> {
    axes: &'a [Axis],
    index: SmallVec<[usize; 4]>,
    next: Option<(usize, usize)>,
}

impl Offsets<'_> {
    fn new(axes: &[Axis]) -> Offsets<'_> {
        Offsets {
            axes,
            index: SmallVec::from_elem(0, axes.len()),
            next: Some((0, 0)),
        }
    }
}

impl Iterator for Offsets<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let current = self.next.take()?;
        let (mut from, mut to) = current;
        for (i, axis) in self.index.iter_mut().zip(self.axes).rev() {
            *i += 1;
            if *i < axis.len {
                self.next = Some((from + axis.from, to + axis.to));
                break;
            }
            *i = 0;
            from -= (axis.len - 1) * axis.from;
            to -= (axis.len - 1) * axis.to;
        }
        Some(current)
    }
}

/// Strides of an axis in the operand or in the result.
#[derive(Clone, Copy)]
enum Side {
    Operand,
    Result,
}

/// Writes the offsets of consecutive indices of `axes` from `first` on, in bytes.
#[inline(always)]
fn offsets(axes: &[Axis], side: Side, size: usize, first: usize, to: &mut [usize]) {
    let stride = |axis: &Axis| match side {
        Side::Operand => axis.from * size,
        Side::Result => axis.to * size,
    };
    if let [axis] = axes {
        let stride = stride(axis);
        for (i, to) in to.iter_mut().enumerate() {
            *to = (first + i) * stride;
        }
        return;
    }
    for (i, to) in to.iter_mut().enumerate() {
        let mut rest = first + i;
        *to = 0;
        for axis in axes.iter().rev() {
            *to += rest % axis.len * stride(axis);
            rest /= axis.len;
        }
    }
}

/// Lines of a block, next to each other.
#[repr(align(64))]
struct Lines([[MaybeUninit<u8>; LINE]; LINE]);

/// Offsets of the lines of a block.
const LINES: [usize; LINE] = multiples(LINE);

/// Rows of a block, each of which is several lines long.
#[repr(align(64))]
struct Rows([MaybeUninit<u8>; LINE * LINE * WIDE]);

/// Offsets of the rows of a block of several lines.
const ROWS: [usize; LINE] = multiples(LINE * WIDE);

const fn multiples(of: usize) -> [usize; LINE] {
    let mut multiples = [0; LINE];
    let mut i = 1;
    while i < LINE {
        multiples[i] = i * of;
        i += 1;
    }
    multiples
}

/// Scratch of a transposition.
struct Scratch {
    /// Offsets of the columns of a square in the operand, in bytes.
    from: [usize; SQUARE],
    /// Offsets of the rows of a square in the result, in bytes.
    to: [usize; SQUARE],
    /// First column and first row whose offsets these are.
    firsts: [Option<usize>; 2],
    lines: Lines,
    turned: Lines,
    rows: Rows,
}

/// Way in which all blocks of a copy are transposed.
#[derive(Clone, Copy)]
struct Way {
    /// Number of rows and of columns.
    n: usize,
    m: usize,
    /// True if the units of a row are contiguous in the operand.
    contiguous: bool,
    /// True if consecutive rows of the result are contiguous.
    ascending: bool,
    /// True if blocks are copied along diagonals, so that consecutive ones use other sets of the cache.
    diagonal: bool,
    stream: bool,
}

impl Way {
    #[inline(always)]
    fn new(blocks: &Blocks, size: usize, to: *mut u8) -> Way {
        let (n, m) = (numel(&blocks.rows), numel(&blocks.cols));
        let unit = blocks.unit * size;
        let lines = |a: &Axis| (a.to * size).is_multiple_of(LINE);
        Way {
            n,
            m,
            contiguous: blocks.step == blocks.unit,
            ascending: matches!(blocks.rows[..], [Axis { to, .. }] if to == m * blocks.unit),
            diagonal: blocks
                .rows
                .iter()
                .any(|a| (a.to * size).is_multiple_of(SETS)),
            stream: non_temporal(blocks.whole * size)
                && to.addr().is_multiple_of(LINE)
                && (m * unit).is_multiple_of(LINE)
                && blocks.rows.iter().chain(&blocks.outer).all(lines),
        }
    }
}

leveled! {
    /// Transposes units of the size of `U`.
    fn transposed<S, U: Copy>(blocks: &Blocks, size: usize, data: &[u8], out: &mut [u8]) {
        let copied = blocks.bounds(size, data, out);
        let way = Way::new(blocks, size, copied.to);
        let mut scratch = Scratch {
            from: [0; SQUARE],
            to: [0; SQUARE],
            firsts: [None; 2],
            rows: Rows([MaybeUninit::uninit(); LINE * LINE * WIDE]),
            // Vectors are also read from parts of these lines that no unit was copied to.
            lines: Lines([[MaybeUninit::new(0); LINE]; LINE]),
            turned: Lines([[MaybeUninit::uninit(); LINE]; LINE]),
        };
        let block = LINE / size_of::<U>();
        let whole = way.contiguous && way.n >= block && way.m >= block;
        let wide = whole
            && way.m >= WIDE * block
            && blocks.in_one_set(size);
        for (from, to) in Offsets::new(&blocks.outer) {
            let at = copied.skip(from * size, to * size);
            // SAFETY: `bounds` checked that all units are in bounds.
            unsafe {
                let scratch = &mut scratch;
                match (whole, wide, way.stream) {
                    (true, true, true) => matrix::<S, U, true, true, WIDE>(blocks, size, way, at, scratch),
                    (true, true, false) => matrix::<S, U, true, false, WIDE>(blocks, size, way, at, scratch),
                    (true, false, true) => matrix::<S, U, true, true, 1>(blocks, size, way, at, scratch),
                    (true, false, false) => matrix::<S, U, true, false, 1>(blocks, size, way, at, scratch),
                    (false, _, _) => matrix::<S, U, false, false, 1>(blocks, size, way, at, scratch),
                }
            }
        }
        if way.stream && whole {
            fence();
        }
    }
}

/// Returns the first index of block `i` of the blocks of an axis.
///
/// The last block overlaps the one before it, if there is one.
#[inline(always)]
fn first_of(i: usize, block: usize, n: usize) -> usize {
    (i * block).min(n.saturating_sub(block))
}

/// Transposes the rows and columns at one index of the outer axes.
///
/// # Safety
///
/// All units must be in bounds. If `WHOLE`, rows and columns must be at least as long as a block, and the
/// units of a row contiguous. If `STREAM`, the lines of the result must be aligned.
#[inline(always)]
unsafe fn matrix<S: Simd, U: Copy, const WHOLE: bool, const STREAM: bool, const WIDTH: usize>(
    blocks: &Blocks,
    size: usize,
    way: Way,
    at: Copied,
    scratch: &mut Scratch,
) {
    let unit = size_of::<U>();
    let (block, width) = (LINE / unit, LINE / unit * WIDTH);
    let (n_rows, n_cols) = (way.n.min(block), way.m.min(width));
    let [down, across] = [way.n.div_ceil(block), way.m.div_ceil(width)];
    let side = if way.diagonal {
        DIAGONAL.min(SQUARE / width)
    } else {
        SQUARE / width
    };
    for j0 in (0..across).step_by(side) {
        let w = side.min(across - j0);
        if scratch.firsts[0].replace(j0) != Some(j0) {
            for j in 0..w {
                let (first, to) = (
                    first_of(j0 + j, width, way.m),
                    &mut scratch.from[j * width..][..width],
                );
                offsets(&blocks.cols, Side::Operand, size, first, &mut to[..n_cols]);
                // The columns after the last one are read, too.
                let last = to[n_cols - 1];
                to[n_cols..].fill(last);
            }
        }
        for i0 in (0..down).step_by(side) {
            let h = side.min(down - i0);
            if scratch.firsts[1].replace(i0) != Some(i0) {
                for i in 0..h {
                    let (first, to) = (
                        first_of(i0 + i, block, way.n),
                        &mut scratch.to[i * block..][..n_rows],
                    );
                    offsets(&blocks.rows, Side::Result, size, first, to);
                }
            }
            for turn in 0..w {
                for i in 0..h {
                    let j = match way.diagonal {
                        true => (turn + i) % w,
                        false => turn,
                    };
                    let row = first_of(i0 + i, block, way.n) * blocks.step * size;
                    let col = first_of(j0 + j, width, way.m) * unit;
                    let at = at.skip(row, col);
                    let from = &scratch.from[j * width..][..width];
                    let to = &scratch.to[i * block..][..n_rows];
                    // SAFETY: the units of the block are in bounds.
                    unsafe {
                        if !WHOLE {
                            let lines = (&mut scratch.lines, &mut scratch.turned);
                            let step = blocks.step * size;
                            match n_rows.min(n_cols) <= LANE / unit || unit <= 2 {
                                true => part::<OneLane, U>(way, step, at, from, to, n_cols, lines),
                                false => {
                                    part::<S::Bytes, U>(way, step, at, from, to, n_cols, lines)
                                }
                            }
                        } else if unit == 1 && !way.diagonal {
                            // Wider vectors would need more than the registers there are.
                            transpose::<OneLane, U, false>(
                                (at.from, from),
                                (at.to, to),
                                [block, width],
                            );
                        } else if WIDTH == 1 {
                            transpose::<S::Bytes, U, STREAM>(
                                (at.from, from),
                                (at.to, to),
                                [block, block],
                            );
                        } else {
                            wide::<S, U, STREAM>((at.from, from), (at.to, to), &mut scratch.rows);
                        }
                    }
                }
            }
        }
    }
}

/// Transposes a block with rows of several lines, and then writes these one after the other.
///
/// The first lines of all rows lie in one set of the L1 cache, which cannot hold them until they arrive.
///
/// # Safety
///
/// As for [`transpose`].
#[inline(always)]
unsafe fn wide<S: Simd, U: Copy, const STREAM: bool>(
    from: (*const u8, &[usize]),
    to: (*mut u8, &[usize]),
    rows: &mut Rows,
) {
    let block = LINE / size_of::<U>();
    let start = rows.0.as_mut_ptr().cast::<u8>();
    // SAFETY: the caller guarantees the lines and the space.
    unsafe {
        for i in 0..WIDE {
            let cols = from.1.get_unchecked(i * block..);
            transpose::<S::Bytes, U, false>(
                (from.0, cols),
                (start.add(i * LINE), &ROWS),
                [block, block],
            );
        }
        for (i, row) in ROWS.iter().enumerate().take(block) {
            let row = start.add(*row);
            for at in (0..LINE * WIDE).step_by(S::Bytes::LANES * LANE) {
                let x = S::Bytes::load_one(row.add(at));
                let to = to.0.add(*to.1.get_unchecked(i) + at);
                match STREAM {
                    true => x.stream(to),
                    false => x.store(to),
                }
            }
        }
    }
}

/// Transposes a block with fewer rows or columns than units in a line, or with rows that are not contiguous.
///
/// # Safety
///
/// The units of `to.len()` rows and `n_cols` columns must be in bounds.
#[inline(always)]
unsafe fn part<V: Bytes, U: Copy>(
    way: Way,
    step: usize,
    at: Copied,
    from: &[usize],
    to: &[usize],
    n_cols: usize,
    (lines, turned): (&mut Lines, &mut Lines),
) {
    let unit = size_of::<U>();
    let (n_rows, row) = (to.len(), n_cols * unit);
    let furthest = from.iter().fold(0, |most, x| most.max(*x));
    let readable = at.from_end.addr() - at.from.addr() >= furthest + LINE;
    // SAFETY: the caller guarantees the units. A line after each first unit is only read if it is in
    // bounds. The rest of a line after a row of the result is written only if it is in bounds and
    // later rows are written there.
    unsafe {
        let mut operand = (at.from, from);
        if !(way.contiguous && readable) {
            for (line, from) in lines.0.iter_mut().zip(&from[..n_cols]) {
                let (from, line) = (at.from.add(*from), line.as_mut_ptr().cast::<u8>());
                if way.contiguous {
                    short(from, line, n_rows * unit);
                } else {
                    for i in 0..n_rows {
                        line.cast::<U>()
                            .add(i)
                            .write(from.add(i * step).cast::<U>().read());
                    }
                }
            }
            operand = (lines.0.as_ptr().cast(), &LINES);
        }
        let last = to[n_rows - 1];
        let spills = way.ascending
            && row <= V::LANES * LANE
            && at.to_end.addr() - at.to.addr() >= last + LINE;
        if row == LINE || spills {
            return transpose::<V, U, false>(operand, (at.to, to), [n_rows, n_cols]);
        }
        let start = turned.0.as_mut_ptr().cast::<u8>();
        transpose::<V, U, false>(operand, (start, &LINES), [n_rows, n_cols]);
        for (line, to) in turned.0.iter().zip(to) {
            short(line.as_ptr().cast(), at.to.add(*to), row);
        }
    }
}

/// Transposes a block, from lines at the offsets of `from` to rows at the offsets of `to`.
///
/// Lines are read up to their end. Rows are written in order, by whole vectors.
///
/// # Safety
///
/// There must be a line at each offset of `from`, which must have a block of offsets, and space for the
/// vectors of each row that is less than `n_rows`.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "iterators take twice the time or more"
)]
unsafe fn transpose<V: Bytes, U, const STREAM: bool>(
    from: (*const u8, &[usize]),
    to: (*mut u8, &[usize]),
    [n_rows, n_cols]: [usize; 2],
) {
    let side = LANE / size_of::<U>();
    let vector = V::LANES * side;
    for p in 0..n_rows.div_ceil(vector) {
        for q in 0..n_cols.div_ceil(vector) {
            // SAFETY: the caller guarantees the lines and the space.
            unsafe {
                let start = from.0.add(p * V::LANES * LANE);
                let lines = from.1.get_unchecked(q * vector..);
                let mut x = [V::load(start, lines, side); LANE];
                for i in 1..side {
                    x[i] = V::load(start, lines.get_unchecked(i..), side);
                }
                for k in 0..V::LANES {
                    let mut y = [x[0][0]; LANE];
                    for i in 0..side {
                        y[i] = x[i][k];
                    }
                    let y = turn::<V, U>(y);
                    for i in 0..side {
                        let row = p * vector + k * side + i;
                        if row >= n_rows {
                            break;
                        }
                        let to =
                            to.0.add(to.1.get_unchecked(row) + q * vector * size_of::<U>());
                        match STREAM {
                            true => y[i].stream(to),
                            false => y[i].store(to),
                        }
                    }
                }
            }
        }
    }
}

/// Transposes the squares in the lanes of the first vectors, as many as units fit in a lane.
///
/// Each step interleaves the first half of the vectors with the second half.
#[inline(always)]
fn turn<V: Bytes, U>(mut x: [V; LANE]) -> [V; LANE] {
    let side = LANE / size_of::<U>();
    let mut n = 1;
    while n < side {
        let y = x;
        for i in 0..side / 2 {
            let (a, b) = (y[i], y[i + side / 2]);
            [x[2 * i], x[2 * i + 1]] = match size_of::<U>() {
                1 => a.interleave::<1>(b),
                2 => a.interleave::<2>(b),
                4 => a.interleave::<4>(b),
                _ => a.interleave::<8>(b),
            };
        }
        n *= 2;
    }
    x
}

/// Lines of `N` elements.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Columns<T, const N: usize, const LEN: usize>(pub(crate) [[T; N]; LEN]);

/// Up to `N` rows whose columns are read and written, where `N` elements fill a line.
pub(crate) struct RowBlock<T, const N: usize> {
    n_rows: usize,
    stride: usize,
    /// Offset of each row in bytes. Rows after the last one repeat it.
    offsets: [usize; N],
    elements: PhantomData<T>,
}

impl<T: Element, const N: usize> RowBlock<T, N> {
    /// Describes `n_rows` rows that are `stride` elements apart.
    #[inline(always)]
    pub(crate) fn new(n_rows: usize, stride: usize) -> RowBlock<T, N> {
        assert!((1..=N).contains(&n_rows) && N * size_of::<T>() == LINE);
        // No offset overflows.
        assert!(stride < usize::MAX / (2 * LINE));
        let mut offsets = [0; N];
        for (row, offset) in offsets.iter_mut().enumerate() {
            *offset = row.min(n_rows - 1) * stride * size_of::<T>();
        }
        RowBlock {
            n_rows,
            stride,
            offsets,
            elements: PhantomData,
        }
    }

    /// Reads the first `N` columns to lines of `to` that are `EVERY` lines apart: 1 or [`WIDE`].
    ///
    /// Elements beyond the end of `xs` are unspecified.
    #[inline(always)]
    pub(crate) fn read<S: Simd, const EVERY: usize>(&self, xs: &[T], to: &mut [[T; N]]) {
        assert!(to.len() > (N - 1) * EVERY);
        let lines = match EVERY {
            1 => &LINES,
            WIDE => &ROWS,
            _ => unreachable!("lines are next to each other or {WIDE} apart"),
        };
        let to = (to.as_mut_ptr().cast::<u8>(), &lines[..]);
        if (self.n_rows - 1) * self.stride + N <= xs.len() {
            let from = (xs.as_ptr().cast::<u8>(), &self.offsets[..]);
            // SAFETY: `N` elements are a line (`new`). There is one at the offset of each row, and there
            // are lines of the result, as asserted.
            return unsafe { transpose::<S::Bytes, T, false>(from, to, [N, N]) };
        }
        let mut lines = Columns::<T, N, N>([[T::default(); N]; N]);
        for (line, offset) in lines.0.iter_mut().zip(&self.offsets) {
            let row = xs.get(offset / size_of::<T>()..).unwrap_or_default();
            let n = row.len().min(N);
            line[..n].copy_from_slice(&row[..n]);
        }
        let from = (lines.0.as_ptr().cast::<u8>(), &LINES[..]);
        // SAFETY: as above.
        unsafe { transpose::<S::Bytes, T, false>(from, to, [N, N]) }
    }

    /// Writes the first `n_cols` columns.
    #[inline(always)]
    pub(crate) fn write<S: Simd>(&self, from: &Columns<T, N, N>, n_cols: usize, out: &mut [T]) {
        assert!(n_cols <= N && (self.n_rows - 1) * self.stride + n_cols <= out.len());
        let from = (from.0.as_ptr().cast::<u8>(), &LINES[..]);
        let to = out.as_mut_ptr().cast::<u8>();
        if n_cols == N {
            let to = (to, &self.offsets[..]);
            // SAFETY: `N` elements are a line (`new`), and there is space for one at the offset of each row,
            // as asserted.
            return unsafe { transpose::<S::Bytes, T, false>(from, to, [self.n_rows, N]) };
        }
        let mut lines = Columns::<T, N, N>([[T::default(); N]; N]);
        let start = lines.0.as_mut_ptr().cast::<u8>();
        // SAFETY: there are `N` lines of `N` elements, and space for `n_cols` elements at the offset of each
        // row, as asserted.
        unsafe {
            transpose::<S::Bytes, T, false>(from, (start, &LINES), [self.n_rows, N]);
            for (line, at) in lines.0.iter().zip(&self.offsets[..self.n_rows]) {
                let bytes = n_cols * size_of::<T>();
                short(line.as_ptr().cast(), to.add(*at), bytes);
            }
        }
    }
}

/// Copies up to a line of bytes with two loads and two stores.
///
/// # Safety
///
/// `n` bytes must be in bounds. The ranges must not overlap.
#[inline(always)]
pub(crate) unsafe fn short(from: *const u8, to: *mut u8, n: usize) {
    /// Copies the first and the last bytes.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller guarantees `n` bytes, at least `N`.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(n - N).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(n - N).cast::<[u8; N]>().write(last);
        }
    }
    // SAFETY: the caller guarantees `n` bytes.
    unsafe {
        match n {
            32.. => ends::<32>(from, to, n),
            16.. => ends::<16>(from, to, n),
            8.. => ends::<8>(from, to, n),
            4.. => ends::<4>(from, to, n),
            2.. => ends::<2>(from, to, n),
            1 => to.write(from.read()),
            0 => {}
        }
    }
}

leveled! {
    /// Copies units of up to a line, a tile at a time. `U` is not used.
    fn tiled<S, U: Copy>(blocks: &Blocks, size: usize, data: &[u8], out: &mut [u8]) {
        let copied = blocks.bounds(size, data, out);
        let (n, m) = (numel(&blocks.rows), numel(&blocks.cols));
        let bytes = blocks.unit * size;
        let (mut from, mut to) = ([0; TILE], [0; TILE]);
        for outer in Offsets::new(&blocks.outer) {
            let at = copied.skip(outer.0 * size, outer.1 * size);
            for i in (0..n).step_by(TILE) {
                let to = &mut to[..TILE.min(n - i)];
                offsets(&blocks.rows, Side::Result, size, i, to);
                for j in (0..m).step_by(TILE) {
                    let from = &mut from[..TILE.min(m - j)];
                    offsets(&blocks.cols, Side::Operand, size, j, from);
                    for (k, to) in to.iter().enumerate() {
                        let at = at.skip((i + k) * blocks.step * size, to + j * bytes);
                        for (l, from) in from.iter().enumerate() {
                            // SAFETY: `bounds` checked that all units are in bounds.
                            unsafe { short(at.from.add(*from), at.to.add(l * bytes), bytes) };
                        }
                    }
                }
            }
        }
    }
}
