//! Reads elements of a strided layout in row-major order.

use crate::memory::layout::{Layout, distance};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use smallvec::SmallVec;
use std::mem::transmute_copy;

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

    /// Returns the number of elements of the data for each of `n_rows` equal parts of the layout, if the parts read
    /// the data one after the other.
    pub(crate) fn row_len(&self, n_rows: usize) -> Option<usize> {
        let mut axes = self.outer.iter().chain([&self.inner]);
        let (len, stride) = *axes.next()?;
        let last: usize = axes.map(|(len, stride)| (len - 1) * stride).sum();
        let in_order = self.offset == 0 && len.is_multiple_of(n_rows) && last < stride;
        in_order.then(|| len / n_rows * stride)
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
    fn row(&self, row: usize) -> usize {
        self.offset + distance(&self.outer, row)
    }

    /// Copies elements from `from` on, until `out` is full.
    pub(crate) fn read<T: Copy>(&self, data: &[T], from: usize, mut out: &mut [T]) {
        let (len, stride) = self.inner;
        if out.is_empty() {
            return;
        }
        let repeats = stride == 1 && matches!(self.outer.last(), Some((_, 0)));
        let (mut row, mut at) = (from / len, from % len);
        if let (Some((n, apart)), 0) = (self.outer.last(), stride)
            && n * len >= LONG
        {
            while !out.is_empty() {
                let rest = (n - row % n) * len - at;
                let (now, later) = out.split_at_mut(rest.min(out.len()));
                repeat_numbers(&data[self.row(row)..], *apart, [len, at], now);
                (row, at, out) = (row - row % n + n, 0, later);
            }
            return;
        }
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
                0 => fill(data[start], now),
                1 => now.copy_from_slice(&data[start..start + n]),
                2..=4 => every(&data[start..], stride, now),
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

/// Number of elements from which vectors of the level are faster than those that every CPU has.
const LONG: usize = 64;

/// Fills a row with a number.
fn fill<T: Copy>(x: T, out: &mut [T]) {
    repeat_numbers(&[x], 0, [out.len(), 0], out);
}

/// Writes rows of `len` equal numbers, from element `at` of the first row on. The numbers are `apart` from each other.
fn repeat_numbers<T: Copy>(xs: &[T], apart: usize, [len, at]: [usize; 2], out: &mut [T]) {
    /// Writes numbers of the size of `T`.
    fn sized<T: Copy, N: Number>(xs: &[T], apart: usize, row: [usize; 2], out: &mut [T]) {
        assert_eq!(size_of::<T>(), size_of::<N>());
        assert_eq!(align_of::<T>(), align_of::<N>());
        // SAFETY: the sizes and alignments are equal, and all bits are numbers. Only elements of `xs` are written.
        unsafe {
            let xs = std::slice::from_raw_parts(xs.as_ptr().cast::<N>(), xs.len());
            let out = std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<N>(), out.len());
            fill_rows(xs, apart, row, out);
        }
    }
    match (size_of::<T>(), align_of::<T>()) {
        _ if out.len() < LONG => each_row(xs, apart, [len, at], out),
        (4, 4) => sized::<T, f32>(xs, apart, [len, at], out),
        (8, 8) => sized::<T, f64>(xs, apart, [len, at], out),
        _ => each_row(xs, apart, [len, at], out),
    }
}

leveled! {
    fn fill_rows<S, T: Number>(xs: &[T], apart: usize, row: [usize; 2], out: &mut [T]) {
        each_row(xs, apart, row, out);
    }
}

#[inline(always)]
fn each_row<T: Copy>(xs: &[T], apart: usize, [len, at]: [usize; 2], out: &mut [T]) {
    let (first, rows) = out.split_at_mut(out.len().min(len - at));
    first.fill(xs[0]);
    for (i, row) in rows.chunks_mut(len).enumerate() {
        row.fill(xs[(i + 1) * apart]);
    }
}

leveled! {
    /// Copies every second, third or fourth element, with vectors.
    fn every<S, T: Copy>(xs: &[T], step: usize, out: &mut [T]) {
        match step {
            2 => every_nth::<2, T>(xs, out),
            3 => every_nth::<3, T>(xs, out),
            _ => every_nth::<4, T>(xs, out),
        }
    }
}

/// Copies every `N`-th element.
#[inline(always)]
fn every_nth<const N: usize, T: Copy>(xs: &[T], out: &mut [T]) {
    let (whole, last) = out.split_at_mut(out.len().min(xs.len() / N));
    let (chunks, rest) = xs.as_chunks::<N>();
    (whole.iter_mut().zip(chunks)).for_each(|(y, x)| *y = first(x));
    (last.iter_mut().zip(rest)).for_each(|(y, x)| *y = *x);
}

/// Returns the first element. Bytes are the low parts of words, which vectors truncate.
#[inline(always)]
fn first<const N: usize, T: Copy>(xs: &[T; N]) -> T {
    let byte = match (size_of::<T>(), N) {
        // SAFETY: two bytes make a number.
        (1, 2) => unsafe { transmute_copy::<[T; N], u16>(xs) }.to_le() as u8,
        // SAFETY: four bytes make a number.
        (1, 4) => unsafe { transmute_copy::<[T; N], u32>(xs) }.to_le() as u8,
        _ => return xs[0],
    };
    // SAFETY: the size of `T` is 1, and the byte is that of the first element.
    unsafe { transmute_copy(&byte) }
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
    fn every_few_elements_are_read() {
        for stride in 0..6 {
            for n in [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 70] {
                let layout = Layout {
                    offset: 3,
                    shape: [2, n].as_slice().into(),
                    strides: [n * stride + 1, stride].as_slice().into(),
                };
                let element = |i: usize| 3 + i / n * (n * stride + 1) + i % n * stride;
                let expected: Vec<usize> = (0..2 * n).map(element).collect();
                let last = expected.last().map_or(0, |last| last + 1);
                let (gather, all) = (Gather::new(&layout), 0..2 * n);
                // The last element that is read may be the last one that there is.
                let (wide, narrow): (Vec<usize>, Vec<u32>) =
                    (0..last).map(|i| (i, i as u32)).unzip();
                let bytes: Vec<u8> = (0..last).map(|i| i as u8).collect();
                let (mut xs, mut ys, mut zs) = (vec![0; 2 * n], vec![0; 2 * n], vec![0; 2 * n]);
                gather.read(&wide, 0, &mut xs);
                gather.read(&narrow, 0, &mut ys);
                gather.read(&bytes, 0, &mut zs);
                assert_eq!(xs, expected);
                assert!(all.clone().all(|i| ys[i] as usize == expected[i]));
                assert!(all.clone().all(|i| zs[i] == expected[i] as u8));
            }
        }
    }

    #[test]
    fn repeated_numbers_can_be_read_from_any_element() {
        let data: Vec<f32> = (0..200).map(|i| i as f32).collect();
        for [n_rows, len] in [[20, 7], [3, 2], [1, 90]] {
            let layout = Layout {
                offset: 1,
                shape: [3, n_rows, len].as_slice().into(),
                strides: [50, 2, 0].as_slice().into(),
            };
            let (gather, all) = (Gather::new(&layout), 3 * n_rows * len);
            let element = |i: usize| 1 + i / (n_rows * len) * 50 + i / len % n_rows * 2;
            for from in 0..all {
                for to in [all, from + 1, from + 65, from + 100] {
                    let mut read = vec![-1.0; to.min(all) - from];
                    gather.read(&data, from, &mut read);
                    assert!((read.iter().zip(from..)).all(|(x, i)| *x == data[element(i)]));
                }
            }
        }
    }

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
