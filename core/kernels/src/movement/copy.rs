//! Copies of strided elements.

use crate::memory::element::Element;
use crate::memory::layout::{Layout, numel};
use crate::movement::gather::Gather;

/// Number of rows and columns of a tile: whole cache lines on both sides.
const TILE: usize = 16;

/// Copy into row-major order, resolved for a layout.
pub(crate) enum Copy {
    /// Copies contiguous pieces in the order of the result.
    Rows(Gather),
    /// Copies tiles, for layouts where the order of the result would jump between cache lines.
    Tiles(CopyTiles),
}

/// Transposed matrices, copied tile by tile.
pub(crate) struct CopyTiles {
    rows: usize,
    cols: usize,
    /// Stride between columns in the operand.
    jump: usize,
    /// Stride between rows in the result.
    row_stride: usize,
    /// Start of each matrix in the operand and in the result.
    corners: Vec<(usize, usize)>,
}

impl Copy {
    pub(crate) fn new(layout: &Layout) -> Copy {
        match CopyTiles::new(layout) {
            Some(tiles) => Copy::Tiles(tiles),
            None => Copy::Rows(Gather::new(layout)),
        }
    }

    /// Writes all of `out`.
    pub(crate) fn run<T: Element>(&self, data: &[T], out: &mut [T]) {
        match self {
            _ if out.is_empty() => {}
            Copy::Rows(gather) => gather.read(data, 0, out),
            Copy::Tiles(tiles) => tiles.run(data, out),
        }
    }
}

impl CopyTiles {
    fn new(layout: &Layout) -> Option<CopyTiles> {
        let runs = layout.runs();
        let (&(cols, jump), outer) = runs.split_last()?;
        let row_axis = outer.iter().position(|run| run.1 == 1)?;
        if jump <= 1 || layout.numel() < 1024 {
            return None;
        }
        let lens: Vec<usize> = runs.iter().map(|run| run.0).collect();
        let to = Layout::contiguous(&lens);
        let mut corners = vec![(layout.offset, 0)];
        for (axis, &(len, stride)) in outer.iter().enumerate() {
            if axis != row_axis {
                let along = |&(from, at): &(usize, usize)| {
                    let to = to.strides[axis];
                    (0..len).map(move |i| (from + i * stride, at + i * to))
                };
                corners = corners.iter().flat_map(along).collect();
            }
        }
        Some(CopyTiles {
            rows: lens[row_axis],
            cols,
            jump,
            row_stride: to.strides[row_axis],
            corners,
        })
    }

    fn run<T: Element>(&self, data: &[T], out: &mut [T]) {
        let mut tile = [T::default(); TILE * TILE];
        for &(from, at) in &self.corners {
            for i0 in (0..self.rows).step_by(TILE) {
                let n = TILE.min(self.rows - i0);
                for j0 in (0..self.cols).step_by(TILE) {
                    let m = TILE.min(self.cols - j0);
                    let from = &data[from + i0 + j0 * self.jump..];
                    let to = &mut out[at + i0 * self.row_stride + j0..];
                    match [n, m] {
                        // The compiler knows the lengths of most tiles.
                        [TILE, TILE] => self.tile(from, to, [TILE, TILE], &mut tile),
                        _ => self.tile(from, to, [n, m], &mut tile),
                    }
                }
            }
        }
    }

    /// Copies a tile with `n` rows and `m` columns.
    #[inline(always)]
    fn tile<T: Element>(
        &self,
        from: &[T],
        to: &mut [T],
        [n, m]: [usize; 2],
        tile: &mut [T; TILE * TILE],
    ) {
        for j in 0..m {
            let column = &from[j * self.jump..][..n];
            for i in 0..n {
                tile[i * TILE + j] = column[i];
            }
        }
        for i in 0..n {
            to[i * self.row_stride..][..m].copy_from_slice(&tile[i * TILE..][..m]);
        }
    }
}

/// Copy of contiguous elements into a strided part of a result.
pub(crate) struct Scatter {
    layout: Layout,
    runs: Vec<(usize, usize)>,
    inner: (usize, usize),
}

impl Scatter {
    pub(crate) fn new(layout: &Layout) -> Scatter {
        let mut runs = layout.runs();
        let inner = runs.pop().unwrap_or((1, 1));
        Scatter {
            layout: layout.clone(),
            runs,
            inner,
        }
    }

    /// Writes `xs`, in row-major order, to the part.
    pub(crate) fn run<T: Element>(&self, xs: &[T], out: &mut [T]) {
        self.combine(xs, out, |_, x| x);
    }

    /// Replaces each element of the part by its combination with that of `xs`, which is in row-major order.
    pub(crate) fn combine<T: Element>(&self, xs: &[T], out: &mut [T], by: impl Fn(T, T) -> T) {
        if self.layout.numel() == 0 {
            return;
        }
        let (len, stride) = self.inner;
        let lens: Vec<usize> = self.runs.iter().map(|run| run.0).collect();
        for (row, piece) in xs.chunks_exact(len).enumerate().take(numel(&lens)) {
            let mut at = self.layout.offset;
            let mut rest = row;
            for &(len, stride) in self.runs.iter().rev() {
                at += rest % len * stride;
                rest /= len;
            }
            if stride == 1 {
                for (y, &x) in out[at..at + len].iter_mut().zip(piece) {
                    *y = by(*y, x);
                }
            } else {
                for (y, &x) in out[at..].iter_mut().step_by(stride).zip(piece) {
                    *y = by(*y, x);
                }
            }
        }
    }
}
