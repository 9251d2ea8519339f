//! Reductions over any axes.
//!
//! Neighbouring axes that are all reduced or all kept count as one. One group of reduced axes is folded at a time,
//! the last one first, as the middle axis of `[a, r, b]`. The order of the operations depends on the shape alone,
//! so a strided view gives the same bits as its contiguous copy.

use super::KernelFault;
use super::number::Number;
use super::source::{CHUNK, Source};
use crate::buffer::{View, reserve};
use crate::dtype::Element;

/// How many rows are folded one after the other before the results are folded in pairs.
const BLOCK: usize = 32;

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

/// `[a, r]` to `[a]`.
fn fold_inner<T: Element>(
    xs: &mut Source<'_, T>,
    [a, r]: [usize; 2],
    init: T,
    f: impl Fn(T, T) -> T + Copy,
) -> Result<Vec<T>, KernelFault> {
    let mut out = reserve(a)?;
    if r <= CHUNK {
        let at_once = CHUNK / r;
        while out.len() < a {
            let rows = at_once.min(a - out.len());
            out.extend(
                xs.next(rows * r)
                    .chunks_exact(r)
                    .map(|row| fold_chunk(row, init, f)),
            );
        }
        return Ok(out);
    }
    for _ in 0..a {
        let mut tree = Pairwise::new();
        for from in (0..r).step_by(CHUNK) {
            tree.push(fold_chunk(xs.next_chunk(r - from), init, f), f);
        }
        out.push(tree.finish(f).unwrap_or(init));
    }
    Ok(out)
}

/// `[a, r, b]` to `[a, b]`, row by row.
fn fold_outer<T: Element>(
    xs: &mut Source<'_, T>,
    [a, r, b]: [usize; 3],
    f: impl Fn(T, T) -> T + Copy,
) -> Result<Vec<T>, KernelFault> {
    let rows = |mut earlier: Vec<T>, later: Vec<T>| {
        for (x, y) in earlier.iter_mut().zip(later) {
            *x = f(*x, y);
        }
        earlier
    };
    let mut out = reserve(a * b)?;
    for _ in 0..a {
        let mut tree = Pairwise::new();
        for from in (0..r).step_by(BLOCK) {
            let total = fold_block(xs, [BLOCK.min(r - from), b], f)?;
            tree.push(total, rows);
        }
        out.extend(tree.finish(rows).expect("at least one row"));
    }
    Ok(out)
}

/// `[rows, b]` to `[b]`, one row after the other.
fn fold_block<T: Element>(
    xs: &mut Source<'_, T>,
    [rows, b]: [usize; 2],
    f: impl Fn(T, T) -> T,
) -> Result<Vec<T>, KernelFault> {
    let mut total = reserve(b)?;
    let mut done = 0;
    while done < rows * b {
        let col = done % b;
        // Whole rows, or a part of one row.
        let take = if b <= CHUNK {
            CHUNK / b * b
        } else {
            CHUNK.min(b - col)
        };
        let piece = xs.next(take.min(rows * b - done));
        done += piece.len();
        for part in piece.chunks(b) {
            if total.len() < b {
                total.extend_from_slice(part);
            } else {
                for (t, &x) in total[col..].iter_mut().zip(part) {
                    *t = f(*t, x);
                }
            }
        }
    }
    Ok(total)
}

/// Folds over `axes`; `init` is the result over no elements. The result is contiguous, or a view of `x`.
pub(super) fn fold<T: Element>(
    x: &View,
    axes: &[usize],
    shape: &[usize],
    init: T,
    f: impl Fn(T, T) -> T + Copy,
) -> Result<View, KernelFault> {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (axis, &len) in x.shape().iter().enumerate() {
        let reduced = axes.contains(&axis);
        match groups.last_mut() {
            _ if len == 1 => {}
            Some(last) if last.1 == reduced => last.0 *= len,
            _ => groups.push((len, reduced)),
        }
    }
    let mut x = x.straight::<T>()?;
    while let Some(i) = groups.iter().rposition(|g| g.1) {
        let size = |groups: &[(usize, bool)]| groups.iter().map(|g| g.0).product::<usize>();
        let (a, r, b) = (size(&groups[..i]), groups[i].0, size(&groups[i + 1..]));
        let out = if a * b == 0 {
            Vec::new()
        } else if r == 0 {
            let mut out = reserve(a * b)?;
            out.resize(a * b, init);
            out
        } else if b == 1 {
            fold_inner(&mut x.source(), [a, r], init, f)?
        } else {
            fold_outer(&mut x.source(), [a, r, b], f)?
        };
        x = View::new(out, &[a * b]);
        groups.remove(i);
    }
    x.reshape(shape)
}

pub(super) fn sum<T: Number>(
    x: &View,
    axes: &[usize],
    shape: &[usize],
) -> Result<View, KernelFault> {
    fold(x, axes, shape, T::ZERO, T::plus)
}

/// The sum over the axes along which a value of `shape` was repeated to the shape of `y`.
pub(super) fn unbroadcast<T: Number>(y: &View, shape: &[usize]) -> Result<View, KernelFault> {
    let fresh = y.rank() - shape.len();
    let repeated = |&axis: &usize| axis < fresh || shape[axis - fresh] != y.shape()[axis];
    let axes: Vec<usize> = (0..y.rank()).filter(repeated).collect();
    sum::<T>(y, &axes, shape)
}

/// The greatest or the least elements, as `wins(x, best)` says; a NaN wins against all others.
pub(super) fn extremum<T: Number>(
    x: &View,
    axes: &[usize],
    shape: &[usize],
    wins: impl Fn(T, T) -> bool + Copy,
) -> Result<View, KernelFault> {
    // The shape rule refuses an extremum over no elements, so the number here is never a result.
    fold(
        x,
        axes,
        shape,
        T::ZERO,
        move |x, y| if wins(y, x) { y } else { x },
    )
}

/// The first index along `axis` of the greatest or the least element.
pub(super) fn arg_extremum<T: Number>(
    x: &View,
    axis: usize,
    shape: &[usize],
    wins: impl Fn(T, T) -> bool,
) -> Result<View, KernelFault> {
    let (a, r) = (x.shape()[..axis].iter().product::<usize>(), x.shape()[axis]);
    let b: usize = x.shape()[axis + 1..].iter().product();
    let mut out: Vec<i64> = reserve(a * b)?;
    let mut best: Vec<T> = reserve(b)?;
    let x = x.straight::<T>()?;
    let mut xs = x.source::<T>();
    if a * b == 0 {
        return Ok(View::new(out, shape));
    }
    for _ in 0..a {
        let base = out.len();
        out.resize(base + b, 0);
        best.clear();
        for i in 0..r {
            let mut col = 0;
            while col < b {
                let piece = xs.next_chunk(b - col);
                if i == 0 {
                    best.extend_from_slice(piece);
                } else {
                    let kept = best[col..].iter_mut().zip(&mut out[base + col..]);
                    for ((best, at), &x) in kept.zip(piece) {
                        if wins(x, *best) {
                            (*best, *at) = (x, i as i64);
                        }
                    }
                }
                col += piece.len();
            }
        }
    }
    Ok(View::new(out, shape))
}
