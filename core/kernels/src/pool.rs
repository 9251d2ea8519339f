//! Pooling: sums and maxima of windows, and their transposes.
//!
//! Each kernel works on planes, one for each index of the leading axes.

use crate::memory::aligned_vec::AlignedVec;
use crate::memory::element::Element;
use crate::memory::scratch::{Plain, Scratch, with_scratch, with_slices};
use crate::simd::lanes::{self, Map};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::{LANES, Vector};
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use crate::windows::{Run, Windows, into_plane, into_windows, part};
use gradloom_ir::{DType, Static};

/// Number of elements that one thread reads and compares or adds in a nanosecond.
const PER_NANO: usize = 4;

/// Number of elements read for the part of a result that one thread computes.
const TASK: usize = 1 << 14;

/// Calls `f` with the index of the first of some planes and with their results, on several threads if
/// that pays off.
fn each_planes<T: Element>(
    windows: &Windows,
    out: &mut [T],
    plane: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let terms = windows.n_windows() * windows.n_taps();
    let at_once = TASK.div_ceil(terms.max(1));
    if plane == 0 {
        return;
    }
    let nanos = out.len() / plane * terms / PER_NANO;
    for_each_chunk(out, at_once * plane, nanos, |task, out| {
        f(task * at_once, out)
    });
}

/// As [`each_planes`], for one plane at a time.
fn each_plane<T: Element>(
    windows: &Windows,
    out: &mut [T],
    plane: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    each_planes(windows, out, plane, |first, out| {
        for (i, out) in out.chunks_exact_mut(plane).enumerate() {
            f(first + i, out);
        }
    });
}

/// Sums the elements of each window, divided by `over` if there is a number.
pub fn sum(dtype: DType, windows: Windows, over: Option<usize>) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows, over: Option<usize>) -> Prepared {
        let fold = WindowFold::new(windows);
        map(move |xs: &[T], out: &mut [T]| {
            fold.each(xs, out, |xs, out, scratch| {
                sum_planes(xs, out, &fold, over, scratch);
            });
        })
    }
    on_number!(dtype, typed(windows, over))
}

/// Adds each number to all elements of its window, divided by `over` if there is a number.
pub fn sum_t(dtype: DType, windows: Windows, over: Option<usize>) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows, over: Option<usize>) -> Prepared {
        let columns = windows.columns();
        map(move |ys: &[T], out: &mut [T]| {
            let n = windows.n_windows();
            each_planes(&windows, out, windows.n_elements(), |first, out| {
                with_scratch([windows.axes()[2].len], |[scratch]| {
                    spread_planes(&ys[first * n..], out, &windows, &columns, over, scratch);
                });
            });
        })
    }
    // The elements of a plane are in neighbouring windows, so each is a sum over a window of these.
    if let Some(windows) = windows.transposed() {
        return sum(dtype, windows, over);
    }
    on_number!(dtype, typed(windows, over))
}

/// Finds the greatest element of each window.
pub fn max(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows) -> Prepared {
        let fold = WindowFold::new(windows);
        map(move |xs: &[T], out: &mut [T]| {
            fold.each(xs, out, |xs, out, scratch| {
                max_planes(xs, out, &fold, scratch)
            });
        })
    }
    on_number!(dtype, typed(windows))
}

/// Takes the element of the first operand where each window of the second is greatest.
pub fn max_jvp(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows) -> Prepared {
        let columns = windows.columns();
        Box::new(move |args, outs| {
            let [vs, xs] = [0, 1].map(|i| T::slice(args[i]));
            let n = windows.n_elements();
            let out = T::slice_mut(&mut outs[0]);
            each_plane(&windows, out, windows.n_windows(), |i, out| {
                let (vs, xs) = (part(vs, i, n), part(xs, i, n));
                each_greatest(xs, &windows, &columns, |first, places| {
                    for (y, at) in out[first..].iter_mut().zip(places) {
                        *y = vs.get(*at as usize).copied().unwrap_or(T::ZERO);
                    }
                });
            });
            Ok(())
        })
    }
    on_number!(dtype, typed(windows))
}

/// Adds each number of the first operand where its window of the second is greatest.
pub fn max_vjp(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows) -> Prepared {
        let columns = windows.columns();
        let run = move |vs: &[T], xs: &[T], out: &mut [T]| {
            let [n, n_windows] = [windows.n_elements(), windows.n_windows()];
            let [.., last] = windows.axes();
            if windows.are_squares() {
                return each_planes(&windows, out, n, |first, out| {
                    choose_squares(&vs[first * n_windows..], &xs[first * n..], out, &windows);
                });
            }
            each_plane(&windows, out, n, |i, out| {
                let (vs, xs) = (part(vs, i, n_windows), part(xs, i, n));
                if windows.are_tiles() && (2..=4).contains(&last.window) {
                    let lens = [last.len, last.count, last.count];
                    return with_scratch(lens, |scratch| {
                        choose_plane(vs, xs, out, &windows, scratch);
                    });
                }
                out.fill(T::ZERO);
                each_greatest(xs, &windows, &columns, |first, places| {
                    for (v, at) in vs[first..].iter().zip(places) {
                        if let Some(x) = out.get_mut(*at as usize) {
                            *x = x.plus(*v);
                        }
                    }
                });
            });
        };
        Box::new(move |args, outs| {
            let [vs, xs] = [0, 1].map(|i| T::slice(args[i]));
            run(vs, xs, T::slice_mut(&mut outs[0]));
            Ok(())
        })
    }
    on_number!(dtype, typed(windows))
}

leveled! {
    /// Writes each number where its window is greatest and zeros elsewhere, if each element is in one
    /// window.
    fn choose_plane<S, T: Number>(
        vs: &[T],
        xs: &[T],
        out: &mut [T],
        windows: &Windows,
        scratch: [&mut [T]; 3],
    ) {
        match windows.axes()[2].window {
            2 => choose::<2, _>(vs, xs, out, windows, scratch),
            3 => choose::<3, _>(vs, xs, out, windows, scratch),
            _ => choose::<4, _>(vs, xs, out, windows, scratch),
        }
    }
}

leveled! {
    /// Writes each number where its window of 2 x 2 is greatest and zeros elsewhere, if no windows
    /// overlap.
    fn choose_squares<S, T: Number>(vs: &[T], xs: &[T], out: &mut [T], windows: &Windows) {
        let [planes, rows, last] = windows.axes();
        let (n, n_rows) = (planes.len * rows.len * last.len, planes.count * rows.count);
        let planes = out.chunks_exact_mut(n).zip(xs.chunks_exact(n));
        for ((out, x), v) in planes.zip(vs.chunks_exact(n_rows * last.count)) {
            if 2 * last.count < last.len || 2 * rows.count < rows.len {
                out.fill(T::ZERO);
            }
            for (row, v) in v.chunks_exact(last.count).enumerate() {
                let first = row / rows.count * rows.len + 2 * (row % rows.count);
                let part = first * last.len..(first + 2) * last.len;
                choose_row::<T::Vectors<S>>(v, &x[part.clone()], &mut out[part]);
            }
        }
    }
}

/// Writes the numbers of a row of windows of 2 x 2 where these are greatest, to the two rows of elements
/// that the windows have.
#[inline(always)]
fn choose_row<V: Vector>(v: &[V::T], x: &[V::T], out: &mut [V::T]) {
    let (len, zero) = (x.len() / 2, V::splat(V::T::ZERO));
    assert!(2 * v.len() <= len && out.len() == x.len());
    let [x, out] = [x.as_ptr().cast_mut(), out.as_mut_ptr()];
    for at in (0..v.len()).step_by(V::N) {
        let n = V::N.min(v.len() - at);
        let places = [2 * at, len + 2 * at];
        // SAFETY: each row has the elements of all windows, as asserted, and there are `n` windows
        // from `at` on.
        unsafe {
            let v = V::load_some(v.as_ptr().add(at), n);
            let [a, b] = load_pairs::<V>(x.add(places[0]), n);
            let [c, d] = load_pairs::<V>(x.add(places[1]), n);
            let (above, below) = (b.choose_above(a, b, a), d.choose_above(c, d, c));
            let upper = below.choose_above(above, zero, v);
            let lower = below.choose_above(above, v, zero);
            let [a, b] = [
                b.choose_above(a, zero, upper),
                b.choose_above(a, upper, zero),
            ];
            let [c, d] = [
                d.choose_above(c, zero, lower),
                d.choose_above(c, lower, zero),
            ];
            store_pairs([a, b], out.add(places[0]), n);
            store_pairs([c, d], out.add(places[1]), n);
        }
    }
}

/// Loads the first and the second numbers of `n` pairs.
///
/// # Safety
///
/// `from` must point to `n` pairs, at most the number of lanes.
#[inline(always)]
unsafe fn load_pairs<V: Vector>(from: *const V::T, n: usize) -> [V; 2] {
    let (low, high) = ((2 * n).min(V::N), (2 * n).saturating_sub(V::N));
    // SAFETY: the caller guarantees `2 * n` numbers.
    unsafe {
        let high = match high {
            0 => V::splat(V::T::ZERO),
            _ => V::load_some(from.add(V::N), high),
        };
        V::load_some(from, low).deinterleave(high)
    }
}

/// Stores `n` pairs of numbers.
///
/// # Safety
///
/// `to` must have space for `n` pairs, at most the number of lanes.
#[inline(always)]
unsafe fn store_pairs<V: Vector>([first, second]: [V; 2], to: *mut V::T, n: usize) {
    let [low, high] = first.interleave(second);
    // SAFETY: the caller guarantees space for `2 * n` numbers.
    unsafe {
        low.store_some(to, (2 * n).min(V::N));
        if 2 * n > V::N {
            high.store_some(to.add(V::N), 2 * n - V::N);
        }
    }
}

/// As [`choose_plane`], for windows with `K` columns.
#[inline(always)]
fn choose<const K: usize, T: Number>(
    vs: &[T],
    xs: &[T],
    out: &mut [T],
    windows: &Windows,
    [scratch, most, left]: [&mut [T]; 3],
) {
    let [_, rows, last] = windows.axes();
    for (i, vs) in vs.chunks_exact(last.count).enumerate() {
        let at = [i / rows.count, i % rows.count];
        let Some(row) = combined(xs, windows, at, &mut *scratch, T::greater) else {
            continue;
        };
        neighbours::<K, _>(row, most, T::greater);
        // Once a number is written, a zero is left for equal elements.
        left.copy_from_slice(vs);
        windows.each_row(at, |start| {
            let (x, y) = (&xs[start..][..last.len], &mut out[start..][..last.len]);
            let windows = x.as_chunks::<K>().0.iter().zip(y.as_chunks_mut::<K>().0);
            for ((x, y), (most, left)) in windows.zip(most.iter().zip(&mut *left)) {
                // Locals, because loads and stores that depend on a comparison are slow.
                let (mut numbers, mut number) = ([T::ZERO; K], *left);
                for (x, to) in x.iter().zip(&mut numbers) {
                    let wins = !most.above(*x);
                    *to = if wins { number } else { T::ZERO };
                    number = if wins { T::ZERO } else { number };
                }
                (*y, *left) = (numbers, number);
            }
        });
    }
}

/// Calls `f` with the first window of each row of windows, and the elements of the plane where its
/// windows are greatest. A window of padding only has [`NOWHERE`].
///
/// # Panics
///
/// If a plane has more elements than an `i32` counts.
fn each_greatest<T: Number + Plain>(
    xs: &[T],
    windows: &Windows,
    columns: &[Run],
    mut f: impl FnMut(usize, &[i32]),
) {
    thread_local! {
        static PLACES: Scratch = const { Scratch::new(AlignedVec::new()) };
    }
    let [planes, rows, last] = windows.axes();
    i32::try_from(xs.len()).expect("a plane has fewer than 2^31 elements");
    with_slices(&PLACES, [last.count], |[places]| {
        with_scratch([last.count], |[most]| {
            for row in 0..planes.count * rows.count {
                let at = [row / rows.count, row % rows.count];
                places.fill(NOWHERE);
                windows.each_row(at, |start| {
                    greatest_in_row(
                        &xs[start..][..last.len],
                        start,
                        columns,
                        windows,
                        most,
                        places,
                    );
                });
                f(row * last.count, places);
            }
        });
    });
}

/// The place of the greatest element of a window that has none.
const NOWHERE: i32 = -1;

leveled! {
    /// Updates the greatest element of each window, and its place, by those in a row of the plane that
    /// begins at `start`. Of equal elements, the first is greatest.
    fn greatest_in_row<S, T: Number>(
        row: &[T],
        start: usize,
        columns: &[Run],
        windows: &Windows,
        most: &mut [T],
        places: &mut [i32],
    ) {
        let stride = windows.stride();
        for run in columns {
            let most = &mut most[run.window..][..run.len];
            let places = &mut places[run.window..][..run.len];
            let first = (start + run.element) as i32;
            let update = |i: usize, (most, place): (&mut T, &mut i32), x: T| {
                let wins = (*place == NOWHERE) | x.above(*most);
                *most = if wins { x } else { *most };
                *place = if wins { first + (i * stride) as i32 } else { *place };
            };
            strided_pairs(most, places, &row[run.element..], stride, update);
        }
    }
}

/// Calls `f` with the index of each pair, the pair, and every `stride`-th element of `xs`.
#[inline(always)]
fn strided_pairs<A, B, T: Copy>(
    left: &mut [A],
    right: &mut [B],
    xs: &[T],
    stride: usize,
    f: impl Fn(usize, (&mut A, &mut B), T),
) {
    let n = left.len();
    if stride == 2 {
        // Whole chunks vectorise. The last element may stand alone.
        let whole = n.min(xs.len() / 2);
        let pairs = left[..whole].iter_mut().zip(&mut right[..whole]);
        let chunks = pairs.zip(xs.chunks_exact(2)).enumerate();
        chunks.for_each(|(i, (p, x))| f(i, p, x[0]));
        if whole < n {
            f(whole, (&mut left[whole], &mut right[whole]), xs[2 * whole]);
        }
        return;
    }
    let pairs = left.iter_mut().zip(right).enumerate();
    match stride {
        1 => pairs.zip(xs).for_each(|((i, p), x)| f(i, p, *x)),
        _ => (pairs.zip(xs.iter().step_by(stride))).for_each(|((i, p), x)| f(i, p, *x)),
    }
}

/// Combines the rows of the plane that a row of windows reaches. Returns `None` if all are padding.
#[inline(always)]
fn combined<'a, T: Number>(
    xs: &'a [T],
    windows: &Windows,
    at: [usize; 2],
    scratch: &'a mut [T],
    f: impl Fn(T, T) -> T + Copy,
) -> Option<&'a [T]> {
    let len = scratch.len();
    let (mut first, mut n) = (None, 0);
    windows.each_row(at, |start| {
        let row = &xs[start..][..len];
        match (first, n) {
            (Some(first), 1) => {
                let first: &[T] = first;
                let rows = first.iter().zip(row);
                (scratch.iter_mut().zip(rows)).for_each(|(y, (a, b))| *y = f(*a, *b));
            }
            (Some(_), _) => (scratch.iter_mut().zip(row)).for_each(|(y, x)| *y = f(*y, *x)),
            (None, _) => first = Some(row),
        }
        n += 1;
    });
    if n > 1 { Some(scratch) } else { first }
}

/// Combines the elements of windows of `K` neighbours in a row.
#[inline(always)]
fn neighbours<const K: usize, T: Number>(row: &[T], out: &mut [T], f: impl Fn(T, T) -> T) {
    let windows = row.chunks_exact(K);
    (out.iter_mut().zip(windows)).for_each(|(y, x)| *y = (1..K).fold(x[0], |y, k| f(y, x[k])));
}

/// Operation that combines numbers, or vectors of them.
trait Combine<T: Number>: Copy {
    /// Result for a window that has no elements, which changes no other number.
    fn nothing() -> T;
    fn pair(x: T, y: T) -> T;
    fn vectors<V: Vector<T = T>>(x: V, y: V) -> V;
}

#[derive(Clone, Copy)]
struct Plus;

impl<T: Number> Combine<T> for Plus {
    #[inline(always)]
    fn nothing() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn pair(x: T, y: T) -> T {
        x.plus(y)
    }
    #[inline(always)]
    fn vectors<V: Vector<T = T>>(x: V, y: V) -> V {
        x.plus(y)
    }
}

#[derive(Clone, Copy)]
struct Greater;

impl<T: Number> Combine<T> for Greater {
    #[inline(always)]
    fn nothing() -> T {
        T::from_static(&Static::Float(f64::NEG_INFINITY))
    }
    #[inline(always)]
    fn pair(x: T, y: T) -> T {
        x.greater(y)
    }
    #[inline(always)]
    fn vectors<V: Vector<T = T>>(x: V, y: V) -> V {
        x.greater(y)
    }
}

/// The combination of `K` vectors, one after the other.
#[derive(Clone, Copy)]
struct Rows<F>(F);

impl<V: Vector, F: Combine<V::T>, const K: usize> Map<V, K, 1> for Rows<F> {
    #[inline(always)]
    fn of(self, xs: [V; K]) -> [V; 1] {
        let mut y = xs[0];
        for x in &xs[1..] {
            y = F::vectors(y, *x);
        }
        [y]
    }
}

/// Windows whose elements are combined: first rows of the plane, then neighbours in the result.
///
/// The combined rows have the padding of a row at either end, so that vectors of windows read vectors.
struct WindowFold {
    windows: Windows,
    /// Windows that have each element of a row, if their elements are not loaded as vectors.
    columns: Option<Vec<Run>>,
    /// Number of elements before a row, and number of elements with the padding.
    before: usize,
    padded: usize,
    /// First elements of the rows of the plane that the rows of windows reach, and the end of those of
    /// each row of windows.
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// Number of rows of windows that are combined at a time.
    n_rows: usize,
}

/// Number of elements of combined rows, which fit the first-level cache.
const ROWS: usize = 4096;

impl WindowFold {
    fn new(windows: Windows) -> WindowFold {
        let [planes, rows, last] = windows.axes();
        let before = usize::try_from(last.before).ok();
        let vectors = last.stride == 1 || last.stride == 2 && last.dilation == 1;
        let padded = (last.count.max(1) - 1) * last.stride + (last.window - 1) * last.dilation + 1;
        let (before, padded, columns) = match before.filter(|before| vectors && *before < padded) {
            Some(before) => (before, padded, None),
            None => (0, last.len, Some(windows.columns())),
        };
        let all_rows = planes.count * rows.count;
        let mut starts = Vec::new();
        let ends = (0..all_rows).map(|row| {
            windows.each_row([row / rows.count, row % rows.count], |start| {
                starts.push(start)
            });
            starts.len()
        });
        WindowFold {
            ends: ends.collect(),
            windows,
            columns,
            before,
            padded,
            starts,
            n_rows: (ROWS / padded.max(1)).clamp(1, all_rows.max(1)),
        }
    }

    /// Calls `f` with the elements and the results of some planes, and with scratch.
    fn each<T: Number + Plain>(
        &self,
        xs: &[T],
        out: &mut [T],
        f: impl Fn(&[T], &mut [T], &mut [T]) + Sync,
    ) {
        let n = self.windows.n_elements();
        // Vectors of windows may end beyond the last row.
        let len = self.n_rows * self.padded + 2 * LANES;
        each_planes(
            &self.windows,
            out,
            self.windows.n_windows(),
            |first, out| {
                with_scratch([len], |[scratch]| f(&xs[first * n..], out, scratch));
            },
        );
    }
}

/// Combines the elements of each window of some planes.
#[inline(always)]
fn fold_planes<V: Vector, F: Combine<V::T>>(
    xs: &[V::T],
    out: &mut [V::T],
    fold: &WindowFold,
    scratch: &mut [V::T],
    f: F,
) {
    let (windows, padded) = (&fold.windows, fold.padded);
    let last = windows.axes()[2];
    let (n, count) = (windows.n_elements(), last.count);
    // The elements of a row that are in the padded one.
    let inside = last.len.min(padded - fold.before);
    if inside < padded {
        scratch.fill(F::nothing());
    }
    for (plane, out) in out.chunks_exact_mut(windows.n_windows()).enumerate() {
        let (xs, mut start) = (part(xs, plane, n), 0);
        for (i, out) in out.chunks_mut(fold.n_rows * count).enumerate() {
            let n_rows = out.len() / count;
            for row in 0..n_rows {
                let end = fold.ends[i * fold.n_rows + row];
                let to = &mut scratch[row * padded + fold.before..][..inside];
                combine_rows::<V, F>(xs, &fold.starts[start..end], to, f);
                start = end;
            }
            if fold.columns.is_none() && padded == count * last.stride {
                // Windows of all rows follow each other.
                fold_row::<V, F>(scratch, out, fold);
                continue;
            }
            for (row, out) in out.chunks_exact_mut(count).enumerate() {
                fold_row::<V, F>(&scratch[row * padded..], out, fold);
            }
        }
    }
}

/// Combines the rows of the plane from each of some elements on.
#[inline(always)]
fn combine_rows<V: Vector, F: Combine<V::T>>(
    xs: &[V::T],
    starts: &[usize],
    out: &mut [V::T],
    f: F,
) {
    let len = out.len();
    match *starts {
        [] => out.fill(F::nothing()),
        [a] => lanes::map::<V, 1>([&xs[a..][..len]], out, false, Rows(f)),
        [a, b] => {
            let rows = [&xs[a..][..len], &xs[b..][..len]];
            lanes::map::<V, 2>(rows, out, false, Rows(f));
        }
        [a, b, c, ref others @ ..] => {
            let rows = [&xs[a..][..len], &xs[b..][..len], &xs[c..][..len]];
            lanes::map::<V, 3>(rows, out, false, Rows(f));
            for start in others {
                let row = &xs[*start..][..len];
                (out.iter_mut().zip(row)).for_each(|(y, x)| *y = F::pair(*y, *x));
            }
        }
    }
}

/// Combines the elements of windows in a combined row.
#[inline(always)]
fn fold_row<V: Vector, F: Combine<V::T>>(row: &[V::T], out: &mut [V::T], fold: &WindowFold) {
    let last = fold.windows.axes()[2];
    let window = [last.window, last.dilation];
    match (&fold.columns, last.stride, last.window) {
        (None, 1, 3) => fold_vectors::<V, F, 1>(row, out, [3, last.dilation]),
        (None, 1, _) => fold_vectors::<V, F, 1>(row, out, window),
        (None, _, 2) => fold_vectors::<V, F, 2>(row, out, [2, 1]),
        (None, _, 3) => fold_vectors::<V, F, 2>(row, out, [3, 1]),
        (None, ..) => fold_vectors::<V, F, 2>(row, out, window),
        (Some(columns), stride, _) => match fold.windows.neighbours() {
            Some(3) => neighbours::<3, _>(row, out, F::pair),
            Some(4) => neighbours::<4, _>(row, out, F::pair),
            _ => {
                out.fill(F::nothing());
                for run in columns {
                    into_windows(row, out, (*run, stride), |y, x| *y = F::pair(*y, x));
                }
            }
        },
    }
}

/// Loads an element of each window of a vector, and the element after it if the stride is 2.
///
/// # Safety
///
/// `from` must point to `STRIDE` vectors.
#[inline(always)]
unsafe fn load_strided<V: Vector, const STRIDE: usize>(from: *const V::T) -> [V; 2] {
    // SAFETY: the caller guarantees the vectors.
    unsafe {
        match STRIDE {
            1 => [V::load(from); 2],
            _ => V::load(from).deinterleave(V::load(from.add(V::N))),
        }
    }
}

/// Combines the elements of windows at a distance of `STRIDE`, which is 1, or 2 without dilation.
#[inline(always)]
fn fold_vectors<V: Vector, F: Combine<V::T>, const STRIDE: usize>(
    row: &[V::T],
    out: &mut [V::T],
    [window, dilation]: [usize; 2],
) {
    let n = out.len().next_multiple_of(V::N);
    assert!(n * STRIDE + (window - 1) * dilation <= row.len());
    for at in (0..out.len()).step_by(V::N) {
        let from = row.as_ptr().wrapping_add(at * STRIDE);
        // SAFETY: the row has the vectors of all windows, as asserted.
        let [mut y, next] = unsafe { load_strided::<V, STRIDE>(from) };
        if STRIDE == 2 && window > 1 {
            y = F::vectors(y, next);
        }
        for tap in (STRIDE..window).step_by(STRIDE) {
            // SAFETY: as above.
            let [x, next] = unsafe { load_strided::<V, STRIDE>(from.wrapping_add(tap * dilation)) };
            y = F::vectors(y, x);
            if STRIDE == 2 && tap + 1 < window {
                y = F::vectors(y, next);
            }
        }
        let to = &mut out[at..];
        // SAFETY: `to` has the results of a vector, or those that are stored.
        unsafe {
            match to.len() >= V::N {
                true => y.store(to.as_mut_ptr()),
                false => y.store_some(to.as_mut_ptr(), to.len()),
            }
        }
    }
}

/// Divides numbers by `over`, if there is a number.
#[inline(always)]
fn divide<T: Number>(xs: &mut [T], over: Option<usize>) {
    let Some(n) = over else {
        return;
    };
    match T::reciprocal(n) {
        Some(factor) => xs.iter_mut().for_each(|x| *x = x.times(factor)),
        None => xs.iter_mut().for_each(|x| *x = x.over(n)),
    }
}

leveled! {
    fn sum_planes<S, T: Number>(
        xs: &[T],
        out: &mut [T],
        fold: &WindowFold,
        over: Option<usize>,
        scratch: &mut [T],
    ) {
        fold_planes::<T::Vectors<S>, Plus>(xs, out, fold, scratch, Plus);
        divide(out, over);
    }
}

leveled! {
    fn max_planes<S, T: Number>(xs: &[T], out: &mut [T], fold: &WindowFold, scratch: &mut [T]) {
        fold_planes::<T::Vectors<S>, Greater>(xs, out, fold, scratch, Greater);
    }
}

leveled! {
    fn spread_planes<S, T: Number>(
        ys: &[T],
        out: &mut [T],
        windows: &Windows,
        columns: &[Run],
        over: Option<usize>,
        spread: &mut [T],
    ) {
        let planes = out.chunks_exact_mut(windows.n_elements());
        for (out, ys) in planes.zip(ys.chunks_exact(windows.n_windows())) {
            spread_plane(ys, out, windows, columns, over, spread);
        }
    }
}

#[inline(always)]
fn spread_plane<T: Number>(
    ys: &[T],
    out: &mut [T],
    windows: &Windows,
    columns: &[Run],
    over: Option<usize>,
    spread: &mut [T],
) {
    if windows.are_tiles() {
        let factor = over.map(|n| (n, T::reciprocal(n)));
        return match factor {
            None => spread_tiles(ys, out, windows, columns, spread, |y| y),
            Some((_, Some(factor))) => {
                spread_tiles(ys, out, windows, columns, spread, |y| y.times(factor));
            }
            Some((n, None)) => spread_tiles(ys, out, windows, columns, spread, |y| y.over(n)),
        };
    }
    let [planes, rows, last] = windows.axes();
    out.fill(T::ZERO);
    for (plane, row) in (0..planes.count).flat_map(|p| (0..rows.count).map(move |r| (p, r))) {
        let ys = &ys[(plane * rows.count + row) * last.count..][..last.count];
        spread_row(ys, spread, windows, columns, |y| y);
        windows.each_row([plane, row], |start| {
            let out = &mut out[start..][..last.len];
            (out.iter_mut().zip(&*spread)).for_each(|(x, y)| *x = x.plus(*y));
        });
    }
    divide(out, over);
}

/// Writes `f` of each number to all elements of its window, if each element is in one window.
#[inline(always)]
fn spread_tiles<T: Number>(
    ys: &[T],
    out: &mut [T],
    windows: &Windows,
    columns: &[Run],
    spread: &mut [T],
    f: impl Fn(T) -> T + Copy,
) {
    let [planes, rows, last] = windows.axes();
    if planes.window == 1 {
        let out = out.chunks_exact_mut(rows.window * last.len);
        for (out, ys) in out.zip(ys.chunks_exact(last.count)) {
            let (first, others) = out.split_at_mut(last.len);
            spread_row(ys, first, windows, columns, f);
            for other in others.chunks_exact_mut(last.len) {
                other.copy_from_slice(first);
            }
        }
        return;
    }
    for (row, ys) in ys.chunks_exact(last.count).enumerate() {
        spread_row(ys, spread, windows, columns, f);
        windows.each_row([row / rows.count, row % rows.count], |start| {
            out[start..][..last.len].copy_from_slice(spread);
        });
    }
}

/// Adds `f` of each number to the elements of its window in a row of zeros.
#[inline(always)]
fn spread_row<T: Number>(
    ys: &[T],
    out: &mut [T],
    windows: &Windows,
    columns: &[Run],
    f: impl Fn(T) -> T + Copy,
) {
    /// Repeats each number `K` times, and writes zeros after them.
    #[inline(always)]
    fn by<const K: usize, T: Number>(ys: &[T], out: &mut [T], f: impl Fn(T) -> T) {
        let (out, rest) = out.split_at_mut(ys.len() * K);
        (out.chunks_exact_mut(K).zip(ys)).for_each(|(out, y)| out.fill(f(*y)));
        rest.fill(T::ZERO);
    }
    match windows.neighbours() {
        Some(2) => by::<2, _>(ys, out, f),
        Some(3) => by::<3, _>(ys, out, f),
        Some(4) => by::<4, _>(ys, out, f),
        _ => {
            out.fill(T::ZERO);
            for run in columns {
                let run = (*run, windows.stride());
                into_plane(ys, out, run, |x, y| *x = x.plus(f(y)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
