//! The elements of a view in row-major order, piece by piece.

use crate::dtype::Element;
use crate::layout::Layout;

/// How many elements a loop takes at a time, so that operands and results stay in the first-level cache.
pub(crate) const CHUNK: usize = 1024;

/// Hands out slices of consecutive elements of a view, in row-major order. A slice that lies in the buffer as it
/// is comes from there; any other is gathered into a buffer of its own.
pub(crate) struct Source<'a, T> {
    data: &'a [T],
    /// Length and stride of the outer axes.
    outer: Vec<(usize, usize)>,
    /// The index along each outer axis.
    index: Vec<usize>,
    /// Length and stride of the innermost axis.
    len: usize,
    stride: usize,
    /// Where the row lies of which the next element is one, and that element's place in the row.
    row: usize,
    at: usize,
    gathered: Vec<T>,
}

impl<'a, T: Element> Source<'a, T> {
    pub(crate) fn new(data: &'a [T], layout: &Layout) -> Source<'a, T> {
        let mut outer = layout.runs();
        let (len, stride) = outer.pop().unwrap_or((1, 0));
        Source {
            data,
            index: vec![0; outer.len()],
            outer,
            len,
            stride,
            row: layout.offset,
            at: 0,
            gathered: Vec::new(),
        }
    }

    /// The next `n` elements. There have to be as many.
    pub(crate) fn next(&mut self, n: usize) -> &[T] {
        if n == 0 {
            return &[];
        }
        if self.stride == 1 && self.len - self.at >= n {
            let from = self.row + self.at;
            self.advance(n);
            return &self.data[from..from + n];
        }
        if self.outer.is_empty() && self.stride == 0 {
            if self.gathered.len() < n {
                self.gathered.resize(n, self.data[self.row]);
            }
            return &self.gathered[..n];
        }
        self.gathered.clear();
        while self.gathered.len() < n {
            let take = (n - self.gathered.len()).min(self.len - self.at);
            let from = self.row + self.at * self.stride;
            match self.stride {
                0 => self
                    .gathered
                    .resize(self.gathered.len() + take, self.data[from]),
                1 => self
                    .gathered
                    .extend_from_slice(&self.data[from..from + take]),
                s => self
                    .gathered
                    .extend(self.data[from..].iter().step_by(s).take(take)),
            }
            self.advance(take);
        }
        &self.gathered
    }

    /// The next elements, at most `n` and at most [`CHUNK`].
    pub(crate) fn next_chunk(&mut self, n: usize) -> &[T] {
        self.next(n.min(CHUNK))
    }

    /// `n` elements on, at most to the end of the row.
    fn advance(&mut self, n: usize) {
        self.at += n;
        if self.at < self.len {
            return;
        }
        self.at = 0;
        for (i, &(len, stride)) in self.index.iter_mut().zip(&self.outer).rev() {
            *i += 1;
            self.row += stride;
            if *i < len {
                return;
            }
            *i = 0;
            self.row -= len * stride;
        }
    }
}
