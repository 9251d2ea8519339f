//! Reductions of the elements of a layout, of which a part is copied at a time.

use super::operation::{Max, Min, Product, Reduction, Sum};
use super::{BYTES_PER_NANO, Fold, fold};
use crate::memory::layout::Layout;
use crate::memory::scratch::{Plain, with_scratch};
use crate::movement::copy;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use gradloom_ir::DType;

/// Reduces the middle axis of the elements of a layout: `[a, r, b]` to `[a, b]`.
///
/// The kernel copies a part of the elements at a time, which stays in the cache, and folds it as
/// [`fold_axis`](super::fold_axis) does. Returns `None` if the parts would be too large or too thin.
pub fn fold_view(dtype: DType, layout: &Layout, arb: [usize; 3], by: Fold) -> Option<Prepared> {
    fn typed<T: Number + Plain>(parts: ViewParts, by: Fold) -> Prepared {
        match by {
            Fold::Sum => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Sum)),
            Fold::Max => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Max)),
            Fold::Min => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Min)),
            Fold::Product => map(move |xs: &[T], out: &mut [T]| parts.fold(xs, out, Product)),
        }
    }
    let parts = ViewParts::new(layout, arb, dtype.size())?;
    Some(on_number!(dtype, typed(parts, by)))
}

/// Size of the part of a view that is copied at a time, in bytes.
const PART_BYTES: usize = 1 << 17;

/// Number of indices of a part from which it has whole cache lines of an operand with other axes innermost.
const PART_LEN: usize = 16;

/// A view of `[a, r, b]`, divided along its first kept axis.
struct ViewParts {
    arb: [usize; 3],
    /// Length of the axis, and its stride in the operand.
    axis: (usize, usize),
    /// Number of indices of a part, and the copy of one.
    part: (usize, copy::Copy),
    /// The same for the last part.
    last: (usize, copy::Copy),
}

impl ViewParts {
    fn new(layout: &Layout, arb: [usize; 3], size: usize) -> Option<ViewParts> {
        let [a, r, b] = arb;
        if a * b <= 1 || layout.numel() == 0 {
            return None;
        }
        // Without axes before the reduced ones, the first kept axis comes after them.
        let mut before = 1;
        let axis = layout.shape.iter().position(|&len| {
            let is_kept = len > 1 && (a > 1 || before == r);
            before *= len;
            is_kept
        })?;
        let len = layout.shape[axis];
        let most = PART_BYTES / (layout.numel() / len * size);
        let mut n = if most >= len {
            len
        } else {
            most / PART_LEN * PART_LEN
        };
        // One column would be folded as a row, in another order.
        while n > 1 && len % n == 1 {
            n -= 1;
        }
        if n < PART_LEN.min(len) - 1 || n == 0 {
            return None;
        }
        let part = |n| (n, copy::Copy::new(&layout.narrow(axis, 0, n, 1), size));
        Some(ViewParts {
            arb,
            axis: (len, layout.strides[axis]),
            part: part(n),
            last: part(len - (len - 1) / n * n),
        })
    }

    fn fold<T: Number + Plain>(&self, xs: &[T], out: &mut [T], how: impl Reduction<T>) {
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
                fold(part, arb, out, how);
            });
        });
    }
}
