//! Reads elements of a strided layout in row-major order.

use crate::memory::layout::Layout;

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

    /// Returns the position of an element in its row, if all rows are the same repeated row.
    pub(crate) fn phase(&self, at: usize) -> Option<usize> {
        let repeated = self.outer.iter().all(|(_, stride)| *stride == 0);
        if repeated {
            at.checked_rem(self.inner.0)
        } else {
            None
        }
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
        if stride == 1 && out.len() >= 2 * len && self.phase(from).is_some() {
            return repeat(&data[self.offset..][..len], from % len, out);
        }
        let (mut row, mut at) = (from / len, from % len);
        while !out.is_empty() {
            let n = out.len().min(len - at);
            let (now, later) = out.split_at_mut(n);
            let start = self.row(row) + at * stride;
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
            out = later;
            row += 1;
            at = 0;
        }
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
    fn a_repeated_row_can_be_read_from_any_element() {
        let row: Vec<i32> = (0..7).collect();
        let gather = Gather::new(&Layout::contiguous(&[7]).broadcast_to(&[9, 7]));
        for from in 0..63 {
            for n in 0..=63 - from {
                let mut read = vec![-1; n];
                gather.read(&row, from, &mut read);
                let expected: Vec<i32> = (from..from + n).map(|i| row[i % 7]).collect();
                assert_eq!(read, expected);
            }
        }
    }
}
