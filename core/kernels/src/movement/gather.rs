//! Reads elements of a strided layout in row-major order.
//!
//! A *row* lies along the innermost axis. The rows along the axis before it are a *plane*.

use crate::array;
use crate::memory::layout::{Layout, distance};
use crate::memory::words::{Payload, Word, words_of, words_of_mut};
use crate::movement::blocks::{LINE, short};
use crate::movement::reader::EvenRows;
use crate::simd::leveled::leveled;
use crate::simd::vector::prefetch;
use smallvec::SmallVec;
use std::mem::transmute_copy;

/// A layout, prepared for reading in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    offset: usize,
    /// Lengths and strides of the axes outside of planes; adjacent evenly spaced axes are merged.
    outer: Box<[(usize, usize)]>,
    /// Number of rows of a plane and their distance.
    rows: (usize, usize),
    /// Length and stride of the innermost axis.
    inner: (usize, usize),
}

impl Gather {
    pub(crate) fn new(layout: &Layout) -> Gather {
        let mut outer = layout.runs();
        let inner = outer.pop().unwrap_or((1, 0));
        let rows = outer.pop().unwrap_or((1, 0));
        Gather {
            offset: layout.offset,
            outer: outer.into(),
            rows,
            inner,
        }
    }

    /// Returns the index of the only element, if the layout repeats a single one.
    pub(crate) fn splat(&self) -> Option<usize> {
        (self.rows.0 == 1 && self.inner.1 == 0).then_some(self.offset)
    }

    /// Returns the number of elements of the data for each of `n_rows` equal parts of the layout, if the parts read
    /// the data one after the other.
    pub(crate) fn row_len(&self, n_rows: usize) -> Option<usize> {
        let rows = (self.rows.0 > 1).then_some(&self.rows);
        let mut axes = self.outer.iter().chain(rows).chain([&self.inner]);
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
        let (len, stride) = self.inner;
        let row = at.checked_div(len)?;
        // All elements of a row are the same one if they have no distance.
        let first = if stride == 0 { 0 } else { at % len };
        (self.repetitions(at) >= n).then(|| (self.row(row), first))
    }

    /// Returns the length of a row, if its elements are neighbours or one repeated element.
    pub(crate) fn row_of_memory(&self) -> Option<usize> {
        let (len, stride) = self.inner;
        (len > 0 && stride <= 1).then_some(len)
    }

    /// Returns the length of a row if its elements are neighbours.
    pub(crate) fn len_in_memory(&self) -> Option<usize> {
        let (len, stride) = self.inner;
        (len > 0 && stride == 1).then_some(len)
    }

    /// Returns whether each row is read again right after itself, or is the only one.
    pub(crate) fn repeats_rows(&self) -> bool {
        self.rows.1 == 0
    }

    /// Returns the rows of `len` neighbours from number `row` on, which divide the rows of the layout.
    pub(crate) fn rows(&self, row: usize, len: usize) -> EvenRows {
        let parts = self.inner.0 / len;
        let (whole, part) = (row / parts, row % parts);
        let (n, apart) = match parts {
            1 => (self.rows.0 - whole % self.rows.0, self.rows.1),
            _ => (parts - part, len),
        };
        let first = Some(self.row(whole) + part * len);
        EvenRows { first, n, apart }
    }

    /// Returns the number of elements from `at` on that are in repetitions of the same row.
    fn repetitions(&self, at: usize) -> usize {
        let equal = match self.rows {
            (_, 0) if self.outer.is_empty() => return usize::MAX,
            (n, 0) => n * self.inner.0,
            _ => self.inner.0,
        };
        equal - at % equal
    }

    /// Returns the index of the first element of a row of the innermost axis.
    fn row(&self, row: usize) -> usize {
        let (n, apart) = self.rows;
        self.offset + distance(&self.outer, row / n) + row % n * apart
    }

    /// Copies elements from `from` on, until `out` is full.
    pub(crate) fn read<T: Payload>(&self, data: &[T], from: usize, out: &mut [T]) {
        // SAFETY: `read_words` writes elements of `data`.
        let out = unsafe { words_of_mut(out) };
        read_words(self, words_of(data), from, out);
    }

    /// Returns the index of a plane along each of the outer axes.
    fn index(&self, mut plane: usize) -> SmallVec<[usize; 4]> {
        let mut index = SmallVec::from_elem(0, self.outer.len());
        for (i, (len, _)) in index.iter_mut().zip(&self.outer).rev() {
            *i = plane % len;
            plane /= len;
        }
        index
    }
}

/// Number of elements from which vectors of the level are faster than those that every CPU has.
const LONG: usize = 64;

fn read_words<T: Word>(from: &Gather, data: &[T], at: usize, out: &mut [T]) {
    if out.len() < LONG {
        read_planes(from, data, at, out);
    } else {
        read_many(from, data, at, out);
    }
}

leveled! {
    fn read_many<S, T: Word>(from: &Gather, data: &[T], at: usize, out: &mut [T]) {
        read_planes(from, data, at, out);
    }
}

/// Copies elements from `at` on, until `out` is full.
#[inline(always)]
fn read_planes<T: Copy>(from: &Gather, data: &[T], at: usize, out: &mut [T]) {
    let plane = from.rows.0 * from.inner.0;
    if out.is_empty() {
        return;
    }
    let (i, at) = (at / plane, at % plane);
    let mut first = from.offset + distance(&from.outer, i);
    let (now, mut out) = out.split_at_mut(out.len().min(plane - at));
    read_rows(from, &data[first..], at, now);
    if out.is_empty() {
        return;
    }
    let mut index = from.index(i);
    while !out.is_empty() {
        // A division for each axis would take longer than a short plane.
        for (i, (len, stride)) in index.iter_mut().zip(&from.outer).rev() {
            *i += 1;
            first += stride;
            if *i < *len {
                break;
            }
            *i = 0;
            first -= len * stride;
        }
        let (now, later) = out.split_at_mut(out.len().min(plane));
        read_rows(from, &data[first..], 0, now);
        out = later;
    }
}

/// Copies elements of a plane from `at` on, until `out` is full.
#[inline(always)]
fn read_rows<T: Copy>(from: &Gather, plane: &[T], at: usize, out: &mut [T]) {
    let ((_, apart), (len, stride)) = (from.rows, from.inner);
    let (xs, at) = (&plane[at / len * apart..], at % len);
    if apart == 0 && stride == 1 && size_of_val(out) >= REPEATED {
        match len {
            2 => return repeat_few::<2, T>(xs, at, out),
            3 => return repeat_few::<3, T>(xs, at, out),
            4 => return repeat_few::<4, T>(xs, at, out),
            _ if out.len() >= MANY * len => return repeat_many(&xs[..len], at, out),
            _ => {}
        }
    }
    let (now, out) = out.split_at_mut(out.len().min(len - at));
    read_row(&xs[at * stride..], stride, now);
    if out.is_empty() {
        return;
    }
    let xs = &xs[apart..];
    let n = out.len() / len;
    let (whole, last) = out.split_at_mut(n * len);
    if stride == 1 {
        copy_rows(xs, apart, len, whole);
    } else if stride == 0 {
        repeat_each(xs, apart, len, whole);
    } else {
        for (i, row) in whole.chunks_exact_mut(len).enumerate() {
            read_row(&xs[i * apart..], stride, row);
        }
    }
    if !last.is_empty() {
        read_row(&xs[n * apart..], stride, last);
    }
}

/// Copies elements that are `stride` apart.
#[inline(always)]
pub(crate) fn read_row<T: Copy>(xs: &[T], stride: usize, out: &mut [T]) {
    match stride {
        0 => out.fill(xs[0]),
        1 => out.copy_from_slice(&xs[..out.len()]),
        2 => every_nth::<2, T>(xs, out),
        3 => every_nth::<3, T>(xs, out),
        4 => every_nth::<4, T>(xs, out),
        _ => {
            for (y, &x) in out.iter_mut().zip(xs.iter().step_by(stride)) {
                *y = x;
            }
        }
    }
}

/// Repeats each element `len` times. The elements are `apart`.
#[inline(always)]
fn repeat_each<T: Copy>(xs: &[T], apart: usize, len: usize, out: &mut [T]) {
    match len {
        2 => repeat_each_of::<2, T>(xs, apart, out),
        3 => repeat_each_of::<3, T>(xs, apart, out),
        4 => repeat_each_of::<4, T>(xs, apart, out),
        8 => repeat_each_of::<8, T>(xs, apart, out),
        16 => repeat_each_of::<16, T>(xs, apart, out),
        _ => {
            // Short repetitions are written together with elements after them, which the next ones overwrite.
            let mut out = out;
            for i in 0..out.len() / len {
                let x = xs[i * apart];
                match out.first_chunk_mut::<SPLAT>() {
                    Some(chunk) if len <= SPLAT => *chunk = [x; SPLAT],
                    _ => out[..len].fill(x),
                }
                out = &mut out[len..];
            }
        }
    }
}

/// Number of equal elements that are written at once.
const SPLAT: usize = 16;

/// Repeats each element `N` times. The elements are `apart`.
#[inline(always)]
fn repeat_each_of<const N: usize, T: Copy>(xs: &[T], apart: usize, out: &mut [T]) {
    let (rows, _) = out.as_chunks_mut::<N>();
    if apart == 1 {
        (rows.iter_mut().zip(xs)).for_each(|(row, x)| *row = [*x; N]);
    } else {
        (rows.iter_mut().enumerate()).for_each(|(i, row)| *row = [xs[i * apart]; N]);
    }
}

/// Number of bytes from which repetitions of a few elements are written together.
const REPEATED: usize = 256;

/// Number of repetitions from which a few long copies take less time than one for each row.
const MANY: usize = 64;

/// Copies whole rows of `len` contiguous elements, whose starts are `apart`.
#[inline(always)]
fn copy_rows<T: Copy>(xs: &[T], apart: usize, len: usize, out: &mut [T]) {
    let size = size_of::<T>();
    let n = out.len() / len;
    if n == 0 {
        return;
    }
    assert!(out.len() == n * len && (n - 1) * apart + len <= xs.len());
    let rows = Rows {
        from: xs.as_ptr().cast(),
        readable: size_of_val(xs),
        apart: apart * size,
        len: len * size,
        n,
    };
    let to = out.as_mut_ptr().cast::<u8>();
    // SAFETY: elements have no padding. All rows are in bounds, as asserted.
    unsafe {
        match rows.len {
            ..=16 => rows.copy_short::<16>(to),
            17..=32 => rows.copy_short::<32>(to),
            33..=LINE => rows.copy_short::<LINE>(to),
            65..=TWO_LINES => rows.copy_short::<TWO_LINES>(to),
            _ => rows.copy_long(to),
        }
    }
}

const TWO_LINES: usize = 2 * LINE;

/// Number of bytes of a row from which a call of `memcpy` takes little of the time.
const CALLED: usize = 16 * LINE;

/// Contiguous rows, in bytes.
struct Rows {
    from: *const u8,
    /// Number of bytes that can be read from the start of the first row on.
    readable: usize,
    apart: usize,
    len: usize,
    n: usize,
}

impl Rows {
    /// Copies rows of up to `N` bytes next to each other.
    ///
    /// # Safety
    ///
    /// All rows must be in bounds, and must not overlap their copies.
    #[inline(always)]
    unsafe fn copy_short<const N: usize>(&self, to: *mut u8) {
        // A row is copied together with the bytes after it, as long as they are in bounds. The next rows
        // overwrite these bytes.
        let &Rows {
            from,
            apart,
            len,
            n,
            ..
        } = self;
        let readable = self.readable.checked_sub(N);
        let readable = readable.map_or(0, |last| last.checked_div(apart).map_or(n, |n| n + 1));
        let n_whole = n.saturating_sub((N - len).div_ceil(len)).min(readable);
        // SAFETY: the caller guarantees the rows, and the bytes after the first ones are in bounds.
        unsafe {
            for i in 0..n_whole {
                let x = from.add(i * apart).cast::<[u8; N]>().read();
                to.add(i * len).cast::<[u8; N]>().write(x);
            }
            for i in n_whole..n {
                let (from, to) = (from.add(i * apart), to.add(i * len));
                match N {
                    TWO_LINES => copy_lines::<false>(from, to, len),
                    _ => short(from, to, len),
                }
            }
        }
    }

    /// Copies rows of at least a line next to each other.
    ///
    /// # Safety
    ///
    /// As for [`copy_short`](Self::copy_short).
    #[inline(always)]
    unsafe fn copy_long(&self, to: *mut u8) {
        let &Rows {
            from,
            apart,
            len,
            n,
            ..
        } = self;
        for i in 0..n {
            // SAFETY: the caller guarantees the rows.
            unsafe { copy_lines::<false>(from.add(i * apart), to.add(i * len), len) };
        }
    }
}

/// Copies at least a line of bytes, and asks for the memory after them if `AHEAD`.
///
/// # Safety
///
/// `n` bytes must be in bounds. The ranges must not overlap.
#[inline(always)]
unsafe fn copy_lines<const AHEAD: bool>(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller guarantees `n` bytes, at least a line.
    unsafe {
        if n > CALLED {
            return std::ptr::copy_nonoverlapping(from, to, n);
        }
        for at in (0..n - LINE).step_by(LINE).chain([n - LINE]) {
            if AHEAD {
                prefetch(from.wrapping_add(at + DISTANCE));
            }
            let line = from.add(at).cast::<[u8; LINE]>().read();
            to.add(at).cast::<[u8; LINE]>().write(line);
        }
    }
}

/// Distance in bytes at which memory is asked for.
const DISTANCE: usize = 4096;

/// Copies the first elements of `from`, until `to` is full, for a group that reads other operands next.
///
/// The hardware looks ahead within a page only, and a group reads little of an operand before it turns to the next one.
#[inline(always)]
pub(crate) fn copy_first<T: Copy>(from: &[T], to: &mut [T]) {
    let from = &from[..to.len()];
    let n = size_of_val(from);
    let (from, to) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
    // SAFETY: both slices have `n` bytes, and a mutable slice overlaps no other one.
    unsafe {
        match n {
            LINE.. => copy_lines::<true>(from, to, n),
            _ => short(from, to, n),
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

/// Repeats a row of `N` elements, starting at its element `at`. It is written `SPLAT` times at once.
#[inline(always)]
fn repeat_few<const N: usize, T: Copy>(row: &[T], at: usize, out: &mut [T]) {
    let first: [T; N] = array::from_fn(|i| row[(at + i) % N]);
    let pieces: [[T; SPLAT]; N] =
        array::from_fn(|piece| array::from_fn(|i| first[(piece * SPLAT + i) % N]));
    let (whole, rest) = out.as_chunks_mut::<SPLAT>();
    let (several, whole) = whole.as_chunks_mut::<N>();
    several.fill(pieces);
    let last = pieces.get(whole.len()).unwrap_or(&pieces[0]);
    whole.copy_from_slice(&pieces[..whole.len()]);
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Repeats a row, starting at its element `at`. Doubles the written part with each copy.
fn repeat_many<T: Copy>(row: &[T], at: usize, out: &mut [T]) {
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
                let (wide, narrow): (Vec<i64>, Vec<i32>) =
                    (0..last).map(|i| (i as i64, i as i32)).unzip();
                let bytes: Vec<u8> = (0..last).map(|i| i as u8).collect();
                let (mut xs, mut ys, mut zs) = (vec![0; 2 * n], vec![0; 2 * n], vec![0; 2 * n]);
                gather.read(&wide, 0, &mut xs);
                gather.read(&narrow, 0, &mut ys);
                gather.read(&bytes, 0, &mut zs);
                assert!(all.clone().all(|i| xs[i] as usize == expected[i]));
                assert!(all.clone().all(|i| ys[i] as usize == expected[i]));
                assert!(all.clone().all(|i| zs[i] == expected[i] as u8));
            }
        }
    }

    #[test]
    fn repeated_numbers_can_be_read_from_any_element() {
        let data: Vec<f32> = (0..200).map(|i| i as f32).collect();
        for [n_rows, len] in [
            [20, 7],
            [3, 2],
            [40, 2],
            [40, 3],
            [30, 4],
            [9, 16],
            [5, 17],
            [1, 90],
        ] {
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
        let rows: Vec<i32> = (0..60).collect();
        for len in [2, 3, 4, 7, 20] {
            // Parts of 100 repetitions are long enough for vectors.
            for (first, n_rows, repeats) in [(1, 1, 100), (1, 1, 9), (0, 3, 4), (0, 3, 1)] {
                let layout = Layout::contiguous(&[3, 1, len]).narrow(0, first, n_rows, 1);
                let gather = Gather::new(&layout.broadcast_to(&[n_rows, repeats, len]));
                let all = n_rows * repeats * len;
                let element = |i: usize| (first * len + i / (repeats * len) * len + i % len) as i32;
                for from in 0..all.min(3 * len * repeats.min(9)) {
                    for n in 0..=all - from {
                        let mut read = vec![-1; n];
                        gather.read(&rows, from, &mut read);
                        let expected: Vec<i32> = (from..from + n).map(element).collect();
                        assert_eq!(read, expected);
                        if let (2.., Some((row, at))) = (repeats, gather.repeated(from, n)) {
                            let repeated = (0..n).map(|i| rows[row + (at + i) % len]);
                            assert!(repeated.eq(expected));
                        }
                    }
                }
            }
        }
    }
}
