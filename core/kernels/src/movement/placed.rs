//! Reads elements that an op moves along axes, as if they had been copied: padding, the gradient of a slice, a roll.
//!
//! A *part* of an axis is a range of indices that read consecutive indices of the operand, possibly with zeros between
//! them, or only zeros.

use crate::memory::layout::Layout;
use crate::memory::words::{Payload, Word, words_of, words_of_mut};
use crate::movement::gather::{copy_first, read_row};
use crate::movement::reader::EvenRows;
use crate::simd::leveled::leveled;
use smallvec::{SmallVec, smallvec};

/// Part of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub len: usize,
    /// Index of the operand that the first one reads, or `None` if the elements are zeros.
    pub from: Option<usize>,
    /// Number of indices from one that reads an element to the next one.
    pub step: usize,
}

/// The parts of an axis, in order.
pub type Parts = SmallVec<[Part; 3]>;

/// Axis of the value that is read.
#[derive(Clone, Debug)]
struct Axis {
    len: usize,
    /// Distance of neighbours in the operand.
    stride: usize,
    parts: Parts,
}

impl Axis {
    /// Returns whether the axis is one of the operand that stays as it is.
    fn is_whole(&self) -> bool {
        matches!(
            self.parts[..],
            [Part {
                from: Some(0),
                step: 1,
                ..
            }]
        )
    }

    /// Returns the distance of what index `i` reads from the first element of the operand, or `None` for zeros.
    ///
    /// Also returns the number of indices from `i` on that read likewise, and their step.
    #[inline(always)]
    fn find(&self, i: usize) -> (Option<usize>, usize, usize) {
        let mut end = 0;
        for &Part { len, from, step } in &self.parts {
            let at = i - end;
            end += len;
            if i >= end {
                continue;
            }
            return match (from, step) {
                (Some(from), 1) => (Some((from + at) * self.stride), end - i, 1),
                (Some(from), _) if at.is_multiple_of(step) => {
                    (Some((from + at / step) * self.stride), end - i, step)
                }
                (Some(_), _) => (None, (step - at % step).min(end - i), 1),
                (None, _) => (None, end - i, 1),
            };
        }
        unreachable!("the index is within the axis")
    }
}

/// A value whose elements are those of an operand in other places, with zeros elsewhere.
#[derive(Clone, Debug)]
pub struct Placed {
    offset: usize,
    /// The axes outside of rows, the outermost first.
    outer: Box<[Axis]>,
    inner: Axis,
}

impl Placed {
    /// Returns the value with these parts of each axis of `operand`.
    ///
    /// The value has elements, and its parts have indices.
    pub fn new(operand: &Layout, parts: Vec<Parts>) -> Placed {
        let mut axes: Vec<Axis> = Vec::with_capacity(parts.len());
        for (parts, stride) in parts.into_iter().zip(&operand.strides) {
            let len = parts.iter().map(|part| part.len).sum();
            let axis = Axis {
                len,
                stride: *stride,
                parts,
            };
            match axes.last_mut() {
                _ if len == 1 && axis.is_whole() => {}
                Some(outer)
                    if axis.is_whole()
                        && outer.stride == len * stride
                        && outer.parts.iter().all(|part| part.step == 1) =>
                {
                    outer.len *= len;
                    outer.stride = *stride;
                    for part in &mut outer.parts {
                        part.len *= len;
                        part.from = part.from.map(|from| from * len);
                    }
                }
                _ => axes.push(axis),
            }
        }
        let one = Axis {
            len: 1,
            stride: 0,
            parts: smallvec![Part {
                len: 1,
                from: Some(0),
                step: 1,
            }],
        };
        Placed {
            offset: operand.offset,
            inner: axes.pop().unwrap_or(one),
            outer: axes.into(),
        }
    }

    /// Returns the length of a row, if its elements are neighbours in the operand or one repeated element, perhaps with
    /// zeros around and between them.
    pub fn row_of_memory(&self) -> Option<usize> {
        (self.inner.stride <= 1).then_some(self.inner.len)
    }

    /// Returns the length of a row if its elements are neighbours in the operand.
    pub(crate) fn len_in_memory(&self) -> Option<usize> {
        (self.inner.is_whole() && self.inner.stride == 1).then_some(self.inner.len)
    }

    /// Returns the parts of a row of `len` elements, if they have neighbours in the operand or only zeros.
    pub(crate) fn parts_in_memory(&self, len: usize) -> Option<&[Part]> {
        let Axis { stride, parts, .. } = &self.inner;
        let even = self.inner.len == len && *stride == 1;
        (even && parts.iter().all(|part| part.step == 1)).then_some(parts)
    }

    /// Returns the rows of `len` elements from number `row` on, which divide the rows of the value.
    ///
    /// A row with several [parts](Self::parts_in_memory) begins where the index 0 of the operand is.
    pub(crate) fn rows(&self, row: usize, len: usize) -> EvenRows {
        let parts = self.inner.len / len;
        let (mut whole, part) = (row / parts, row % parts);
        let first = match self.inner.parts[..] {
            [only] => only.from,
            // Who copies the row adds the index of each part.
            _ => Some(0),
        };
        let mut rows = EvenRows {
            first: first.map(|from| self.offset + from + part * len),
            n: parts - part,
            apart: len,
        };
        for (i, axis) in self.outer.iter().rev().enumerate() {
            let (at, n, step) = axis.find(whole % axis.len);
            if i == 0 && parts == 1 {
                rows.n = if step == 1 { n } else { 1 };
                rows.apart = axis.stride;
            }
            rows.first = rows.first.zip(at).map(|(a, b)| a + b);
            whole /= axis.len;
        }
        rows
    }

    /// Returns the index of element `from`, if the elements `from..from + n` are neighbours.
    pub(crate) fn run(&self, from: usize, n: usize) -> Option<usize> {
        let (mut row, at) = (from / self.inner.len, from % self.inner.len);
        let (Some(mut index), rest, step) = self.inner.find(at) else {
            return None;
        };
        if self.inner.stride != 1 || step != 1 || rest < n {
            return None;
        }
        for axis in self.outer.iter().rev() {
            index += axis.find(row % axis.len).0?;
            row /= axis.len;
        }
        Some(self.offset + index)
    }

    /// Copies elements from `from` on, until `out` is full.
    pub(crate) fn read<T: Payload>(&self, data: &[T], from: usize, out: &mut [T]) {
        // SAFETY: `read_rows` writes elements of `data`, and zeros.
        let out = unsafe { words_of_mut(out) };
        read_rows(self, words_of(data), from, out);
    }

    /// Copies the `n` elements of a row from `at` on to the start of `out`.
    ///
    /// Elements after them may be overwritten.
    #[inline(always)]
    fn read_row<T: Word>(&self, xs: &[T], mut at: usize, mut n: usize, mut out: &mut [T]) {
        while n > 0 {
            let (from, rest, step) = self.inner.find(at);
            let now = n.min(rest);
            match (from, step, self.inner.stride) {
                (None, ..) => zeros(now, out),
                (Some(from), 1, 1) => copy_first(&xs[from..], &mut out[..now]),
                (Some(from), 1, stride) => read_row(&xs[from..], stride, &mut out[..now]),
                (Some(from), 2, 1) => every_second(&xs[from..], &mut out[..now]),
                (Some(from), step, stride) => {
                    out[..now].fill(T::default());
                    let places = out[..now].iter_mut().step_by(step);
                    (places.enumerate()).for_each(|(i, y)| *y = xs[from + i * stride]);
                }
            }
            (at, n) = (at + now, n - now);
            out = &mut out[now..];
        }
    }
}

/// Copies neighbouring elements with a zero after each one, until `out` is full.
#[inline(always)]
fn every_second<T: Word>(xs: &[T], out: &mut [T]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    (pairs.iter_mut().zip(xs)).for_each(|(pair, x)| *pair = [*x, T::default()]);
    if let Some(last) = last.first_mut() {
        *last = xs[pairs.len()];
    }
}

/// Number of zeros that are written at once.
const ZEROS_AT_ONCE: usize = 16;

/// Writes at least `n` zeros.
#[inline(always)]
fn zeros<T: Word>(n: usize, out: &mut [T]) {
    match out.first_chunk_mut::<ZEROS_AT_ONCE>() {
        Some(chunk) if n <= ZEROS_AT_ONCE => *chunk = [T::default(); ZEROS_AT_ONCE],
        _ => out[..n].fill(T::default()),
    }
}

leveled! {
    fn read_rows<S, T: Word>(placed: &Placed, data: &[T], from: usize, out: &mut [T]) {
        let inner = placed.inner.len;
        let (mut row, mut at) = (from / inner, from % inner);
        // The rows along the axis before the innermost one are read with the same start.
        let (axis, outer) = match placed.outer.split_last() {
            Some((axis, outer)) => (Some(axis), outer),
            None => (None, &[][..]),
        };
        let n_rows = axis.map_or(1, |axis| axis.len);
        let mut out = out;
        while !out.is_empty() {
            let (mut plane, first) = (row / n_rows, row % n_rows);
            let mut start = Some(placed.offset);
            for axis in outer.iter().rev() {
                start = start.zip(axis.find(plane % axis.len).0).map(|(a, b)| a + b);
                plane /= axis.len;
            }
            for i in first..n_rows {
                let of_row = axis.map_or(Some(0), |axis| axis.find(i).0);
                let n = out.len().min(inner - at);
                match start.zip(of_row) {
                    Some((start, row)) => placed.read_row(&data[start + row..], at, n, out),
                    None => zeros(n, out),
                }
                (out, at) = (&mut out[n..], 0);
                if out.is_empty() {
                    return;
                }
            }
            row += n_rows - first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Parts, Placed};
    use crate::memory::layout::Layout;

    /// Returns the parts of an axis: zeros, and ranges of the operand.
    fn parts(of: &[(usize, Option<usize>)]) -> Parts {
        let part = |&(len, from)| Part { len, from, step: 1 };
        of.iter().map(part).collect()
    }

    /// Returns the parts of an axis with zeros between the elements.
    fn spread(n: usize, step: usize) -> Parts {
        let mut all = parts(&[(1, None), ((n - 1) * step + 1, Some(0)), (2, None)]);
        all[1].step = step;
        all
    }

    /// Checks rows that are read without the elements before them.
    fn check_rows(placed: &Placed, expected: &[Option<usize>]) {
        let len = placed.inner.len;
        let whole = placed.len_in_memory().is_some();
        let lens = (1..=len).filter(|n| len.is_multiple_of(*n) && (whole || *n == len));
        for n in lens {
            let parts = placed.parts_in_memory(n);
            let copied = parts.filter(|parts| parts.len() > 1);
            if !whole && parts.is_none() {
                continue;
            }
            for row in 0..expected.len() / n {
                let rows = placed.rows(row, n);
                for i in 0..rows.n.min(expected.len() / n - row) {
                    let first = rows.first.map(|first| first + i * rows.apart);
                    let neighbours = |from: Option<usize>, len: usize| -> Vec<Option<usize>> {
                        (0..len).map(|i| from.map(|from| from + i)).collect()
                    };
                    let found = match copied {
                        None => neighbours(first, n),
                        Some(parts) => parts
                            .iter()
                            .flat_map(|part| {
                                neighbours(first.zip(part.from).map(|(a, b)| a + b), part.len)
                            })
                            .collect(),
                    };
                    assert_eq!(
                        found,
                        expected[(row + i) * n..][..n],
                        "{placed:?} {row} {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn all_elements_can_be_read_from_any_one() {
        let whole = |n| parts(&[(n, Some(0))]);
        let among_zeros = |n| parts(&[(2, None), (n, Some(0)), (1, None)]);
        let rolled = |n: usize, by| parts(&[(by, Some(n - by)), (n - by, Some(0))]);
        let second = |n: usize| parts(&[(n - 1, Some(1)), (3, None)]);
        let transposed = Layout::contiguous(&[5, 4]).permute(&[1, 0]);
        let repeated = Layout::contiguous(&[4, 1]).broadcast_to(&[4, 7]);
        let cases = [
            (Layout::contiguous(&[70]), vec![rolled(70, 3)]),
            (Layout::contiguous(&[4, 5]), vec![among_zeros(4), whole(5)]),
            (Layout::contiguous(&[4, 5]), vec![whole(4), among_zeros(5)]),
            (Layout::contiguous(&[4, 70]), vec![rolled(4, 1), second(70)]),
            (
                Layout::contiguous(&[3, 4, 5]),
                vec![among_zeros(3), rolled(4, 3), second(5)],
            ),
            (
                Layout::contiguous(&[3, 1, 4, 5]).narrow(2, 1, 3, 1),
                vec![second(3), whole(1), among_zeros(3), whole(5)],
            ),
            (transposed, vec![second(4), among_zeros(5)]),
            (repeated, vec![among_zeros(4), among_zeros(7)]),
            (Layout::contiguous(&[1, 1]), vec![among_zeros(1), whole(1)]),
            (Layout::contiguous(&[]), vec![]),
            (
                Layout::contiguous(&[4, 5]),
                vec![spread(4, 2), spread(5, 2)],
            ),
            (Layout::contiguous(&[4, 5]), vec![spread(4, 3), whole(5)]),
            // Rows with one part that is not the whole axis.
            (
                Layout::contiguous(&[4, 9]),
                vec![whole(4), parts(&[(5, Some(3))])],
            ),
            (
                Layout::contiguous(&[4, 9]),
                vec![rolled(4, 1), parts(&[(6, None)])],
            ),
            (
                Layout::contiguous(&[4, 1, 5]),
                vec![whole(4), parts(&[(1, None)]), whole(5)],
            ),
            (
                Layout::contiguous(&[4, 3, 5]),
                vec![among_zeros(4), parts(&[(2, Some(1))]), whole(5)],
            ),
            (Layout::contiguous(&[4, 5]), vec![whole(4), spread(5, 3)]),
        ];
        for (layout, parts) in cases {
            let data: Vec<i32> = (1..400).collect();
            let mut expected = vec![Some(layout.offset)];
            for (parts, stride) in parts.iter().zip(&layout.strides) {
                let along = parts.iter().flat_map(|part| {
                    (0..part.len).map(|i| match i % part.step {
                        0 => part.from.map(|from| (from + i / part.step) * stride),
                        _ => None,
                    })
                });
                let along: Vec<_> = along.collect();
                let add = |x: &Option<usize>| {
                    let x = *x;
                    along.clone().into_iter().map(move |y| Some(x? + y?))
                };
                expected = expected.iter().flat_map(add).collect();
            }
            let placed = Placed::new(&layout, parts);
            for from in 0..expected.len() {
                for n in 1..=expected.len() - from {
                    let mut read = vec![9; n];
                    placed.read(&data, from, &mut read);
                    let expected = expected[from..from + n]
                        .iter()
                        .map(|x| x.map_or(0, |x| data[x]));
                    assert!(read.iter().copied().eq(expected), "{layout:?} {from} {n}");
                    if let Some(at) = placed.run(from, n) {
                        assert_eq!(data[at..at + n], read);
                    }
                }
            }
            check_rows(&placed, &expected);
        }
    }
}
