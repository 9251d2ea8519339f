//! Columns of a convolution: the elements of each window, for all channels of a group.
//!
//! There is a row for each channel and each element of a window, and a column for each window.

use crate::conv::Conv;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::windows::{into_plane, into_windows};

leveled! {
    /// Writes the columns of the windows from `first` on. Elements in the padding are 0.
    pub(super) fn gather<S, T: Number>(x: &[T], columns: &mut [T], of: &Conv, first: usize) {
        let n = columns.len() / of.depth();
        let (windows, stride) = (&of.windows, of.windows.stride());
        columns.fill(T::ZERO);
        let planes = x.chunks_exact(windows.n_elements());
        for (plane, columns) in planes.zip(columns.chunks_exact_mut(windows.n_taps() * n)) {
            windows.each_run(first..first + n, |mut run| {
                run.window -= first;
                let row = &mut columns[run.tap * n..][..n];
                into_windows(plane, row, (run, stride), |y, x| *y = x);
            });
        }
    }
}

leveled! {
    /// Adds the columns of the windows from `first` on to the elements that they were gathered from.
    pub(super) fn scatter<S, T: Number>(columns: &[T], x: &mut [T], of: &Conv, first: usize) {
        let n = columns.len() / of.depth();
        let (windows, stride) = (&of.windows, of.windows.stride());
        let planes = x.chunks_exact_mut(windows.n_elements());
        for (plane, columns) in planes.zip(columns.chunks_exact(windows.n_taps() * n)) {
            windows.each_run(first..first + n, |mut run| {
                run.window -= first;
                let row = &columns[run.tap * n..][..n];
                into_plane(row, plane, (run, stride), |x, y| *x = x.plus(y));
            });
        }
    }
}
