//! Kernels that only move elements.

pub(crate) mod blocks;
pub mod cast;
pub(crate) mod copy;
pub mod gather;
pub mod placed;
pub(crate) mod reader;
mod window;
pub(crate) mod write;

use crate::array;
use crate::memory::words::{Word, word_of};
use crate::memory::{Element, Layout};
use crate::simd::leveled::leveled;
use crate::task::{Prepared, map_words};
use crate::threads::for_each_chunk;
use blocks::Blocks;
use copy::{CopyInParts, Scatter};
use gather::Gather;
use gradloom_ir::{DType, Static};
use smallvec::SmallVec;
use std::ops::Range;

pub use window::{read_window, write_slice, write_window};
pub use write::Write;

/// Approximate number of bytes that one thread writes in a nanosecond.
pub(crate) const BYTES_PER_NANO: usize = 16;

/// Number of bytes of a part that one thread writes, unless a unit has more.
pub(crate) const PART_BYTES: usize = 1 << 17;

/// Calls `write` with the index of the first element and the elements of each part of a result, on several threads if the
/// result is large. Each part has whole units of `unit` elements.
pub(crate) fn write_parts<T: Send>(
    out: &mut [T],
    unit: usize,
    write: impl Fn(usize, &mut [T]) + Sync,
) {
    let unit = unit.max(1);
    let len = (PART_BYTES / size_of::<T>()).div_ceil(unit) * unit;
    let nanos = size_of_val(out) / BYTES_PER_NANO;
    for_each_chunk(out, len, nanos, |i, out| write(i * len, out));
}

/// Copies elements laid out as `layout` into row-major order.
///
/// If the layout is already contiguous, the operand slice must have exactly its elements.
pub fn copy(dtype: DType, layout: &Layout) -> Prepared {
    fn typed<T: Word>(copy: Option<CopyInParts>) -> Prepared {
        map_words(move |xs: &[T], out: &mut [T]| match &copy {
            Some(copy) => copy.run(xs, out),
            None => write_parts(out, 1, |at, out| {
                out.copy_from_slice(&xs[at..][..out.len()]);
            }),
        })
    }
    let strided = !layout.is_contiguous();
    let copy = strided.then(|| CopyInParts::new(layout, dtype.size()));
    on_word!(dtype, typed(copy))
}

/// Number of elements from which jumps between cache lines cost more than a copy.
const JUMPS: usize = 1024;

/// Number of elements of a row from which finding its place takes less time than copying it.
const LONG_ROW: usize = 32;

/// Returns whether reading the layout in row-major order jumps between cache lines.
pub fn jumps(dtype: DType, layout: &Layout) -> bool {
    layout.numel() >= JUMPS
        && !layout.is_contiguous()
        && Blocks::new(&layout.runs(), dtype.size()).is_some()
}

/// Writes the operand to the elements that `to` selects of a tensor filled with a number.
pub fn scatter_onto(dtype: DType, to: &Layout, value: &Static) -> Prepared {
    fn typed<T: Element>(scatter: Scatter, value: &Static) -> Prepared {
        words(scatter, word_of(T::from_static(value)))
    }
    fn words<T: Word>(scatter: Scatter, value: T) -> Prepared {
        let ascends = scatter.is_ascending();
        map_words(move |ys: &[T], out: &mut [T]| {
            if ascends {
                return scatter.write_rows(out, value, |i, row| {
                    row.copy_from_slice(&ys[i..][..row.len()]);
                });
            }
            write_parts(out, 1, |_, out| out.fill(value));
            scatter.run(ys, out);
        })
    }
    on_element!(dtype, typed(Scatter::new(to), value))
}

/// As [`scatter_onto`], for an operand laid out as `from`.
///
/// Returns `None` if a copy in row-major order would be faster.
pub fn scatter_view(dtype: DType, from: &Layout, to: &Layout, value: &Static) -> Option<Prepared> {
    fn typed<T: Element>(from: Gather, scatter: Scatter, value: &Static) -> Prepared {
        words(from, scatter, word_of(T::from_static(value)))
    }
    fn words<T: Word>(from: Gather, scatter: Scatter, value: T) -> Prepared {
        map_words(move |xs: &[T], out: &mut [T]| {
            scatter.write_rows(out, value, |i, row| match from.run(i, row.len()) {
                Some(at) => row.copy_from_slice(&xs[at..][..row.len()]),
                None => from.read(xs, i, row),
            });
        })
    }
    let scatter = Scatter::new(to);
    let long = to.shape.last().is_some_and(|len| *len >= LONG_ROW);
    if !long || !scatter.is_ascending() || jumps(dtype, from) {
        return None;
    }
    let from = Gather::new(from);
    Some(on_element!(dtype, typed(from, scatter, value)))
}

/// Returns whether [`concat()`] takes `n` elements in turn from an operand laid out like this.
///
/// A copy in row-major order would be faster for other operands.
pub fn concat_reads(dtype: DType, layout: &Layout, n: usize) -> bool {
    let whole = n == layout.numel();
    whole || layout.is_contiguous() || (n >= LONG_ROW && !jumps(dtype, layout))
}

/// Concatenates: takes `n` elements in row-major order of each operand in turn, until the result is full.
///
/// `operands` are `n` and the layout of each.
pub fn concat(dtype: DType, operands: &[(usize, Layout)]) -> Prepared {
    fn typed<T: Word>(operands: &[(usize, Layout)]) -> Prepared {
        // An empty operand gives all of its elements in any number of turns.
        let whole = |(n, layout): &(usize, Layout)| *n == layout.numel();
        let is_view = |(_, layout): &(usize, Layout)| !layout.is_contiguous();
        if operands.iter().all(whole) && operands.iter().any(is_view) {
            return one_by_one::<T>(operands);
        }
        let piece = |(n, layout): &(usize, Layout)| {
            let order = match layout.is_contiguous() || *n == 0 {
                true => None,
                false => Some(Gather::new(layout)),
            };
            (*n, layout.offset, order)
        };
        let pieces: Vec<_> = operands.iter().map(piece).collect();
        let in_turn: usize = pieces.iter().map(|piece| piece.0).sum();
        if in_turn <= SHORT_TURN && pieces.iter().all(|piece| piece.2.is_none()) {
            let lens: Vec<usize> = pieces.iter().map(|piece| piece.0).collect();
            let single = lens.iter().all(|n| *n == 1);
            return Box::new(move |args, outs| {
                let dtype = outs[0].dtype();
                write_parts(T::slice_mut(&mut outs[0]), in_turn, |at, out| {
                    let turn = at / in_turn.max(1);
                    let each = args.iter().zip(&pieces);
                    let each = each
                        .map(|(arg, (n, offset, _))| &T::slice(*arg, dtype)[offset + turn * n..]);
                    let args: SmallVec<[&[T]; 8]> = each.collect();
                    match (&args[..], single) {
                        (&[a, b], true) => interleave(a.iter().zip(b).map(|(a, b)| [*a, *b]), out),
                        (&[a, b, c], true) => {
                            let each = a.iter().zip(b).zip(c);
                            interleave(each.map(|((a, b), c)| [*a, *b, *c]), out);
                        }
                        _ => short_turns(&args, &lens, out),
                    }
                });
                Ok(())
            });
        }
        Box::new(move |args, outs| {
            let dtype = outs[0].dtype();
            let args: SmallVec<[&[T]; 8]> = args.iter().map(|arg| T::slice(*arg, dtype)).collect();
            write_parts(T::slice_mut(&mut outs[0]), 1, |at, mut out| {
                let (mut turn, mut skipped) = (at / in_turn, at % in_turn);
                while !out.is_empty() {
                    for (xs, (n, offset, order)) in args.iter().zip(&pieces) {
                        let first = skipped.min(*n);
                        skipped -= first;
                        let (now, later) = out.split_at_mut((n - first).min(out.len()));
                        let from = turn * n + first;
                        match order {
                            None => now.copy_from_slice(&xs[offset + from..][..now.len()]),
                            Some(order) => order.read(xs, from, now),
                        }
                        out = later;
                    }
                    turn += 1;
                }
            });
            Ok(())
        })
    }
    on_word!(dtype, typed(operands))
}

/// Largest number of elements that all operands together give in turn for which each operand is written by itself.
const SHORT_TURN: usize = 64;

/// Number of turns that are written for one operand before the next one, so that they stay in the first cache.
const TURNS: usize = 256;

/// Writes a few elements of each operand in turn.
fn short_turns<T: Copy>(args: &[&[T]], lens: &[usize], out: &mut [T]) {
    let in_turn: usize = lens.iter().sum();
    for (i, out) in out.chunks_mut(TURNS * in_turn).enumerate() {
        let mut place = 0;
        for (xs, n) in args.iter().zip(lens) {
            let turns = out.chunks_exact_mut(in_turn);
            let to = turns.map(|turn| &mut turn[place..place + n]);
            let xs = &xs[i * TURNS * n..];
            match n {
                0 => {}
                1 => to.zip(xs).for_each(|(to, x)| to[0] = *x),
                2 => copy_each(xs.as_chunks::<2>().0, to),
                3 => copy_each(xs.as_chunks::<3>().0, to),
                4 => copy_each(xs.as_chunks::<4>().0, to),
                n => to
                    .zip(xs.chunks_exact(*n))
                    .for_each(|(to, xs)| to.copy_from_slice(xs)),
            }
            place += n;
        }
    }
}

fn copy_each<'a, T: Copy + 'a, const N: usize>(
    xs: &[[T; N]],
    to: impl Iterator<Item = &'a mut [T]>,
) {
    to.zip(xs).for_each(|(to, xs)| to.copy_from_slice(xs));
}

/// Writes one element of each operand in turn.
fn interleave<T: Copy, const N: usize>(turns: impl Iterator<Item = [T; N]>, out: &mut [T]) {
    for (to, turn) in out.as_chunks_mut().0.iter_mut().zip(turns) {
        *to = turn;
    }
}

/// As [`concat()`], where the operands follow each other once.
fn one_by_one<T: Word>(operands: &[(usize, Layout)]) -> Prepared {
    let piece = |(n, layout): &(usize, Layout)| {
        let view = (!layout.is_contiguous()).then(|| CopyInParts::new(layout, size_of::<T>()));
        (*n, layout.offset, view)
    };
    let pieces: Vec<_> = operands.iter().map(piece).collect();
    Box::new(move |args, outs| {
        let dtype = outs[0].dtype();
        let mut out = T::slice_mut(&mut outs[0]);
        for (arg, (n, offset, view)) in args.iter().zip(&pieces) {
            let (now, later) = out.split_at_mut(*n);
            let xs = T::slice(*arg, dtype);
            match view {
                Some(view) => view.run(xs, now),
                None => write_parts(now, 1, |at, out| {
                    out.copy_from_slice(&xs[offset + at..][..out.len()]);
                }),
            }
            out = later;
        }
        Ok(())
    })
}

/// Triangle of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// The elements on a diagonal and to its left.
    Lower,
    /// The elements on a diagonal and to its right.
    Upper,
}

/// Copies the triangles of matrices, and writes zeros elsewhere.
pub fn triangles(
    dtype: DType,
    [rows, cols]: [usize; 2],
    triangle: Triangle,
    diagonal: i64,
) -> Prepared {
    fn typed<T: Word>(
        kept: impl Fn(usize) -> Range<usize> + Send + Sync + 'static,
        cols: usize,
    ) -> Prepared {
        map_words(move |xs: &[T], out: &mut [T]| {
            write_parts(out, cols, |at, out| {
                let both = xs[at..].chunks_exact(cols).zip(out.chunks_exact_mut(cols));
                for (i, (x, y)) in both.enumerate() {
                    let kept = kept(at / cols + i);
                    y[..kept.start].fill(T::default());
                    y[kept.end..].fill(T::default());
                    y[kept.clone()].copy_from_slice(&x[kept]);
                }
            });
        })
    }
    // The columns of a row that are kept. The first `n` columns are to the left of the diagonal.
    let kept = move |i: usize| {
        let column = diagonal.saturating_add((i % rows) as i64);
        let n = |column: i64| column.clamp(0, cols as i64) as usize;
        match triangle {
            Triangle::Lower => 0..n(column.saturating_add(1)),
            Triangle::Upper => n(column)..cols,
        }
    };
    on_word!(dtype, typed(kept, cols))
}

/// Number of rows up to which a matrix is reversed by a loop of its own.
const FEW_ROWS: usize = 8;

/// Reverses the middle axis of `[a, r, b]`.
pub fn flip(dtype: DType, [_, r, b]: [usize; 3]) -> Prepared {
    fn typed<T: Word>(r: usize, b: usize) -> Prepared {
        let whole = if r <= FEW_ROWS { r * b } else { b };
        map_words(move |xs: &[T], out: &mut [T]| {
            write_parts(out, whole, |at, out| {
                let at = at / b;
                match b {
                    1 => flip_units(xs, r, at, out),
                    2 => flip_units(xs.as_chunks::<2>().0, r, at, out.as_chunks_mut().0),
                    3 => flip_units(xs.as_chunks::<3>().0, r, at, out.as_chunks_mut().0),
                    4 => flip_units(xs.as_chunks::<4>().0, r, at, out.as_chunks_mut().0),
                    _ => flip_rows(xs, [r, b], at, out),
                }
            });
        })
    }
    on_word!(dtype, typed(r, b))
}

/// As [`flip`], for an operand laid out as `from`.
///
/// Returns `None` if a copy in row-major order would be faster.
pub fn flip_view(dtype: DType, from: &Layout, [_, r, b]: [usize; 3]) -> Option<Prepared> {
    fn typed<T: Word>(from: Gather, r: usize, b: usize) -> Prepared {
        map_words(move |xs: &[T], out: &mut [T]| {
            write_parts(out, b, |mut at, mut out| {
                while !out.is_empty() {
                    let (row, first) = (at / (r * b), at % (r * b));
                    // Single elements are reversed as many at a time as there are.
                    let n = if b == 1 { out.len().min(r - first) } else { b };
                    let (now, later) = out.split_at_mut(n);
                    from.read(xs, (row + 1) * r * b - first - n, now);
                    if b == 1 {
                        now.reverse();
                    }
                    (at, out) = (at + n, later);
                }
            });
        })
    }
    let long = if b == 1 { r } else { b };
    if long < LONG_ROW || jumps(dtype, from) {
        return None;
    }
    Some(on_word!(dtype, typed(Gather::new(from), r, b)))
}

/// Writes some rows of matrices of `r` reversed rows of `b` elements, from row `at` of all on.
fn flip_rows<T: Word>(xs: &[T], [r, b]: [usize; 2], at: usize, out: &mut [T]) {
    let (mut matrix, mut row) = (at / r, at % r);
    for y in out.chunks_exact_mut(b) {
        y.copy_from_slice(&xs[(matrix * r + r - 1 - row) * b..][..b]);
        row += 1;
        if row == r {
            (matrix, row) = (matrix + 1, 0);
        }
    }
}

leveled! {
    /// As [`flip_rows`], for rows of one unit. There are whole matrices if they have [`FEW_ROWS`].
    fn flip_units<S, U: Copy>(xs: &[U], r: usize, at: usize, out: &mut [U]) {
        let whole = &xs[at..];
        match r {
            2 => return reverse_each::<2, U>(whole, out),
            3 => return reverse_each::<3, U>(whole, out),
            4 => return reverse_each::<4, U>(whole, out),
            8 => return reverse_each::<8, U>(whole, out),
            _ => {}
        }
        let (mut matrix, mut row, mut out) = (at / r, at % r, out);
        while !out.is_empty() {
            let n = (r - row).min(out.len());
            let (now, later) = out.split_at_mut(n);
            reverse::<32, U>(&xs[matrix * r + r - row - n..][..n], now);
            (matrix, row, out) = (matrix + 1, 0, later);
        }
    }
}

/// Reverses each row of `N` units.
#[inline(always)]
fn reverse_each<const N: usize, U: Copy>(xs: &[U], out: &mut [U]) {
    for (y, x) in out.as_chunks_mut::<N>().0.iter_mut().zip(xs.as_chunks().0) {
        *y = reversed(x);
    }
}

/// Writes units in reverse order, `N` at a time. The number is a constant, so vectors reverse them.
#[inline(always)]
fn reverse<const N: usize, U: Copy>(xs: &[U], out: &mut [U]) {
    let (rest, blocks) = xs.as_rchunks::<N>();
    let (to, rest_to) = out.as_chunks_mut::<N>();
    for (y, x) in to.iter_mut().zip(blocks.iter().rev()) {
        *y = reversed(x);
    }
    for (y, x) in rest_to.iter_mut().zip(rest.iter().rev()) {
        *y = *x;
    }
}

#[inline(always)]
fn reversed<const N: usize, U: Copy>(x: &[U; N]) -> [U; N] {
    array::from_fn(|i| x[N - 1 - i])
}

/// Rotates each row of `len` elements by `shift` elements, less than `len`, towards its end.
pub fn roll(dtype: DType, len: usize, shift: usize) -> Prepared {
    fn typed<T: Word>(len: usize, shift: usize) -> Prepared {
        map_words(move |xs: &[T], out: &mut [T]| {
            write_parts(out, 1, |mut at, mut out| {
                while !out.is_empty() {
                    let (row, to) = (at / len, at % len);
                    let (from, end) = match to < shift {
                        true => (len - shift + to, shift),
                        false => (to - shift, len),
                    };
                    let (now, later) = out.split_at_mut((end - to).min(out.len()));
                    now.copy_from_slice(&xs[row * len + from..][..now.len()]);
                    (at, out) = (at + now.len(), later);
                }
            });
        })
    }
    on_word!(dtype, typed(len, shift))
}

/// Writes a square matrix with 1 on its diagonal and 0 elsewhere.
pub fn eye(dtype: DType, len: usize) -> Prepared {
    fn typed<T: Element>(len: usize) -> Prepared {
        words(len, word_of(T::from_static(&Static::Int(1))))
    }
    fn words<T: Word>(len: usize, one: T) -> Prepared {
        Box::new(move |_, outs| {
            write_parts(T::slice_mut(&mut outs[0]), len, |at, out| {
                for (i, row) in out.chunks_exact_mut(len).enumerate() {
                    row.fill(T::default());
                    row[at / len + i] = one;
                }
            });
            Ok(())
        })
    }
    on_element!(dtype, typed(len))
}

/// Writes the numbers from 0 on.
pub fn iota(dtype: DType) -> Prepared {
    fn typed<T: Element>() -> Prepared {
        Box::new(|_, outs| {
            write_parts(T::slice_mut(&mut outs[0]), 1, |at, out| {
                for (i, y) in out.iter_mut().enumerate() {
                    *y = T::from_static(&Static::Int((at + i) as i64));
                }
            });
            Ok(())
        })
    }
    on_element!(dtype, typed())
}

/// Writes zeros.
pub fn zeros(dtype: DType) -> Prepared {
    fn typed<T: Word>() -> Prepared {
        Box::new(|_, outs| {
            write_parts(T::slice_mut(&mut outs[0]), 1, |_, out| {
                out.fill(T::default())
            });
            Ok(())
        })
    }
    on_word!(dtype, typed())
}

#[cfg(test)]
mod tests {
    use super::{
        Triangle, concat, copy, eye, flip, flip_view, iota, read_window, roll, scatter_onto,
        scatter_view, triangles, zeros,
    };
    use crate::indexing::{Places, take};
    use crate::memory::{Data, DataMut, Layout};
    use crate::movement::copy::tests::{permutations, positions};
    use crate::task::Prepared;
    use crate::threads::set_threads;
    use gradloom_ir::{DType, Static};

    /// Checks the results with two threads and with one.
    #[track_caller]
    fn check(what: &str, kernel: &Prepared, args: &[Data<'_>], want: &[f32]) {
        for threads in [2, 1] {
            set_threads(threads);
            let mut found = vec![9.0; want.len()];
            kernel(args, &mut [DataMut::F32(&mut found)]).unwrap();
            let wrong = found.iter().zip(want).position(|(x, y)| x != y);
            assert_eq!(wrong, None, "{what}, {threads} threads");
        }
    }

    /// Results have several parts, whose ends lie within rows and matrices.
    #[test]
    fn parts_of_large_results_are_those_of_the_definition() {
        let (dtype, xs): (_, Vec<f32>) = (DType::F32, (0..360_000).map(|x| x as f32).collect());
        let args = [Data::F32(&xs)];
        let of = |index: &dyn Fn(usize) -> usize, n: usize| -> Vec<f32> {
            (0..n).map(|i| xs[index(i)]).collect()
        };
        for [a, r, b] in [
            [1, 360_000, 1],
            [3, 120_000, 1],
            [4, 300, 300],
            [1, 3, 120_000],
            [900, 50, 8],
            [180_000, 2, 1],
            [20_000, 3, 6],
            [40_000, 3, 3],
            [1, 90_000, 4],
            [30_000, 4, 3],
            [22_500, 8, 2],
            [24_000, 5, 3],
            [9000, 40, 1],
        ] {
            let want = of(
                &|i| (i / (r * b) * r + r - 1 - i / b % r) * b + i % b,
                a * r * b,
            );
            check("flip", &flip(dtype, [a, r, b]), &args, &want);
            let (len, shift) = (r * b, r * b / 3);
            let want = of(&|i| i / len * len + (i % len + len - shift) % len, a * len);
            check("roll", &roll(dtype, len, shift), &args, &want);
        }
        for (rows, cols, diagonal) in [
            (600, 600, 3),
            (300, 400, -20),
            (120_000, 3, 1),
            (2, 180_000, 70_000),
        ] {
            let left = |i: usize| (i % cols) as i64 <= (i / cols % rows) as i64 + diagonal;
            let want: Vec<f32> = (0..360_000)
                .map(|i| if left(i) { xs[i] } else { 0.0 })
                .collect();
            check(
                "lower triangle",
                &triangles(dtype, [rows, cols], Triangle::Lower, diagonal),
                &args,
                &want,
            );
        }
        for [n, m] in [
            [100_000, 260_000],
            [7, 83],
            [3, 0],
            [1, 1],
            [0, 2],
            [3, 3],
            [40, 5],
        ] {
            let turns = 360_000 / (n + m);
            let [x, y] = [&xs[..turns * n], &xs[360_000 - turns * m..]];
            let turn = |i: usize| [&x[i * n..][..n], &y[i * m..][..m]].concat();
            let want: Vec<f32> = (0..turns).flat_map(turn).collect();
            let args = [Data::F32(x), Data::F32(y)];
            let whole = |n: usize| (n, Layout::contiguous(&[turns, n]));
            check(
                "concat",
                &concat(dtype, &[whole(n), whole(m)]),
                &args,
                &want,
            );
        }
        check("iota", &iota(dtype), &[], &xs);
        let want: Vec<f32> = (0..600 * 600)
            .map(|i| f32::from(i / 600 == i % 600))
            .collect();
        check("eye", &eye(dtype, 600), &[], &want);
        let shapes: [&[usize]; 5] = [
            &[600, 600],
            &[2, 3, 60_000],
            &[3, 100, 300, 4],
            &[40, 9, 1000],
            &[360_000],
        ];
        for shape in shapes {
            for axes in permutations(shape.len()) {
                let layout = Layout::contiguous(shape).permute(&axes);
                let n = shape.len() - 1;
                for layout in [layout.clone(), layout.narrow(n, 1, layout.shape[n] / 2, 2)] {
                    let want: Vec<f32> = positions(&layout).iter().map(|i| xs[*i]).collect();
                    let part = match layout.is_contiguous() {
                        true => &xs[layout.offset..][..want.len()],
                        false => &xs,
                    };
                    let args = [Data::F32(part)];
                    check(&format!("{layout:?}"), &copy(dtype, &layout), &args, &want);
                }
            }
        }
        set_threads(2);
    }

    /// No pass over the result makes its bytes bools.
    #[test]
    fn results_of_bools_are_written_whole() {
        let xs: Vec<bool> = (0..120).map(|i| i % 3 == 0).collect();
        let (dtype, all) = (DType::Bool, Data::Bool(&xs));
        let whole = Layout::contiguous(&[5, 4, 6]);
        let (turned, part) = (whole.permute(&[2, 0, 1]), whole.narrow(2, 1, 2, 2));
        let long = Layout::contiguous(&[3, 40]).narrow(1, 1, 36, 1);
        let no = Static::Bool(false);
        let at = Places {
            outer: 1,
            n: 20,
            m: 3,
            inner: 6,
            by_outer: false,
            by_inner: false,
            shared: true,
        };
        let (each, rows) = ((8, Layout::contiguous(&[120])), (120, turned.clone()));
        let onto = Layout::contiguous(&[3, 50]).narrow(1, 9, 36, 1);
        let flipped = flip_view(dtype, &long, [1, 3, 36]).expect("rows are long");
        let scattered = scatter_view(dtype, &long, &onto, &no).expect("rows are long");
        let (starts, indices) = (Data::I64(&[1, 2, 1]), Data::I64(&[3, -1, 0]));
        let window = read_window(dtype, &[5, 4, 6], &[2, 2, 5]);
        let kernels = [
            ("copy", copy(dtype, &whole), vec![all], 120),
            (
                "copy of a permutation",
                copy(dtype, &turned),
                vec![all],
                120,
            ),
            ("copy of a part", copy(dtype, &part), vec![all], 40),
            (
                "concat",
                concat(dtype, &[rows.clone(), rows]),
                vec![all, all],
                240,
            ),
            (
                "concat in turns",
                concat(dtype, &[each.clone(), each]),
                vec![all, all],
                240,
            ),
            (
                "triangles",
                triangles(dtype, [4, 6], Triangle::Upper, 1),
                vec![all],
                120,
            ),
            ("flip", flip(dtype, [5, 4, 6]), vec![all], 120),
            ("flip of elements", flip(dtype, [2, 60, 1]), vec![all], 120),
            ("flip of a view", flipped, vec![all], 108),
            ("roll", roll(dtype, 24, 5), vec![all], 120),
            ("zeros", zeros(dtype), vec![], 120),
            ("eye", eye(dtype, 7), vec![], 49),
            (
                "scatter",
                scatter_onto(dtype, &part, &no),
                vec![all.part(0, 40)],
                120,
            ),
            ("scatter of a view", scattered, vec![all], 150),
            ("window", window, vec![all, starts], 20),
            ("take", take(dtype, at), vec![all, indices], 18),
        ];
        for (what, kernel, args, n) in kernels {
            let mut found = vec![0xff; n];
            kernel(&args, &mut [DataMut::Bool(&mut found)]).unwrap();
            assert!(found.iter().all(|byte| *byte <= 1), "{what}: {found:?}");
        }
    }
}
