//! Loops over windows that slide along up to three axes.

use gradloom_ir::op::windows::{MAX_AXES, WindowAxis};
use std::ops::Range;

/// Windows that slide over a plane: a tensor with three axes, some of which may have length 1.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    axes: [WindowAxis; MAX_AXES],
}

/// Windows in a row, one of whose elements does not lie in the padding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The element of the windows, counted in row-major order.
    pub(crate) tap: usize,
    /// Index of the first window.
    pub(crate) window: usize,
    /// Index of this element of the first window in the plane.
    pub(crate) element: usize,
    /// Number of windows.
    pub(crate) len: usize,
}

impl Windows {
    /// Creates windows along the last axes of a plane.
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`MAX_AXES`] axes.
    pub fn new(last: &[WindowAxis]) -> Windows {
        let mut axes = [WindowAxis::UNIT; MAX_AXES];
        axes[MAX_AXES - last.len()..].copy_from_slice(last);
        Windows { axes }
    }

    /// Returns the number of elements of the plane.
    pub fn n_elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// Returns the number of windows.
    pub fn n_windows(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// Returns the number of elements of a window.
    pub fn n_taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.window).product()
    }

    /// Returns the distance between neighbouring windows of a row in the plane.
    pub(crate) fn stride(&self) -> usize {
        self.axes[MAX_AXES - 1].stride
    }

    /// Returns whether window `i` is element `i`.
    pub(crate) fn are_elements(&self) -> bool {
        self.axes.iter().all(|axis| {
            let of_one = axis.window == 1 && axis.before == 0;
            of_one && axis.count == axis.len && (axis.stride == 1 || axis.len <= 1)
        })
    }

    /// Calls `f` for each element of a window, in row-major order, and each run of the windows
    /// `within`.
    #[inline(always)]
    pub(crate) fn each_run(&self, within: Range<usize>, mut f: impl FnMut(Run)) {
        let [planes, rows, columns] = &self.axes;
        if within.is_empty() {
            return;
        }
        let n = columns.count;
        let of_rows = within.start / n..(within.end - 1) / n + 1;
        for plane_tap in 0..planes.window {
            for row_tap in 0..rows.window {
                for column_tap in 0..columns.window {
                    let tap = (plane_tap * rows.window + row_tap) * columns.window + column_tap;
                    let inside = columns.inside(column_tap);
                    for row in of_rows.clone() {
                        let plane = planes.position(row / rows.count, plane_tap);
                        let position = rows.position(row % rows.count, row_tap);
                        let (Some(plane), Some(position)) = (plane, position) else {
                            continue;
                        };
                        let first = row * n;
                        let start = inside.start.max(within.start.saturating_sub(first));
                        let end = inside.end.min(within.end - first);
                        if start >= end {
                            continue;
                        }
                        let column = columns.position(start, column_tap);
                        let column = column.expect("the window is inside");
                        f(Run {
                            tap,
                            window: first + start,
                            element: (plane * rows.len + position) * columns.len + column,
                            len: end - start,
                        });
                    }
                }
            }
        }
    }

    /// Returns the index of the greatest element of a window, if it has one outside of the padding.
    ///
    /// The first of equal elements is returned, where `wins(x, best)` is the strict order.
    #[inline(always)]
    pub(crate) fn best<T: Copy>(
        &self,
        plane: &[T],
        window: usize,
        wins: impl Fn(T, T) -> bool,
    ) -> Option<usize> {
        let [planes, rows, columns] = &self.axes;
        let (row, column) = (window / columns.count, window % columns.count);
        let mut best: Option<(usize, T)> = None;
        for plane_tap in 0..planes.window {
            let Some(p) = planes.position(row / rows.count, plane_tap) else {
                continue;
            };
            for row_tap in 0..rows.window {
                let Some(r) = rows.position(row % rows.count, row_tap) else {
                    continue;
                };
                for column_tap in 0..columns.window {
                    let Some(c) = columns.position(column, column_tap) else {
                        continue;
                    };
                    let at = (p * rows.len + r) * columns.len + c;
                    let x = plane[at];
                    if best.is_none_or(|(_, best)| wins(x, best)) {
                        best = Some((at, x));
                    }
                }
            }
        }
        best.map(|(at, _)| at)
    }
}

/// Returns part `i` of a list of parts of `len` elements.
pub(crate) fn part<T>(xs: &[T], i: usize, len: usize) -> &[T] {
    &xs[i * len..][..len]
}

/// Calls `f` with each window of a run and its element of the plane.
#[inline(always)]
pub(crate) fn into_windows<T: Copy>(
    plane: &[T],
    windows: &mut [T],
    (run, stride): (Run, usize),
    mut f: impl FnMut(&mut T, T),
) {
    let windows = &mut windows[run.window..][..run.len];
    let plane = &plane[run.element..];
    match stride {
        1 => (windows.iter_mut().zip(&plane[..run.len])).for_each(|(y, x)| f(y, *x)),
        _ => (windows.iter_mut().zip(plane.iter().step_by(stride))).for_each(|(y, x)| f(y, *x)),
    }
}

/// Calls `f` with each element of the plane that a run reaches, and its window.
#[inline(always)]
pub(crate) fn into_plane<T: Copy>(
    windows: &[T],
    plane: &mut [T],
    (run, stride): (Run, usize),
    mut f: impl FnMut(&mut T, T),
) {
    let windows = &windows[run.window..][..run.len];
    let plane = &mut plane[run.element..];
    match stride {
        1 => (plane[..run.len].iter_mut().zip(windows)).for_each(|(x, y)| f(x, *y)),
        _ => (plane.iter_mut().step_by(stride).zip(windows)).for_each(|(x, y)| f(x, *y)),
    }
}
