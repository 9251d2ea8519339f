//! Pooling: sums and maxima of windows, and their transposes.
//!
//! Each kernel works on planes, one for each index of the leading axes.

use crate::memory::aligned_vec::AlignedVec;
use crate::memory::element::Element;
use crate::memory::scratch::{Plain, Scratch, with_scratch, with_slices};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use crate::windows::{Run, Windows, into_plane, into_windows, part};
use gradloom_ir::{DType, Static};

/// Number of elements that one thread reads and compares or adds in a nanosecond.
const PER_NANO: usize = 4;

/// Number of elements read for the part of a result that one thread computes.
const TASK: usize = 1 << 14;

/// Calls `f` with the index and the result of each plane, on several threads if that pays off.
fn each_plane<T: Element>(
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
        for (i, out) in out.chunks_exact_mut(plane).enumerate() {
            f(task * at_once + i, out);
        }
    });
}

/// Sums the elements of each window, divided by `over` if there is a number.
pub fn sum(dtype: DType, windows: Windows, over: Option<usize>) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows, over: Option<usize>) -> Prepared {
        let columns = windows.columns();
        map(move |xs: &[T], out: &mut [T]| {
            let n = windows.n_elements();
            each_plane(&windows, out, windows.n_windows(), |i, out| {
                with_scratch([windows.axes()[2].len], |[scratch]| {
                    sum_plane(part(xs, i, n), out, &windows, &columns, over, scratch);
                });
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
            each_plane(&windows, out, windows.n_elements(), |i, out| {
                with_scratch([windows.axes()[2].len], |[scratch]| {
                    spread_plane(part(ys, i, n), out, &windows, &columns, over, scratch);
                });
            });
        })
    }
    on_number!(dtype, typed(windows, over))
}

/// Finds the greatest element of each window.
pub fn max(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number + Plain>(windows: Windows) -> Prepared {
        let columns = windows.columns();
        map(move |xs: &[T], out: &mut [T]| {
            let n = windows.n_elements();
            each_plane(&windows, out, windows.n_windows(), |i, out| {
                with_scratch([windows.axes()[2].len], |[scratch]| {
                    max_plane(part(xs, i, n), out, &windows, &columns, scratch);
                });
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
        Box::new(move |args, outs| {
            let [vs, xs] = [0, 1].map(|i| T::slice(args[i]));
            let [n, n_windows] = [windows.n_elements(), windows.n_windows()];
            let out = T::slice_mut(&mut outs[0]);
            let [.., last] = windows.axes();
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

/// Combines the elements of each window. A window of padding only gives `nothing`.
#[inline(always)]
fn fold_plane<T: Number>(
    xs: &[T],
    out: &mut [T],
    windows: &Windows,
    columns: &[Run],
    scratch: &mut [T],
    (nothing, f): (T, impl Fn(T, T) -> T + Copy),
) {
    let [_, rows, last] = windows.axes();
    let (stride, k) = (windows.stride(), windows.neighbours());
    for (plane, out) in out.chunks_exact_mut(rows.count * last.count).enumerate() {
        for (row, out) in out.chunks_exact_mut(last.count).enumerate() {
            let row = combined(xs, windows, [plane, row], &mut *scratch, f);
            match (row, k) {
                (None, _) => out.fill(nothing),
                (Some(row), Some(2)) => neighbours::<2, _>(row, out, f),
                (Some(row), Some(3)) => neighbours::<3, _>(row, out, f),
                (Some(row), Some(4)) => neighbours::<4, _>(row, out, f),
                (Some(row), _) => {
                    out.fill(nothing);
                    for run in columns {
                        into_windows(row, out, (*run, stride), |y, x| *y = f(*y, x));
                    }
                }
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
    fn sum_plane<S, T: Number>(
        xs: &[T],
        out: &mut [T],
        windows: &Windows,
        columns: &[Run],
        over: Option<usize>,
        scratch: &mut [T],
    ) {
        fold_plane(xs, out, windows, columns, scratch, (T::ZERO, T::plus));
        divide(out, over);
    }
}

leveled! {
    fn max_plane<S, T: Number>(
        xs: &[T],
        out: &mut [T],
        windows: &Windows,
        columns: &[Run],
        scratch: &mut [T],
    ) {
        let least = T::from_static(&Static::Float(f64::NEG_INFINITY));
        fold_plane(xs, out, windows, columns, scratch, (least, T::greater));
    }
}

leveled! {
    fn spread_plane<S, T: Number>(
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
mod tests {
    use super::max_vjp;
    use crate::memory::{Data, DataMut};
    use crate::windows::Windows;
    use gradloom_ir::DType;
    use gradloom_ir::op::windows::WindowAxis;

    #[test]
    fn the_first_of_equal_maxima_of_a_tile_gets_the_number() {
        let nan = f32::NAN;
        let numbers = [
            1.0,
            2.0,
            2.0,
            -0.0,
            0.0,
            -1.0,
            nan,
            2.0,
            nan,
            f32::NEG_INFINITY,
        ];
        for window in 1..6 {
            let axis = |len: usize, window: usize| WindowAxis {
                len,
                count: len / window,
                window,
                stride: window,
                dilation: 1,
                before: 0,
            };
            let [rows, cols] = [6, 9 * window];
            let windows = Windows::new(&[axis(rows, 2), axis(cols, window)]);
            let n = rows * cols;
            let xs: Vec<f32> = (0..2 * n).map(|i| numbers[i * 7919 % 1009 % 10]).collect();
            let vs: Vec<f32> = (0..2 * rows / 2 * 9).map(|i| i as f32 + 1.0).collect();
            let (mut found, mut want) = (vec![9.0; 2 * n], vec![0.0; 2 * n]);
            for (i, v) in vs.iter().enumerate() {
                let (row, col) = (i / 9 * 2, i % 9 * window);
                let places = (0..2 * window).map(|k| (row + k / window) * cols + col + k % window);
                let wins = |x: f32, y: f32| x > y || x.is_nan() && !y.is_nan();
                let best = places.reduce(|best, at| if wins(xs[at], xs[best]) { at } else { best });
                want[best.unwrap()] = *v;
            }
            let kernel = max_vjp(DType::F32, windows);
            kernel(
                &[Data::F32(&vs), Data::F32(&xs)],
                &mut [DataMut::F32(&mut found)],
            )
            .unwrap();
            assert_eq!(found, want, "{window}");
        }
    }
}
