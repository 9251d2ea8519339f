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

    /// Returns the axes of the windows: planes, rows and columns.
    pub(crate) fn axes(&self) -> &[WindowAxis; MAX_AXES] {
        &self.axes
    }

    /// Calls `f` with the first element of each row of the plane that a row of windows reaches.
    ///
    /// The row of windows has an index along the first axis and one along the second.
    #[inline(always)]
    pub(crate) fn each_row(&self, at: [usize; 2], mut f: impl FnMut(usize)) {
        let [planes, rows, columns] = &self.axes;
        for plane_tap in 0..planes.window {
            let Some(plane) = planes.position(at[0], plane_tap) else {
                continue;
            };
            for row_tap in 0..rows.window {
                if let Some(row) = rows.position(at[1], row_tap) {
                    f((plane * rows.len + row) * columns.len);
                }
            }
        }
    }

    /// Returns the windows that have each element of a row of a window, as runs in a row.
    pub(crate) fn columns(&self) -> Vec<Run> {
        let columns = &self.axes[MAX_AXES - 1];
        let run = |tap| {
            let inside = columns.inside(tap);
            let element = columns.position(inside.start, tap).unwrap_or(0);
            Run {
                tap,
                window: inside.start,
                element,
                len: inside.len(),
            }
        };
        (0..columns.window)
            .map(run)
            .filter(|run| run.len > 0)
            .collect()
    }

    /// Returns the length of the windows along the last axis, if they are neighbours without gaps.
    pub(crate) fn neighbours(&self) -> Option<usize> {
        neighbours(&self.axes[MAX_AXES - 1])
    }

    /// Returns whether windows have two rows and two columns, and do not overlap.
    pub(crate) fn are_squares(&self) -> bool {
        let [planes, rows, columns] = &self.axes;
        let pairs = [rows, columns]
            .iter()
            .all(|axis| neighbours(axis) == Some(2));
        pairs && self.n_windows() > 0 && neighbours(planes) == Some(1) && planes.count == planes.len
    }

    /// Returns the windows of the results whose sums are the transpose of sums over these windows.
    ///
    /// Returns `None` if these are further apart than 1, or do not overlap.
    pub(crate) fn transposed(&self) -> Option<Windows> {
        let apart = |axis: &WindowAxis| axis.count > 1 && axis.stride != 1;
        if self.are_tiles() || self.axes.iter().any(apart) {
            return None;
        }
        let axes = self.axes.map(|axis| WindowAxis {
            len: axis.count,
            count: axis.len,
            // A single window may have any stride.
            stride: 1,
            before: ((axis.window - 1) * axis.dilation) as i64 - axis.before,
            ..axis
        });
        Some(Windows { axes })
    }

    /// Returns whether each element of the plane is in exactly one window.
    pub(crate) fn are_tiles(&self) -> bool {
        let tiles = |axis: &WindowAxis| neighbours(axis) == Some(axis.window);
        let covers = |axis: &WindowAxis| axis.count * axis.window == axis.len;
        self.axes.iter().all(|axis| tiles(axis) && covers(axis))
    }
}

/// Returns the length of the windows along an axis, if they are neighbours from its start on, without
/// gaps.
fn neighbours(axis: &WindowAxis) -> Option<usize> {
    let dense = axis.window == 1 || axis.dilation == 1;
    let apart = axis.count <= 1 || axis.stride == axis.window;
    let inside = axis.before == 0 && axis.count * axis.window <= axis.len;
    (dense && apart && inside).then_some(axis.window)
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
    f: impl FnMut(&mut T, T),
) {
    let windows = &mut windows[run.window..][..run.len];
    each_strided(windows, &plane[run.element..], stride, f);
}

/// Calls `f` with each element of `ys` and every `stride`-th element of `xs`.
#[inline(always)]
pub(crate) fn each_strided<Y, T: Copy>(
    ys: &mut [Y],
    xs: &[T],
    stride: usize,
    mut f: impl FnMut(&mut Y, T),
) {
    /// As [`each_strided`], for a stride that the compiler knows: it reads vectors.
    #[inline(always)]
    fn by<const STRIDE: usize, Y, T: Copy>(ys: &mut [Y], xs: &[T], mut f: impl FnMut(&mut Y, T)) {
        let whole = ys.len().min(xs.len() / STRIDE);
        let (ys, last) = ys.split_at_mut(whole);
        let (xs, rest) = xs.split_at(whole * STRIDE);
        (ys.iter_mut().zip(xs.chunks_exact(STRIDE))).for_each(|(y, x)| f(y, x[0]));
        (last.iter_mut().zip(rest)).for_each(|(y, x)| f(y, *x));
    }
    match stride {
        1 => (ys.iter_mut().zip(xs)).for_each(|(y, x)| f(y, *x)),
        2 => by::<2, _, _>(ys, xs, f),
        3 => by::<3, _, _>(ys, xs, f),
        4 => by::<4, _, _>(ys, xs, f),
        _ => (ys.iter_mut().zip(xs.iter().step_by(stride))).for_each(|(y, x)| f(y, *x)),
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

#[cfg(test)]
pub(crate) mod tests {
    use gradloom_ir::op::windows::WindowAxis;

    /// Returns an axis with as many windows as fit, with padding of `before` at both ends.
    pub(crate) fn axis(
        len: usize,
        window: usize,
        stride: usize,
        dilation: usize,
        before: i64,
    ) -> WindowAxis {
        let end = len as i64 + 2 * before - ((window - 1) * dilation + 1) as i64;
        WindowAxis {
            len,
            count: (end / stride as i64 + 1) as usize,
            window,
            stride,
            dilation,
            before,
        }
    }
}
