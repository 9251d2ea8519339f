//! Reads elements of a strided layout in row-major order.

use crate::memory::layout::Layout;
use smallvec::SmallVec;

/// A layout, prepared for reading in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    offset: usize,
    /// Lengths and strides of the outer axes; adjacent evenly spaced axes are merged.
    outer: Box<[(usize, usize)]>,
    /// Length and stride of the innermost axis.
    inner: (usize, usize),
}

impl Gather {
    pub(crate) fn new(layout: &Layout) -> Gather {
        let mut outer = layout.runs();
        let inner = outer.pop().unwrap_or((1, 0));
        Gather {
            offset: layout.offset,
            outer: outer.into(),
            inner,
        }
    }

    /// Returns the index of the only element, if the layout repeats a single one.
    pub(crate) fn splat(&self) -> Option<usize> {
        (self.outer.is_empty() && self.inner.1 == 0).then_some(self.offset)
    }

    /// Returns the index of element `from`, if the elements `from..from + n` are contiguous.
    pub(crate) fn run(&self, from: usize, n: usize) -> Option<usize> {
        let (len, stride) = self.inner;
        let at = from.checked_rem(len)?;
        (stride == 1 && len - at >= n).then(|| self.row(from / len) + at)
    }

    /// Returns where the row of `n` elements from `at` on starts and the position of the first one in it, if all of
    /// them are in repetitions of one row.
    pub(crate) fn repeated(&self, at: usize, n: usize) -> Option<(usize, usize)> {
        let row = at.checked_div(self.inner.0)?;
        (self.repetitions(at) >= n).then(|| (self.row(row), at % self.inner.0))
    }

    /// Returns the number of elements from `at` on that are in repetitions of the same row.
    fn repetitions(&self, at: usize) -> usize {
        let mut outer = self.outer.iter().rev();
        let equal = match outer.next() {
            Some((n, 0)) if outer.len() == 0 => return usize::MAX,
            Some((n, 0)) => n * self.inner.0,
            Some(_) => self.inner.0,
            None => return usize::MAX,
        };
        equal - at % equal
    }

    /// Returns the index of the first element of a row of the innermost axis.
    fn row(&self, mut row: usize) -> usize {
        let mut at = self.offset;
        for &(len, stride) in self.outer.iter().rev() {
            at += row % len * stride;
            row /= len;
        }
        at
    }

    /// Copies elements from `from` on, until `out` is full.
    pub(crate) fn read<T: Copy>(&self, data: &[T], from: usize, mut out: &mut [T]) {
        let (len, stride) = self.inner;
        if out.is_empty() {
            return;
        }
        let repeats = stride == 1 && matches!(self.outer.last(), Some((_, 0)));
        let (mut row, mut at) = (from / len, from % len);
        let (mut index, mut first) = (self.index(row), self.row(row));
        while !out.is_empty() {
            let n = if repeats {
                self.repetitions(row * len + at).min(out.len())
            } else {
                0
            };
            if n >= 2 * len {
                let (now, later) = out.split_at_mut(n);
                repeat(&data[first..][..len], at, now);
                (row, at, out) = (row + (at + n) / len, (at + n) % len, later);
                (index, first) = (self.index(row), self.row(row));
                continue;
            }
            let n = out.len().min(len - at);
            let (now, later) = out.split_at_mut(n);
            let start = first + at * stride;
            match stride {
                0 => now.fill(data[start]),
                1 => now.copy_from_slice(&data[start..start + n]),
                2 => every::<2, T>(&data[start..], now),
                3 => every::<3, T>(&data[start..], now),
                4 => every::<4, T>(&data[start..], now),
                s => {
                    for (y, &x) in now.iter_mut().zip(data[start..].iter().step_by(s)) {
                        *y = x;
                    }
                }
            }
            (row, out, at) = (row + 1, later, 0);
            // A division for each axis would take longer than a short row.
            for (i, (len, stride)) in index.iter_mut().zip(&self.outer).rev() {
                *i += 1;
                first += stride;
                if *i < *len {
                    break;
                }
                *i = 0;
                first -= len * stride;
            }
        }
    }

    /// Returns the index of a row along each of the outer axes.
    fn index(&self, mut row: usize) -> SmallVec<[usize; 4]> {
        let mut index = SmallVec::from_elem(0, self.outer.len());
        for (i, (len, _)) in index.iter_mut().zip(&self.outer).rev() {
            *i = row % len;
            row /= len;
        }
        index
    }
}

/// Copies every `N`-th element, with vectors.
fn every<const N: usize, T: Copy>(xs: &[T], out: &mut [T]) {
    let (whole, last) = out.split_at_mut(out.len().min(xs.len() / N));
    let chunks = xs.chunks_exact(N);
    let rest = chunks.remainder();
    (whole.iter_mut().zip(chunks)).for_each(|(y, x)| *y = x[0]);
    (last.iter_mut().zip(rest)).for_each(|(y, x)| *y = *x);
}

/// Repeats a row, starting at its element `at`. Doubles the written part with each copy.
fn repeat<T: Copy>(row: &[T], at: usize, out: &mut [T]) {
    let len = row.len();
    out[..len - at].copy_from_slice(&row[at..]);
    out[len - at..len].copy_from_slice(&row[..at]);
    let mut written = len;
    while written < out.len() {
        let n = written.min(out.len() - written);
        out.copy_within(..n, written);
        written += n;
    }
}

#[cfg(test)]
mod tests {
    use super::Gather;
    use crate::memory::layout::Layout;

    #[test]
    fn repeated_rows_can_be_read_from_any_element() {
        let rows: Vec<i32> = (0..21).collect();
        for (first, n_rows, repeats) in [(7, 1, 9), (0, 3, 4), (0, 3, 1)] {
            let layout = Layout::contiguous(&[3, 1, 7]).narrow(0, first / 7, n_rows, 1);
            let gather = Gather::new(&layout.broadcast_to(&[n_rows, repeats, 7]));
            let all = n_rows * repeats * 7;
            let element = |i: usize| (first + i / (repeats * 7) * 7 + i % 7) as i32;
            for from in 0..all {
                for n in 0..=all - from {
                    let mut read = vec![-1; n];
                    gather.read(&rows, from, &mut read);
                    let expected: Vec<i32> = (from..from + n).map(element).collect();
                    assert_eq!(read, expected);
                    if let (2.., Some((row, at))) = (repeats, gather.repeated(from, n)) {
                        let repeated = (0..n).map(|i| rows[row + (at + i) % 7]);
                        assert!(repeated.eq(expected));
                    }
                }
            }
        }
    }
}
