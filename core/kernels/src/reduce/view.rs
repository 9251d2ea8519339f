//! Reductions of the elements of a layout, in place or a part at a time.

use super::columns::{STRIP, Strip, fold_blocks, fold_more, fold_tall};
use super::operation::{All, Any, Max, Min, Product, Reduction, Sum};
use super::places::{Places, fold_in_place};
use super::rows::{GROUP, fold_long, fold_row, fold_rows};
use super::{BYTES_PER_NANO, BoolFold, Fold, fold, is_tall, results_of_a_task};
use crate::memory::element::Element;
use crate::memory::layout::{Layout, numel};
use crate::memory::scratch::{Plain, with_scratch};
use crate::movement::blocks::Blocks;
use crate::movement::copy;
use crate::movement::gather::Gather;
use crate::simd::lanes::Pairwise;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use gradloom_ir::DType;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;

/// Reduces the middle axis of the elements of a layout: `[a, r, b]` to `[a, b]`.
///
/// The results have the bits of [`fold_axis`](super::fold_axis) on a copy. Returns `None` if a copy would be faster.
pub fn fold_view(dtype: DType, layout: &Layout, arb: [usize; 3], by: Fold) -> Option<Prepared> {
    fn typed<T: Number + Plain>(view: View, by: Fold) -> Prepared {
        match by {
            Fold::Sum => map(move |xs: &[T], out: &mut [T]| view.fold(xs, out, Sum)),
            Fold::Max => map(move |xs: &[T], out: &mut [T]| view.fold(xs, out, Max)),
            Fold::Min => map(move |xs: &[T], out: &mut [T]| view.fold(xs, out, Min)),
            Fold::Product => map(move |xs: &[T], out: &mut [T]| view.fold(xs, out, Product)),
        }
    }
    let view = View::new(layout, arb, dtype.size())?;
    // The lanes of a product are not folded before the end of a row.
    let is_split = matches!(view, View::Direct(Direct::Gathered(_))) && arb[1] > PART;
    if is_split && arb[2] == 1 && by == Fold::Product && dtype.is_float() {
        return None;
    }
    Some(on_number!(dtype, typed(view, by)))
}

/// As [`fold_view`], for bools.
pub fn fold_bools_view(layout: &Layout, arb: [usize; 3], by: BoolFold) -> Option<Prepared> {
    let View::Direct(view) = View::new(layout, arb, 1)? else {
        return None;
    };
    Some(match by {
        BoolFold::Any => map(move |xs: &[bool], out: &mut [bool]| view.fold(xs, out, Any)),
        BoolFold::All => map(move |xs: &[bool], out: &mut [bool]| view.fold(xs, out, All)),
    })
}

/// Number of elements of a part that fits in the L1 cache, a power of 2 of chunks.
pub(super) const PART: usize = 4096;

/// Number of bytes of a cache line. As many contiguous elements are read where they lie.
const LINE: usize = 64;

/// A view of `[a, r, b]`.
pub(super) enum View {
    /// Elements are read in an order near that of memory.
    Direct(Direct),
    /// Axes change places, or contiguous elements are few.
    Parts(Parts),
}

/// A view of `[a, r, b]` that is read in row-major order.
pub(super) enum Direct {
    InPlace(InPlace),
    Gathered(Gathered),
}

impl View {
    pub(super) fn new(layout: &Layout, arb: [usize; 3], size: usize) -> Option<View> {
        if layout.numel() == 0 || layout.is_contiguous() || arb[1] == 1 {
            return None;
        }
        if let Some(view) = InPlace::new(layout, arb, size) {
            return Some(View::Direct(Direct::InPlace(view)));
        }
        let runs = layout.runs();
        let jumps = Blocks::new(&runs, size).is_some();
        let short = (runs.last()).is_some_and(|run| run.1 == 1 && run.0 * size < LINE);
        let parts = (jumps || short).then(|| Parts::new(layout, arb, size));
        match parts.flatten() {
            Some(parts) => return Some(View::Parts(parts)),
            None if jumps => return None,
            None => {}
        }
        Some(View::Direct(Direct::Gathered(Gathered {
            elements: Gather::new(layout),
            arb,
        })))
    }

    fn fold<T: Number + Plain>(&self, xs: &[T], out: &mut [T], how: impl Reduction<T>) {
        match self {
            View::Direct(view) => view.fold(xs, out, how),
            View::Parts(view) => {
                view.for_each(xs, out, |xs, arb, out: &mut [T]| fold(xs, arb, out, how));
            }
        }
    }
}

impl Direct {
    fn fold<T: Element>(&self, xs: &[T], out: &mut [T], how: impl Reduction<T>) {
        match self {
            Direct::InPlace(view) => view.fold(xs, out, how),
            Direct::Gathered(view) => view.fold(xs, out, how),
        }
    }
}

/// A view with contiguous rows, or with rows at one stride that consist of long contiguous pieces.
pub(super) struct InPlace {
    offset: usize,
    pub(super) arb: [usize; 3],
    /// Lengths and strides of the kept axes.
    kept: Box<[(usize, usize)]>,
    /// Stride of the reduced axis.
    stride: usize,
}

impl InPlace {
    fn new(layout: &Layout, arb: [usize; 3], size: usize) -> Option<InPlace> {
        let [a, r, b] = arb;
        let end =
            |n: usize| (0..=layout.shape.len()).find(|axes| numel(&layout.shape[..*axes]) == n);
        let (first, last) = (end(a)?, end(a * r)?);
        let runs = |axes: Range<usize>| {
            let [shape, strides] =
                [&layout.shape, &layout.strides].map(|x| SmallVec::from_slice(&x[axes.clone()]));
            let layout = Layout {
                offset: 0,
                shape,
                strides,
            };
            layout.runs()
        };
        let &[(_, stride)] = &runs(first..last)[..] else {
            return None;
        };
        let (before, after) = (runs(0..first), runs(last..layout.shape.len()));
        let (len, inner) = match b {
            1 => (r, stride),
            _ => *after.last()?,
        };
        (inner == 1 && len * size >= LINE).then(|| InPlace {
            offset: layout.offset,
            arb,
            kept: [before, after].concat().into(),
            stride,
        })
    }

    pub(super) fn places(&self) -> Places<'_> {
        match self.arb[2] {
            1 => Places::Rows(&self.kept),
            _ => Places::Columns(&self.kept, self.stride),
        }
    }

    /// Returns the elements from the first one on.
    pub(super) fn elements<'a, T>(&self, xs: &'a [T]) -> &'a [T] {
        &xs[self.offset..]
    }

    fn fold<T: Element>(&self, xs: &[T], out: &mut [T], how: impl Reduction<T>) {
        let xs = self.elements(xs);
        if is_tall(self.arb) && self.kept.len() == 1 {
            return fold_tall(xs, self.stride, self.arb[1], out, how);
        }
        fold_in_place(xs, self.arb, out, how, self.places());
    }
}

/// A view of which a part is copied at a time. It stays in the L1 cache.
pub(super) struct Gathered {
    elements: Gather,
    pub(super) arb: [usize; 3],
}

impl Gathered {
    fn fold<T: Element>(&self, xs: &[T], out: &mut [T], how: impl Reduction<T>) {
        let [a, r, b] = self.arb;
        if a * b == 1 && r > GROUP {
            out[0] = fold_long(r, how, |row| {
                self.fold_row(xs, row, &mut [T::default(); PART], how)
            });
            return;
        }
        let results = results_of_a_task::<T>(self.arb);
        for_each_chunk(out, results, self.nanos::<T>(), |task, out| {
            let part = &mut Strip([T::default(); PART]).0;
            match b {
                1 => self.fold_rows(xs, task * results, out, part, how),
                _ => self.fold_columns(xs, task * results, out, part, how),
            }
        });
    }

    pub(super) fn nanos<T>(&self) -> usize {
        self.arb.iter().product::<usize>() * size_of::<T>() / BYTES_PER_NANO * 3
    }

    /// Calls `piece` with as many rows as a part holds, and with their results.
    pub(super) fn for_each_rows<T: Element, U>(
        &self,
        xs: &[T],
        start: usize,
        out: &mut [U],
        part: &mut [T],
        mut piece: impl FnMut(&[T], &mut [U]),
    ) {
        let r = self.arb[1];
        let n = PART / r;
        for (i, out) in out.chunks_mut(n).enumerate() {
            let part = &mut part[..out.len() * r];
            self.elements.read(xs, (start + i * n) * r, part);
            piece(part, out);
        }
    }

    /// Calls `piece` with the parts of a row and the index of the first element of each.
    pub(super) fn for_each_part<T: Element>(
        &self,
        xs: &[T],
        row: Range<usize>,
        part: &mut [T],
        mut piece: impl FnMut(usize, &[T]),
    ) {
        for at in row.clone().step_by(PART) {
            let part = &mut part[..PART.min(row.end - at)];
            self.elements.read(xs, at, part);
            piece(at - row.start, part);
        }
    }

    /// Folds the rows of the results from `start` on.
    fn fold_rows<T: Element>(
        &self,
        xs: &[T],
        start: usize,
        out: &mut [T],
        part: &mut [T],
        how: impl Reduction<T>,
    ) {
        let r = self.arb[1];
        if r <= PART {
            return self.for_each_rows(xs, start, out, part, |xs, out| {
                fold_rows(xs, r, r, out, how);
            });
        }
        for (i, y) in out.iter_mut().enumerate() {
            let row = (start + i) * r..(start + i + 1) * r;
            *y = self.fold_row(xs, row, part, how);
        }
    }

    /// Folds one row, or whole subtrees of it.
    fn fold_row<T: Element>(
        &self,
        xs: &[T],
        row: Range<usize>,
        part: &mut [T],
        how: impl Reduction<T>,
    ) -> T {
        let mut tree = Pairwise::new(T::default());
        self.for_each_part(xs, row, part, |_, xs| {
            tree.push(fold_row(xs, how), |x, y| how.pair(x, y));
        });
        tree.finish(|x, y| how.pair(x, y)).unwrap_or_default()
    }

    /// Folds the columns of the results from `start` on.
    fn fold_columns<T: Element>(
        &self,
        xs: &[T],
        mut start: usize,
        mut out: &mut [T],
        part: &mut [T],
        how: impl Reduction<T>,
    ) {
        let [_, r, b] = self.arb;
        let part = RefCell::new(part);
        while !out.is_empty() {
            let (matrix, column) = (start / b, start % b);
            let n = out.len().min(b - column).min(STRIP);
            let (strip, rest) = out.split_at_mut(n);
            let read = |row: usize, out: &mut [T]| {
                self.elements.read(xs, (matrix * r + row) * b + column, out);
            };
            fold_blocks(0, r, strip, how, &|first, rows, out: &mut [T]| {
                read(first, out);
                let mut done = 1;
                while done < rows {
                    let some = (PART / n).min(rows - done);
                    let part = &mut part.borrow_mut()[..some * n];
                    match n == b {
                        true => read(first + done, part),
                        false => (part.chunks_exact_mut(n).enumerate())
                            .for_each(|(i, out)| read(first + done + i, out)),
                    }
                    fold_more(part, out, how);
                    done += some;
                }
            });
            (start, out) = (start + n, rest);
        }
    }
}

/// Size of the part of a view that is copied at a time, in bytes.
const PART_BYTES: usize = 1 << 17;

/// Number of indices of a part from which it has whole cache lines of an operand with other axes innermost.
const PART_LEN: usize = 16;

/// A view of `[a, r, b]`, divided along its first kept axis.
pub(super) struct Parts {
    arb: [usize; 3],
    /// Length of the axis, and its stride in the operand.
    axis: (usize, usize),
    /// Number of indices of a part, and the copy of one.
    part: (usize, copy::Copy),
    /// The same for the last part.
    last: (usize, copy::Copy),
}

impl Parts {
    fn new(layout: &Layout, arb: [usize; 3], size: usize) -> Option<Parts> {
        let [a, r, b] = arb;
        if a * b <= 1 {
            return None;
        }
        // Without axes before the reduced ones, the first kept axis comes after them.
        let mut before = 1;
        let axis = layout.shape.iter().position(|&len| {
            let is_kept = len > 1 && (a > 1 || before == r);
            before *= len;
            is_kept
        })?;
        let (len, stride) = (layout.shape[axis], layout.strides[axis]);
        let least = match stride * size {
            LINE.. if a > 1 => 1,
            _ => PART_LEN,
        };
        let most = PART_BYTES / (layout.numel() / len * size);
        let mut n = if most >= len {
            len
        } else {
            most / least * least
        };
        // One column would be folded as a row, in another order.
        while a == 1 && n > 1 && len % n == 1 {
            n -= 1;
        }
        if n == 0 || n < least.min(len) - 1 {
            return None;
        }
        let part = |n| (n, copy::Copy::new(&layout.narrow(axis, 0, n, 1), size));
        Some(Parts {
            arb,
            axis: (len, layout.strides[axis]),
            part: part(n),
            last: part(len - (len - 1) / n * n),
        })
    }

    /// Calls `reduce` with the elements and the sizes of each part, and with its results.
    pub(super) fn for_each<T: Element + Plain, U: Send>(
        &self,
        xs: &[T],
        out: &mut [U],
        reduce: impl Fn(&[T], [usize; 3], &mut [U]) + Sync,
    ) {
        let [a, r, b] = self.arb;
        let (len, stride) = self.axis;
        let results = a * b / len;
        let nanos = a * r * b * size_of::<T>() / BYTES_PER_NANO * 4;
        for_each_chunk(out, self.part.0 * results, nanos, |i, out| {
            let (n, copy) = match out.len() == self.part.0 * results {
                true => &self.part,
                false => &self.last,
            };
            let arb = if a > 1 {
                [a / len * n, r, b]
            } else {
                [1, r, b / len * n]
            };
            with_scratch([arb.iter().product()], |[part]: [&mut [T]; 1]| {
                copy.run(&xs[i * self.part.0 * stride..], part);
                reduce(part, arb, out);
            });
        });
    }
}
