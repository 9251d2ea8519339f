//! Pooling: sums and maxima of windows, and their transposes.
//!
//! Each kernel works on planes, one for each index of the leading axes.

use crate::memory::element::Element;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use crate::windows::{Windows, into_plane, into_windows, part};
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
    fn typed<T: Number>(windows: Windows, over: Option<usize>) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            let n = windows.n_elements();
            each_plane(&windows, out, windows.n_windows(), |i, out| {
                sum_plane(part(xs, i, n), out, &windows, over);
            });
        })
    }
    on_number!(dtype, typed(windows, over))
}

/// Adds each number to all elements of its window, divided by `over` if there is a number.
pub fn sum_t(dtype: DType, windows: Windows, over: Option<usize>) -> Prepared {
    fn typed<T: Number>(windows: Windows, over: Option<usize>) -> Prepared {
        map(move |ys: &[T], out: &mut [T]| {
            let n = windows.n_windows();
            each_plane(&windows, out, windows.n_elements(), |i, out| {
                spread_plane(part(ys, i, n), out, &windows, over);
            });
        })
    }
    on_number!(dtype, typed(windows, over))
}

/// Finds the greatest element of each window.
pub fn max(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number>(windows: Windows) -> Prepared {
        let least = T::from_static(&Static::Float(f64::NEG_INFINITY));
        map(move |xs: &[T], out: &mut [T]| {
            let n = windows.n_elements();
            each_plane(&windows, out, windows.n_windows(), |i, out| {
                out.fill(least);
                max_plane(part(xs, i, n), out, &windows);
            });
        })
    }
    on_number!(dtype, typed(windows))
}

/// Takes the element of the first operand where each window of the second is greatest.
pub fn max_jvp(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number>(windows: Windows) -> Prepared {
        Box::new(move |args, outs| {
            let [vs, xs] = [0, 1].map(|i| T::slice(args[i]));
            let n = windows.n_elements();
            let out = T::slice_mut(&mut outs[0]);
            each_plane(&windows, out, windows.n_windows(), |i, out| {
                let (vs, xs) = (part(vs, i, n), part(xs, i, n));
                for (window, y) in out.iter_mut().enumerate() {
                    let best = windows.best(xs, window, T::above);
                    *y = best.map_or(T::ZERO, |at| vs[at]);
                }
            });
            Ok(())
        })
    }
    on_number!(dtype, typed(windows))
}

/// Adds each number of the first operand where its window of the second is greatest.
pub fn max_vjp(dtype: DType, windows: Windows) -> Prepared {
    fn typed<T: Number>(windows: Windows) -> Prepared {
        Box::new(move |args, outs| {
            let [vs, xs] = [0, 1].map(|i| T::slice(args[i]));
            let [n, n_windows] = [windows.n_elements(), windows.n_windows()];
            let out = T::slice_mut(&mut outs[0]);
            each_plane(&windows, out, n, |i, out| {
                out.fill(T::ZERO);
                let (vs, xs) = (part(vs, i, n_windows), part(xs, i, n));
                for (window, v) in vs.iter().enumerate() {
                    if let Some(at) = windows.best(xs, window, T::above) {
                        out[at] = out[at].plus(*v);
                    }
                }
            });
            Ok(())
        })
    }
    on_number!(dtype, typed(windows))
}

leveled! {
    fn sum_plane<S, T: Number>(xs: &[T], out: &mut [T], windows: &Windows, over: Option<usize>) {
        out.fill(T::ZERO);
        let stride = windows.stride();
        windows.each_run(0..windows.n_windows(), |run| {
            into_windows(xs, out, (run, stride), |y, x| *y = y.plus(x));
        });
        if let Some(n) = over {
            out.iter_mut().for_each(|y| *y = y.over(n));
        }
    }
}

leveled! {
    fn spread_plane<S, T: Number>(ys: &[T], out: &mut [T], windows: &Windows, over: Option<usize>) {
        out.fill(T::ZERO);
        let stride = windows.stride();
        windows.each_run(0..windows.n_windows(), |run| {
            into_plane(ys, out, (run, stride), |x, y| *x = x.plus(y));
        });
        if let Some(n) = over {
            out.iter_mut().for_each(|x| *x = x.over(n));
        }
    }
}

leveled! {
    fn max_plane<S, T: Number>(xs: &[T], out: &mut [T], windows: &Windows) {
        let stride = windows.stride();
        windows.each_run(0..windows.n_windows(), |run| {
            into_windows(xs, out, (run, stride), |y, x| *y = y.greater(x));
        });
    }
}
