//! Reductions over any axes.
//!
//! Neighbouring axes that are all reduced or all kept count as one. One group of reduced axes is folded at a time,
//! the last one first, as the middle axis of `[a, r, b]`. The order of the operations depends on the shape alone,
//! so a strided view gives the same bits as its contiguous copy.

use super::KernelFault;
use super::number::Number;
use crate::buffer::reserve;
use crate::dtype::Element;

/// How many elements of a row are folded in one go, before the results are folded in pairs.
const CHUNK: usize = 1024;

/// How many rows are folded one after the other before the results are folded in pairs.
pub(super) const BLOCK: usize = 32;

/// How many running results a fold along contiguous elements keeps, so that it vectorises.
const LANES: usize = 16;

/// Folds values in pairs of equal weight, as a counter in base 2 carries: the rounding error grows with the
/// logarithm of their number.
struct Pairwise<V> {
    levels: Vec<Option<V>>,
}

impl<V> Pairwise<V> {
    fn new() -> Pairwise<V> {
        Pairwise { levels: Vec::new() }
    }

    fn push(&mut self, mut value: V, f: impl Fn(V, V) -> V) {
        for level in &mut self.levels {
            match level.take() {
                None => {
                    *level = Some(value);
                    return;
                }
                Some(earlier) => value = f(earlier, value),
            }
        }
        self.levels.push(Some(value));
    }

    fn finish(self, f: impl Fn(V, V) -> V) -> Option<V> {
        self.levels
            .into_iter()
            .flatten()
            .reduce(|later, earlier| f(earlier, later))
    }
}

/// The fold of at most [`CHUNK`] elements, `init` if there are none.
fn fold_chunk<T: Copy>(xs: &[T], init: T, f: impl Fn(T, T) -> T) -> T {
    let (rows, rest) = xs.as_chunks::<LANES>();
    let lanes = rows.split_first().map(|(first, rows)| {
        let mut lanes = *first;
        for row in rows {
            for (lane, &x) in lanes.iter_mut().zip(row) {
                *lane = f(*lane, x);
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] = f(lanes[i], lanes[i + width]);
            }
            width /= 2;
        }
        lanes[0]
    });
    let mut rest = rest.iter().copied();
    match lanes.or_else(|| rest.next()) {
        Some(first) => rest.fold(first, f),
        None => init,
    }
}

/// The fold of a slice, `init` if it is empty.
pub(super) fn fold_slice<T: Copy>(xs: &[T], init: T, f: impl Fn(T, T) -> T + Copy) -> T {
    if xs.len() <= CHUNK {
        return fold_chunk(xs, init, f);
    }
    let mut tree = Pairwise::new();
    for chunk in xs.chunks(CHUNK) {
        tree.push(fold_chunk(chunk, init, f), f);
    }
    tree.finish(f).unwrap_or(init)
}

/// `[a, r, b]` to `[a, b]`; `init` is the fold of nothing.
pub(super) fn fold<T: Element>(
    xs: &[T],
    [a, r, b]: [usize; 3],
    out: &mut [T],
    init: T,
    f: impl Fn(T, T) -> T + Copy,
) -> Result<(), KernelFault> {
    if a * b == 0 {
        return Ok(());
    }
    if r == 0 {
        out.fill(init);
        return Ok(());
    }
    if b == 1 {
        for (y, row) in out.iter_mut().zip(xs.chunks_exact(r)) {
            *y = fold_slice(row, init, f);
        }
        return Ok(());
    }
    for (out, matrix) in out.chunks_exact_mut(b).zip(xs.chunks_exact(r * b)) {
        fold_outer(matrix, b, out, f)?;
    }
    Ok(())
}

/// `[r, b]` to `[b]`, row by row.
fn fold_outer<T: Element>(
    xs: &[T],
    b: usize,
    out: &mut [T],
    f: impl Fn(T, T) -> T + Copy,
) -> Result<(), KernelFault> {
    let join = |total: &mut [T], row: &[T]| {
        for (t, &x) in total.iter_mut().zip(row) {
            *t = f(*t, x);
        }
    };
    let rows = |mut earlier: Vec<T>, later: Vec<T>| {
        join(&mut earlier, &later);
        earlier
    };
    let mut tree = Pairwise::new();
    for block in xs.chunks(BLOCK * b) {
        let mut rows_of = block.chunks_exact(b);
        let mut total = reserve(b)?;
        total.extend_from_slice(rows_of.next().expect("a block has a row"));
        rows_of.for_each(|row| join(&mut total, row));
        tree.push(total, rows);
    }
    out.copy_from_slice(&tree.finish(rows).expect("at least one row"));
    Ok(())
}

/// The sum of at most [`CHUNK`] elements.
pub(super) fn chunk_total<T: Number>(xs: &[T]) -> T {
    fold_chunk(xs, T::ZERO, T::plus)
}

/// Adds rows as long as `total`, or a part of one, to it, one after the other.
pub(super) fn add_rows<T: Number>(total: &mut [T], xs: &[T]) {
    for row in xs.chunks(total.len().max(1)) {
        for (t, &x) in total.iter_mut().zip(row) {
            *t = t.plus(x);
        }
    }
}

/// The sum of rows as long as `out`, in pairs of equal weight. What is left in `totals` means nothing.
pub(super) fn join<T: Number>(totals: &mut [T], out: &mut [T]) {
    let cols = out.len();
    let n = totals.len() / cols;
    let mut stride = 1;
    while stride < n {
        for pair in totals.chunks_mut(2 * stride * cols) {
            if let Some((left, right)) = pair.split_at_mut_checked(stride * cols) {
                add_rows(&mut left[..cols], &right[..cols.min(right.len())]);
            }
        }
        stride *= 2;
    }
    out.copy_from_slice(&totals[..cols]);
}

/// The first index along the middle axis of the greatest or the least element, as `wins(x, best)` says.
pub(super) fn arg_extremum<T: Number>(
    xs: &[T],
    [a, r, b]: [usize; 3],
    out: &mut [i64],
    wins: impl Fn(T, T) -> bool,
) {
    if a * r * b == 0 {
        return;
    }
    for (out, matrix) in out.chunks_exact_mut(b).zip(xs.chunks_exact(r * b)) {
        out.fill(0);
        for (i, row) in matrix.chunks_exact(b).enumerate().skip(1) {
            for (j, (at, &x)) in out.iter_mut().zip(row).enumerate() {
                if wins(x, matrix[*at as usize * b + j]) {
                    *at = i as i64;
                }
            }
        }
    }
}
