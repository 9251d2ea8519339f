//! Walks over the elements of a group by tiles, for operands whose axes change places.
//!
//! - The *rows* of such an operand are the axis that is dense in it. It is not the last axis of the
//!   group, so reading the operand in the order of the group uses one element of each cache line.
//! - A *tile* is a part of the rows with a part of the axes inside of them. It has whole cache lines
//!   of each of these operands, which are copied to scratch in the order of the group.
//!
//! The group then reads the scratch, row by row of the tile, while it is in the cache.

use crate::elementwise::group::Source;
use crate::elementwise::tile::{CHUNK, FusedSum, Order, TASK, gcd, lcm};
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::data::{Data, on_bytes};
use crate::memory::layout::Layout;
use crate::memory::scratch::{Scratch, with_lines};
use crate::movement::copy::Copy;
use crate::movement::jumps;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::ops::Range;

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Largest size in bytes of the scratch of a tile.
///
/// The lines of the operands and of the results that the tile touches take several times as much, and
/// have to stay in the L2 cache until the next tile. Larger tiles were slower than copies.
const TILE_BYTES: usize = 1 << 16;

/// Number of cache lines from which rows are divided if the columns are divided, too.
///
/// Lines at the ends of a part are read twice, and a copy reads short rows as a whole.
const LONG_ROWS: usize = 4;

/// Axis that tiles divide.
#[derive(Clone, Copy, Debug)]
struct Division {
    len: usize,
    /// Number of indices of a tile. The last tile may have fewer.
    part: usize,
    /// Distance between indices in the group.
    stride: usize,
}

impl Division {
    fn n_parts(self) -> usize {
        self.len.div_ceil(self.part)
    }

    /// Returns the first index of a part and its number of indices.
    fn part(self, i: usize) -> (usize, usize) {
        let first = i * self.part;
        (first, self.part.min(self.len - first))
    }
}

/// Operand that is copied tile by tile.
struct TiledOperand {
    operand: usize,
    /// First line of its scratch.
    line: usize,
    /// Lengths and strides of its axes.
    axes: Box<[(usize, usize)]>,
    /// Copies of a tile, for the first and for the last part of the rows, each for the first and for
    /// the last part of the columns.
    copies: [[Copy; 2]; 2],
}

/// Tile of a group.
struct Tile {
    /// Index of its first element in the group.
    first: usize,
    n_rows: usize,
    /// Number of elements of a row, which are contiguous in the group.
    n_cols: usize,
    /// 1 for the last part of the rows, and of the columns, and 0 for other parts.
    last: [usize; 2],
}

/// Division of a group into tiles. It depends on shapes alone.
pub(crate) struct Walk {
    /// Number of elements of the group.
    n: usize,
    rows: Division,
    /// An axis inside of the rows.
    cols: Division,
    operands: Box<[TiledOperand]>,
    /// Number of lines of scratch.
    n_lines: usize,
    /// Number of tiles of a task for one thread.
    pub(crate) task: usize,
}

/// Axis that tiles divide, with the number of its indices in a tile.
type Part = (usize, usize);

/// Choice of tiles for some operands.
struct Choice {
    /// The operands with their layouts, whose axes are merged.
    operands: Vec<(usize, Layout)>,
    rows: Part,
    /// The axes inside of this one belong to each tile as a whole.
    cols: Part,
}

impl Choice {
    /// Chooses tiles for as many of the operands of a group as possible.
    fn new(inputs: &[(DType, Source)], order: Order) -> Option<Choice> {
        let repeats = |x: &Layout| {
            x.shape
                .iter()
                .zip(&x.strides)
                .any(|(n, s)| *n > 1 && *s == 0)
        };
        let views = inputs.iter().map(|(_, source)| source.view());
        let views: SmallVec<[Option<&Layout>; 8]> = views.collect();
        let jumping = |i: &usize| views[*i].is_some_and(|x| jumps(inputs[*i].0, x) && !repeats(x));
        let mut chosen: Vec<usize> = (0..inputs.len()).filter(jumping).collect();
        while !chosen.is_empty() {
            let size = |i: &usize| inputs[*i].0.size();
            let bytes = chosen.iter().map(size).sum();
            let line = chosen.iter().map(|i| LINE / size(i)).max()?;
            let layouts = merge(chosen.iter().flat_map(|i| views[*i]));
            let [rows, cols] = parts(&layouts[0], bytes, line, order)?;
            let n_chosen = chosen.len();
            let operands: Vec<(usize, Layout)> = chosen.iter().copied().zip(layouts).collect();
            let choice = Choice {
                operands,
                rows,
                cols,
            };
            let has_lines = |(i, layout): &&(usize, Layout)| {
                let tile = choice.tile(layout, [rows.1, cols.1]);
                dense(&tile, size(i)) == dense(layout, size(i))
            };
            chosen = choice
                .operands
                .iter()
                .filter(has_lines)
                .map(|x| x.0)
                .collect();
            if chosen.len() == n_chosen {
                return Some(choice);
            }
        }
        None
    }

    /// Returns the layout of a tile with parts of these lengths.
    fn tile(&self, layout: &Layout, [n_rows, n_cols]: [usize; 2]) -> Layout {
        let len = |axis: usize| match axis {
            _ if axis == self.rows.0 => n_rows,
            _ if axis == self.cols.0 => n_cols,
            _ if axis > self.cols.0 => layout.shape[axis],
            _ => 1,
        };
        let axes = 0..layout.shape.len();
        axes.fold(layout.clone(), |tile, axis| {
            tile.narrow(axis, 0, len(axis), 1)
        })
    }
}

/// Returns the operands that a group should not read as they are, but as copies without repeated elements.
///
/// - Some have axes that change places, and tiles with whole cache lines of all of them would be too large or not suit
///   the sums of the group, or they repeat elements and their copies are smaller.
/// - Some gather the same few elements again and again.
pub fn copied(inputs: &[(DType, Source)], sums: &[FusedSum]) -> Vec<usize> {
    let choice = Choice::new(inputs, Order::of(sums.iter().copied()));
    let tiled = |i: usize| {
        let mut operands = choice.iter().flat_map(|choice| &choice.operands);
        operands.any(|x| x.0 == i)
    };
    let is_copied = |i: &usize| {
        let Some(layout) = inputs[*i].1.view() else {
            return false;
        };
        let jumps = jumps(inputs[*i].0, layout) && !tiled(*i);
        jumps || gathers_again(layout)
    };
    (0..inputs.len()).filter(is_copied).collect()
}

/// Number of elements of a group for which a copy is not worth a task.
const SMALL: usize = 1024;

/// Number of times that elements are gathered from which a copy is faster.
const AGAIN: usize = 8;

/// Number of neighbouring elements from which reading them where they are is as fast as reading a copy.
const LONG_RUN: usize = 64;

/// Returns whether the layout goes many times through the same elements, which have gaps between short runs.
///
/// So it is with a column of a matrix that is combined with each element of another one.
fn gathers_again(layout: &Layout) -> bool {
    if layout.numel() < SMALL || layout.is_contiguous() {
        return false;
    }
    let runs = layout.runs();
    let repeated = runs.iter().take_while(|(_, stride)| *stride == 0);
    let times: usize = repeated.map(|(len, _)| len).product();
    let several = || runs.iter().filter(|(_, stride)| *stride != 0).count() > 1;
    let has_gaps = match runs.last() {
        None | Some((_, 0)) => false,
        Some((len, 1)) => *len < LONG_RUN && several(),
        Some(_) => true,
    };
    times >= AGAIN && has_gaps
}

/// Merges neighbouring axes of layouts of one shape where that is possible in all of them.
fn merge<'a>(layouts: impl Iterator<Item = &'a Layout> + Clone) -> Vec<Layout> {
    let empty = |layout: &Layout| Layout {
        offset: layout.offset,
        shape: SmallVec::new(),
        strides: SmallVec::new(),
    };
    let mut merged: Vec<Layout> = layouts.clone().map(empty).collect();
    let shape = layouts
        .clone()
        .next()
        .map_or(&[][..], |layout| &layout.shape);
    for (axis, &len) in shape.iter().enumerate().filter(|(_, len)| **len != 1) {
        let mut both = merged.iter().zip(layouts.clone());
        let spaced = both.all(|(merged, layout)| {
            let outer = merged.strides.last();
            outer.is_some_and(|stride| *stride == len * layout.strides[axis])
        });
        for (merged, layout) in merged.iter_mut().zip(layouts.clone()) {
            let stride = layout.strides[axis];
            match (merged.shape.last_mut(), merged.strides.last_mut()) {
                (Some(outer), Some(of_outer)) if spaced => {
                    (*outer, *of_outer) = (*outer * len, stride)
                }
                _ => {
                    merged.shape.push(len);
                    merged.strides.push(stride);
                }
            }
        }
    }
    merged
}

/// Returns the number of consecutive elements in memory, up to a cache line.
fn dense(layout: &Layout, size: usize) -> usize {
    let mut n = 1;
    let next = |n: usize| {
        let mut axes = layout.shape.iter().zip(&layout.strides);
        axes.find(|(len, stride)| **stride == n && **len > 1)
    };
    while n * size < LINE
        && let Some((len, _)) = next(n)
    {
        n *= len;
    }
    n.min(LINE / size)
}

/// Chooses the parts of rows and columns of tiles for an operand with this layout.
///
/// `bytes` is the size of an element of all operands together, and `line` the number of rows from which
/// they have whole cache lines.
fn parts(layout: &Layout, bytes: usize, line: usize, order: Order) -> Option<[Part; 2]> {
    let shape = &layout.shape;
    let last = shape.len() - 1;
    // The last axis may be a short unit that is dense, too.
    let strides = layout.strides[..last].iter().enumerate();
    let rows = strides.min_by_key(|(_, stride)| **stride)?.0;
    let inside: usize = shape[rows + 1..].iter().product();
    let rows_of = |n_cols: usize, unit: usize| (TILE_BYTES / bytes / n_cols / unit).max(1) * unit;
    let whole = (rows + 1, shape[rows + 1]);
    let grain = match order {
        Order::Any => 0,
        Order::Whole(grain) => grain,
        Order::Rows { .. } => 1,
    };
    if grain > 0 {
        // The elements of a tile are contiguous, and a multiple of what the sums need.
        let unit = lcm(line, grain / gcd(grain, inside));
        let n = rows_of(inside, unit).min(shape[rows]);
        let outer: usize = shape[..rows].iter().product();
        let ends = outer == 1 || (shape[rows] * inside).is_multiple_of(grain);
        let fits = n * inside * bytes <= TILE_BYTES;
        return (ends && fits).then_some([(rows, n), whole]);
    }
    let (mut axis, mut n_cols) = (last, 1);
    while axis > rows && n_cols * shape[axis] <= CHUNK {
        n_cols *= shape[axis];
        axis -= 1;
    }
    let cols = match axis > rows {
        true => (axis, CHUNK / n_cols),
        false => whole,
    };
    if axis > rows {
        if shape[rows] < LONG_ROWS * line {
            return None;
        }
        n_cols *= cols.1;
    }
    let n = rows_of(n_cols, line).min(shape[rows]);
    let fits = n * n_cols * bytes <= TILE_BYTES;
    fits.then_some([(rows, n), cols])
}

impl Walk {
    /// Returns the walk over a group of `n` elements, if it reads an operand by tiles.
    pub(crate) fn new(n: usize, inputs: &[(DType, Source)], order: Order) -> Option<Walk> {
        let choice = Choice::new(inputs, order)?;
        let (rows, cols) = (choice.rows, choice.cols);
        let shape = choice.operands[0].1.shape.clone();
        let division = |(axis, part): Part| Division {
            len: shape[axis],
            part,
            stride: shape[axis + 1..].iter().product(),
        };
        let mut n_lines = 0;
        let operand = |(operand, layout): &(usize, Layout)| {
            let dtype = inputs[*operand].0;
            let line = n_lines;
            n_lines += (rows.1 * cols.1 * division(cols).stride * dtype.size()).div_ceil(LINE);
            let copy = |row: usize, col: usize| {
                let n = |part: Part, last: usize| match last {
                    0 => part.1,
                    _ => (shape[part.0] - 1) % part.1 + 1,
                };
                Copy::new(
                    &choice.tile(layout, [n(rows, row), n(cols, col)]),
                    dtype.size(),
                )
            };
            TiledOperand {
                operand: *operand,
                line,
                axes: layout
                    .shape
                    .iter()
                    .copied()
                    .zip(layout.strides.iter().copied())
                    .collect(),
                copies: [[copy(0, 0), copy(0, 1)], [copy(1, 0), copy(1, 1)]],
            }
        };
        let operands = choice.operands.iter().map(operand).collect();
        let mut walk = Walk {
            n,
            rows: division(rows),
            cols: division(cols),
            operands,
            n_lines,
            task: 1,
        };
        let tile = rows.1 * cols.1 * walk.cols.stride;
        walk.task = match order {
            Order::Any => (TASK / tile).max(1),
            Order::Whole(unit) | Order::Rows { block: unit, .. } => {
                // Tasks end at multiples of what the sums need.
                let task = lcm(walk.unit(), unit);
                let task = (TASK / task).max(1) * task;
                walk.number(task)
            }
        };
        Some(walk)
    }

    /// Returns the first byte of the scratch of an operand, if it is read by tiles.
    pub(crate) fn start(&self, operand: usize) -> Option<usize> {
        let mut operands = self.operands.iter();
        operands
            .find(|x| x.operand == operand)
            .map(|x| x.line * LINE)
    }

    /// Returns whether the elements of each tile are contiguous in the group.
    pub(crate) fn is_in_order(&self) -> bool {
        self.cols.part * self.cols.stride == self.rows.stride
    }

    /// Returns the number of elements whose multiples end tiles, if the tiles are in order.
    pub(crate) fn unit(&self) -> usize {
        let Division { len, part, stride } = self.rows;
        match len.is_multiple_of(part) || len * stride == self.n {
            true => part * stride,
            false => len * stride,
        }
    }

    /// Returns the number of tiles before an element that is the first one of a tile, if they are in order.
    pub(crate) fn number(&self, element: usize) -> usize {
        let Division { len, part, stride } = self.rows;
        let outer = element / (len * stride);
        outer * self.rows.n_parts() + (element % (len * stride)).div_ceil(part * stride)
    }

    /// Returns the number of tiles.
    pub(crate) fn n_tiles(&self) -> usize {
        let inside = self.rows.stride / (self.cols.len * self.cols.stride) * self.cols.n_parts();
        self.n / (self.rows.len * self.rows.stride) * inside * self.rows.n_parts()
    }

    /// Returns tile `i`. Consecutive tiles differ in their rows, which share cache lines.
    fn tile(&self, i: usize) -> Tile {
        let (rows, cols) = (self.rows, self.cols);
        let (rest, row) = (i / rows.n_parts(), i % rows.n_parts());
        let (rest, col) = (rest / cols.n_parts(), rest % cols.n_parts());
        let middle = rows.stride / (cols.len * cols.stride);
        let (outer, middle) = (rest / middle, rest % middle);
        let (first_row, n_rows) = rows.part(row);
        let (first_col, n_cols) = cols.part(col);
        Tile {
            first: (outer * rows.len + first_row) * rows.stride
                + (middle * cols.len + first_col) * cols.stride,
            n_rows,
            n_cols: n_cols * cols.stride,
            last: [
                usize::from(row + 1 == rows.n_parts()),
                usize::from(col + 1 == cols.n_parts()),
            ],
        }
    }

    /// Calls `run` with scratch and the spans of some tiles, whose operands are in scratch as long as
    /// the spans of the tile last.
    pub(crate) fn spans<'a>(
        &'a self,
        args: &'a [Data<'a>],
        tiles: Range<usize>,
        run: impl FnOnce(*mut u8, &mut dyn Iterator<Item = Span>),
    ) {
        thread_local! {
            static TILE: Scratch = const { Scratch::new(AlignedVec::new()) };
        }
        with_lines(&TILE, self.n_lines, |lines| {
            let start = lines.as_mut_ptr().cast::<u8>();
            let mut spans = tiles.flat_map(|i| {
                let tile = self.tile(i);
                // SAFETY: `n_lines` lines of initialised scratch belong to this thread.
                unsafe { self.copy(args, &tile, start) };
                tile.spans(self.rows.stride)
            });
            run(start, &mut spans);
        });
    }

    /// Copies a tile of each operand to its scratch.
    ///
    /// # Safety
    ///
    /// `n_lines` initialised lines from `start` on must be free for use.
    unsafe fn copy(&self, args: &[Data<'_>], tile: &Tile, start: *mut u8) {
        for x in &self.operands {
            let (mut from, mut rest) = (0, tile.first);
            for (len, stride) in x.axes.iter().rev() {
                from += rest % len * stride;
                rest /= len;
            }
            let to = start.wrapping_add(x.line * LINE);
            on_bytes!(args[x.operand], xs => {
                // SAFETY: the lines of the operand hold a tile of its elements, which may have any bits.
                let to = unsafe {
                    std::slice::from_raw_parts_mut(to.cast(), tile.n_rows * tile.n_cols)
                };
                x.copies[tile.last[0]][tile.last[1]].run(&xs[from..], to);
            });
        }
    }
}

/// Elements of a group that are contiguous.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Index of the first element in its tile.
    pub(crate) in_tile: usize,
}

impl Span {
    pub(crate) fn new(from: usize, to: usize) -> Span {
        Span {
            from,
            to,
            in_tile: 0,
        }
    }
}

impl Tile {
    /// Returns the rows of the tile, which are `stride` apart in the group.
    fn spans(&self, stride: usize) -> impl Iterator<Item = Span> + use<> {
        let &Tile {
            first,
            n_rows,
            n_cols,
            ..
        } = self;
        let (n, len) = match n_cols == stride {
            true => (1, n_rows * n_cols),
            false => (n_rows, n_cols),
        };
        (0..n).map(move |i| Span {
            from: first + i * stride,
            to: first + i * stride + len,
            in_tile: i * len,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::elementwise::compile::{Run, Step, group};
    use crate::elementwise::group::Source;
    use crate::elementwise::tile::{FusedSum, Matrices};
    use crate::memory::element::Element;
    use crate::memory::{Data, DataMut, Layout};
    use crate::movement::copy::Copy;
    use crate::movement::copy::tests::permutations;
    use crate::threads::set_threads;
    use gradloom_ir::{DType, Op};

    /// Returns `cast(x) + y` of the shape of `layout`, and its sums.
    fn compute(
        x: (DType, Data<'_>, &Layout),
        y: (&[f32], &Layout),
        sums: &[FusedSum],
    ) -> Vec<Vec<f32>> {
        let (dtype, x, layout) = x;
        let n = layout.numel();
        let view = |layout: &Layout| Source::View(layout.clone());
        let inputs = [(dtype, view(layout)), (DType::F32, view(y.1))];
        let step = |run, args: &[usize], out| Step {
            run,
            args: args.iter().copied().collect(),
            outs: [out].into_iter().collect(),
        };
        let steps = [
            step(Run::Op(Op::Cast, dtype, DType::F32), &[0], 2),
            step(Run::Op(Op::Add, DType::F32, DType::F32), &[2, 1], 3),
        ];
        let totals: Vec<_> = sums.iter().map(|sum| (3, DType::F32, *sum)).collect();
        let group = group(n, &inputs, &steps, &[(3, DType::F32)], &totals);
        let lens = [n].into_iter().chain(sums.iter().map(|sum| sum.len(n)));
        let mut outs: Vec<Vec<f32>> = lens.map(|len| vec![9.0; len]).collect();
        let mut to: Vec<_> = outs.iter_mut().map(|out| DataMut::F32(out)).collect();
        group.run(&[x, Data::F32(y.0)], &mut to);
        outs
    }

    fn dense<T: Element>(xs: &[T], layout: &Layout, zero: T) -> Vec<T> {
        let mut out = vec![zero; layout.numel()];
        Copy::new(layout, size_of::<T>()).run(xs, &mut out);
        out
    }

    fn check<T: Element>(data: impl Fn(&[T]) -> Data<'_>, of: impl Fn(usize) -> T) {
        let shapes: [&[usize]; 8] = [
            &[67, 131],
            &[5, 1031],
            &[33, 7, 35],
            &[19, 16, 64],
            &[3, 129, 41],
            &[5, 17, 3, 29],
            &[17, 4, 19, 8],
            &[2, 64, 32, 5],
        ];
        let bits = |all: Vec<Vec<f32>>| -> Vec<Vec<u32>> {
            let bits = |xs: &Vec<f32>| xs.iter().map(|x| x.to_bits()).collect();
            all.iter().map(bits).collect()
        };
        for shape in shapes {
            let whole = Layout::contiguous(shape);
            let n = whole.numel();
            let xs: Vec<T> = (0..n).map(&of).collect();
            let ys: Vec<f32> = (0..n).map(|i| (i * 7919 % 1009) as f32 / 7.0).collect();
            for order in permutations(shape.len()) {
                let x = whole.permute(&order);
                let cols = *x.shape.last().unwrap();
                let rows = n / cols;
                let other = Layout::contiguous(&x.shape);
                let kinds: [&[FusedSum]; 6] = [
                    &[],
                    &[FusedSum::All],
                    &[FusedSum::Rows(cols)],
                    &[FusedSum::Columns(Matrices::one(rows, cols))],
                    &[FusedSum::Columns(Matrices::several(
                        x.shape[1],
                        n / x.shape[0] / x.shape[1],
                    ))],
                    &[FusedSum::All, FusedSum::Rows(cols)],
                ];
                for sums in kinds {
                    let fits = sums
                        .iter()
                        .all(|sum| !matches!(sum, FusedSum::Rows(1025..)));
                    if !fits || !FusedSum::together(sums.iter().copied(), n) {
                        continue;
                    }
                    let copy = dense(&xs, &x, of(0));
                    let want = compute((T::TYPE, data(&copy), &other), (&ys, &other), sums);
                    for n_threads in [1, 2] {
                        set_threads(n_threads);
                        let found = compute((T::TYPE, data(&xs), &x), (&ys, &other), sums);
                        assert!(
                            bits(found) == bits(want.clone()),
                            "{shape:?} in the order {order:?} with {sums:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn transposed_operands_of_each_size_are_read_by_tiles() {
        check(|xs| Data::Bool(xs), |i| i % 3 == 0);
        check(
            |xs| Data::F16(xs),
            |i| half::f16::from_f32((i % 1999) as f32),
        );
        check(|xs| Data::F32(xs), |i| i as f32 / 3.0);
        check(|xs| Data::F64(xs), |i| i as f64 / 3.0);
    }
}
