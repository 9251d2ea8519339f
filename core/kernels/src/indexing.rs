//! Reads and writes of elements at indices of an axis.
//!
//! A tensor has the shape `[outer, n, inner]`, and the elements at the indices have the shape
//! `[outer, m, inner]`. The elements of the inner axes that share an index are a *row*, which is copied
//! as a whole.

use crate::KernelFault;
use crate::memory::data::Base;
use crate::memory::words::{Payload, Word};
use crate::memory::{Data, Element};
use crate::movement::write::{Write, on_write};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::{copy_streamed, fence, non_temporal, prefetch_elements};
use crate::task::Prepared;
use crate::threads::{for_each_chunk, worth};
use gradloom_ir::DType;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Integer type of indices.
trait Index: Element + Into<i64> {}
impl Index for i32 {}
impl Index for i64 {}

/// Returns an index counted from the start of the axis.
#[inline(always)]
fn from_start<I: Index>(index: I, n: usize) -> usize {
    let index: i64 = index.into();
    (if index < 0 { index + n as i64 } else { index }) as usize
}

/// Sizes of a tensor and of indices of one of its axes.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Number of elements of the axes before the indexed one.
    pub outer: usize,
    /// Length of the axis.
    pub n: usize,
    /// Number of indices.
    pub m: usize,
    /// Number of elements of the axes after the indexed one.
    pub inner: usize,
    /// True if each outer element has indices of its own.
    pub by_outer: bool,
    /// True if each inner element has an index of its own.
    pub by_inner: bool,
    /// True if all outer elements read the same tensor, of shape `[n, inner]`.
    pub shared: bool,
}

/// Elements of a cache-sized part of a result.
const CHUNK: usize = 4096;

/// Elements of a part of a result that is written with non-temporal stores.
const STREAMED: usize = 1 << 17;

/// Distance from a row to the later one that is prefetched.
const AHEAD: usize = 8;

/// Calls a function that is generic over the type of indices.
macro_rules! on_index {
    ($indices:expr, |$slice:ident| $call:expr) => {
        match $indices {
            Data::I32($slice) => $call,
            other => {
                let $slice = i64::slice(other);
                $call
            }
        }
    };
}

/// Copies the elements at the indices. The operands are the tensor and the indices.
pub fn take(dtype: DType, at: Places) -> Prepared {
    fn typed<T: Word>(at: Places) -> Prepared {
        Box::new(move |args, outs| {
            let xs = T::slice(args[0], outs[0].dtype());
            let out = T::slice_mut(&mut outs[0]);
            on_index!(args[1], |indices| {
                if !take_slices(xs, indices, out, at) {
                    check(indices, at.n)?;
                }
            });
            Ok(())
        })
    }
    on_word!(dtype, typed(at))
}

/// As [`take`], but 0 for an index that a later one repeats.
///
/// The second result is scratch of [`take_last_scratch`] elements.
pub fn take_last(dtype: DType, at: Places) -> Prepared {
    fn typed<T: Word>(at: Places) -> Prepared {
        Box::new(move |args, outs| {
            let [out, scratch] = outs else {
                unreachable!("the kernel has a result and scratch")
            };
            let (xs, out) = (T::slice(args[0], out.dtype()), T::slice_mut(out));
            let last = i64::slice_mut(scratch);
            on_index!(args[1], |indices| {
                check(indices, at.n)?;
                take_last_slices(xs, indices, out, last, at);
            });
            Ok(())
        })
    }
    on_word!(dtype, typed(at))
}

/// Returns the number of elements of the scratch of [`take_last`].
pub fn take_last_scratch(at: Places) -> usize {
    at.n * at.width()
}

/// Writes elements at the indices of a tensor: of zeros, or of an operand if `onto` is true.
///
/// The operands are the tensor, if there is one, the indices and the elements. The order of equal
/// indices is kept. If it computes in place, it checks the indices before it writes.
///
/// # Panics
///
/// If bools are combined other than by [`Write::Set`].
pub fn write(dtype: DType, at: Places, onto: bool, by: Write) -> Prepared {
    fn typed<T: Element>(
        at: Places,
        onto: bool,
        combine: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
    ) -> Prepared {
        Box::new(move |args, outs| {
            let (base, rest) = match onto {
                true => (Base::of(args[0]), &args[1..]),
                false => (Base::Zeros, args),
            };
            let (ys, out) = (T::slice(rest[1]), T::slice_mut(&mut outs[0]));
            on_index!(rest[0], |indices| {
                if matches!(base, Base::Same) {
                    check(indices, at.n)?;
                }
                if !write_slices(base, indices, ys, out, at, combine) {
                    check(indices, at.n)?;
                }
            });
            Ok(())
        })
    }
    on_write!(dtype, by, typed(at, onto))
}

impl Places {
    /// Returns the number of indices at each place along the axis.
    fn width(self) -> usize {
        if self.by_inner { self.inner } else { 1 }
    }

    /// Returns the position of the first index of an outer element.
    fn indices_of(self, outer: usize) -> usize {
        match self.by_outer {
            true => outer * self.m * self.width(),
            false => 0,
        }
    }

    /// Returns the position of the first element of an outer element in the tensor that is read.
    fn read_of(self, outer: usize) -> usize {
        match self.shared {
            true => 0,
            false => outer * self.n * self.inner,
        }
    }

    /// Returns an estimate of the time to move `n` elements on one thread.
    fn nanos<T>(self, n: usize) -> usize {
        let per_row = n / self.inner.max(1) * 2;
        n * size_of::<T>() / 8 + per_row
    }
}

/// Returns an index counted from the start of an axis that is not empty, or 0 and sets `wrong` if it
/// is out of range.
///
/// There is no branch, so that the loads of several elements overlap.
#[inline(always)]
fn place_of<I: Index>(index: I, n: usize, wrong: &mut bool) -> usize {
    let place = from_start(index, n);
    let fits = place < n;
    *wrong |= !fits;
    if fits { place } else { 0 }
}

/// Prefetches the row of `len` elements at a later index.
#[inline(always)]
fn prefetch_row<T: Payload, I: Index>(xs: &[T], later: Option<&I>, [n, len]: [usize; 2]) {
    if let Some(index) = later {
        // The index may be out of range.
        prefetch_elements(xs, from_start(*index, n).wrapping_mul(len), len);
    }
}

/// Checks that all indices are between `-n` and `n - 1`.
fn check<I: Index>(indices: &[I], n: usize) -> Result<(), KernelFault> {
    let len = n as i64;
    let fits = |index: I| {
        let index: i64 = index.into();
        (-len <= index) & (index < len)
    };
    // Without an early exit, so that the loop is vectorised.
    if indices.iter().fold(true, |all, index| all & fits(*index)) {
        return Ok(());
    }
    let wrong = indices.iter().position(|index| !fits(*index));
    let position = wrong.expect("an index does not fit");
    Err(KernelFault::Index {
        index: indices[position].into(),
        len: n,
        position,
    })
}

/// Returns whether all indices are in range.
fn take_slices<T: Word, I: Index>(xs: &[T], indices: &[I], out: &mut [T], at: Places) -> bool {
    let Places { n, m, inner, .. } = at;
    if out.is_empty() || n == 0 {
        return indices.is_empty() || check(indices, n).is_ok();
    }
    // A row that is stored twice as fast, because it goes to a cache, makes up for what it evicts.
    let streamed = non_temporal(size_of_val(out) / 4);
    let chunk = if streamed { STREAMED } else { CHUNK };
    let rows = (chunk / inner).max(1);
    let nanos = at.nanos::<T>(at.outer * m * inner);
    let is_wrong = AtomicBool::new(false);
    for_each_chunk(out, rows * inner, nanos, |c, mut out| {
        let (mut outer, mut j) = (c * rows / m, c * rows % m);
        let mut all = true;
        while !out.is_empty() {
            // The rows of one outer element.
            let some = (m - j).min(out.len() / inner);
            let (now, later) = out.split_at_mut(some * inner);
            let xs = &xs[at.read_of(outer)..][..n * inner];
            let width = at.width();
            let indices = &indices[at.indices_of(outer) + j * width..][..some * width];
            all &= take_rows(xs, indices, now, at, streamed);
            (outer, j, out) = (outer + 1, 0, later);
        }
        if streamed {
            fence();
        }
        if !all {
            is_wrong.store(true, Relaxed);
        }
    });
    !is_wrong.into_inner()
}

leveled! {
    /// Copies the rows of one outer element, and returns whether all indices are in range.
    fn take_rows<S, T: Word>(
        xs: &[T],
        indices: &[impl Index],
        out: &mut [T],
        at: Places,
        streamed: bool,
    ) -> bool {
        let Places { n, inner, .. } = at;
        assert!(n > 0 && xs.len() == n * inner, "an axis with elements");
        let mut right = true;
        if inner == 1 {
            right = take_elements(xs, n, indices, out, Columns::One);
        } else if at.by_inner {
            for (row, indices) in out.chunks_exact_mut(inner).zip(indices.chunks_exact(inner)) {
                right &= take_elements(xs, n, indices, row, Columns::Each(inner));
            }
        } else {
            let mut wrong = false;
            for (row, index) in out.chunks_exact_mut(inner).zip(indices) {
                let from = &xs[place_of(*index, n, &mut wrong) * inner..][..inner];
                match streamed {
                    true => copy_streamed(from, row),
                    false => row.copy_from_slice(from),
                }
            }
            right = !wrong;
        }
        right
    }
}

/// Columns of the elements at indices along the rows of a matrix.
#[derive(Clone, Copy)]
enum Columns {
    /// The matrix has one column.
    One,
    /// Each index is for the next column of this many.
    Each(usize),
}

impl Columns {
    /// Returns the position of the element for index `b`, in row `place` of the matrix.
    #[inline(always)]
    fn element(self, place: usize, b: usize) -> usize {
        match self {
            Columns::One => place,
            Columns::Each(inner) => place * inner + b,
        }
    }

    /// Returns whether a matrix of `n` rows with `len` elements has these columns for `m` indices.
    fn fit(self, n: usize, len: usize, m: usize) -> bool {
        match self {
            Columns::One => len == n,
            Columns::Each(inner) => len == n * inner && m <= inner,
        }
    }
}

/// Calls `f` with the position of each index and the index, up to the first four of which one is not *plain*:
/// in range, and counted from the start. Returns the number of calls.
///
/// A branch for four indices, which is predicted, costs less than one for each, or a pass over all of them before.
#[inline(always)]
fn for_plain<I: Index>(indices: &[I], n: usize, mut f: impl FnMut(usize, usize)) -> usize {
    let mut done = 0;
    let (groups, rest) = indices.as_chunks::<4>();
    for group in groups {
        let group = group.map(Into::<i64>::into);
        if group
            .iter()
            .fold(false, |other, index| other | (*index as u64 >= n as u64))
        {
            return done;
        }
        for (j, index) in group.into_iter().enumerate() {
            f(done + j, index as usize);
        }
        done += group.len();
    }
    for index in rest {
        let index: i64 = (*index).into();
        if index as u64 >= n as u64 {
            break;
        }
        f(done, index as usize);
        done += 1;
    }
    done
}

/// Copies elements of a matrix, one for each index, and returns whether all indices are in range.
#[inline(always)]
fn take_elements<T: Word>(
    xs: &[T],
    n: usize,
    indices: &[impl Index],
    out: &mut [T],
    columns: Columns,
) -> bool {
    assert!(out.len() == indices.len() && columns.fit(n, xs.len(), out.len()));
    let (from, to) = (xs.as_ptr(), out.as_mut_ptr());
    let done = for_plain(indices, n, |b, place| {
        // SAFETY: the place is less than `n`, and `b` less than the number of indices. The matrix has
        // `n` rows and a column for each element of `out`, as asserted. The volatile load stays a load
        // of one element, which is faster than the vectors that rustc builds of single elements.
        unsafe { *to.add(b) = from.add(columns.element(place, b)).read_volatile() }
    });
    let mut wrong = false;
    for (b, (y, index)) in out.iter_mut().zip(indices).enumerate().skip(done) {
        *y = xs[columns.element(place_of(*index, n, &mut wrong), b)];
    }
    !wrong
}

/// Combines elements of a matrix, one for each index, with updates, and returns whether all indices
/// are in range.
#[inline(always)]
fn write_elements<T: Element>(
    indices: &[impl Index],
    n: usize,
    ys: &[T],
    out: &mut [T],
    columns: Columns,
    combine: impl Fn(T, T) -> T,
) -> bool {
    assert!(ys.len() == indices.len() && columns.fit(n, out.len(), ys.len()));
    let (from, to) = (ys.as_ptr(), out.as_mut_ptr());
    let done = for_plain(indices, n, |b, place| {
        // SAFETY: the place is less than `n`, and `b` less than the number of indices. The matrix
        // `out` has `n` rows and a column for each of `ys`, as asserted.
        unsafe {
            let to = to.add(columns.element(place, b));
            *to = combine(*to, *from.add(b));
        }
    });
    let mut wrong = false;
    for (b, (y, index)) in ys.iter().zip(indices).enumerate().skip(done) {
        let place = from_start(*index, n);
        match place < n {
            true => {
                let to = &mut out[columns.element(place, b)];
                *to = combine(*to, *y);
            }
            false => wrong = true,
        }
    }
    !wrong
}

fn take_last_slices<T: Word, I: Index>(
    xs: &[T],
    indices: &[I],
    out: &mut [T],
    last: &mut [i64],
    at: Places,
) {
    let Places { n, m, inner, .. } = at;
    if out.is_empty() {
        return;
    }
    let width = at.width();
    for (outer, out) in out.chunks_exact_mut(m * inner).enumerate() {
        let indices = &indices[at.indices_of(outer)..][..m * width];
        let xs = &xs[at.read_of(outer)..][..n * inner];
        for (j, row) in indices.chunks_exact(width).enumerate() {
            for (b, index) in row.iter().enumerate() {
                last[from_start(*index, n) * width + b] = j as i64;
            }
        }
        for (j, (row, indices)) in out
            .chunks_exact_mut(inner)
            .zip(indices.chunks_exact(width))
            .enumerate()
        {
            let is_last = |place: usize| last[place] == j as i64;
            if at.by_inner {
                for (b, (y, index)) in row.iter_mut().zip(indices).enumerate() {
                    let place = from_start(*index, n) * inner + b;
                    *y = if is_last(place) {
                        xs[place]
                    } else {
                        T::default()
                    };
                }
            } else {
                let place = from_start(indices[0], n);
                match is_last(place) {
                    true => row.copy_from_slice(&xs[place * inner..][..inner]),
                    false => row.fill(T::default()),
                }
            }
        }
    }
}

/// Returns whether all indices are in range.
///
/// Each part of the result takes its updates in order, so it does not depend on the number of
/// threads.
fn write_slices<T: Element, I: Index>(
    base: Base<'_, T>,
    indices: &[I],
    ys: &[T],
    out: &mut [T],
    at: Places,
    combine: impl Fn(T, T) -> T + Copy + Sync,
) -> bool {
    let Places {
        outer, n, m, inner, ..
    } = at;
    if out.is_empty() {
        return indices.is_empty() || check(indices, n).is_ok();
    }
    let copied = match base {
        Base::Same => 0,
        Base::Zeros | Base::Copy(_) => out.len(),
    };
    let nanos = at.nanos::<T>(copied + 2 * ys.len());
    // Each part of an outer element reads all of its indices, which is cheap for long rows only.
    let parts = match at.by_inner {
        true => 1,
        false => (inner / 8).clamp(1, worth(nanos).div_ceil(outer)),
    };
    let of_outer = |o: usize| {
        let indices = &indices[at.indices_of(o)..][..m * at.width()];
        (indices, &ys[o * m * inner..][..m * inner])
    };
    if parts > 1 {
        if check(indices, n).is_err() {
            return false;
        }
        let rows = n.div_ceil(parts);
        for (o, out) in out.chunks_exact_mut(n * inner).enumerate() {
            let (indices, ys) = of_outer(o);
            for_each_chunk(out, rows * inner, nanos / outer, |c, out| {
                base.start(o * n * inner + c * rows * inner, out);
                write_part(indices, ys, out, at, c * rows, combine);
            });
        }
        return true;
    }
    // Whole outer elements, several at a time.
    let some = (CHUNK / (n * inner)).max(1);
    let is_wrong = AtomicBool::new(false);
    for_each_chunk(out, some * n * inner, nanos, |c, out| {
        base.start(c * some * n * inner, out);
        for (i, out) in out.chunks_exact_mut(n * inner).enumerate() {
            let (indices, ys) = of_outer(c * some + i);
            if !write_all(indices, ys, out, at, combine) {
                is_wrong.store(true, Relaxed);
            }
        }
    });
    !is_wrong.into_inner()
}

leveled! {
    /// Writes the updates for the rows of `out`, the first of which is row `first`.
    fn write_part<S, T: Element>(
        indices: &[impl Index],
        ys: &[T],
        out: &mut [T],
        at: Places,
        first: usize,
        combine: impl Fn(T, T) -> T,
    ) {
        let Places { n, inner, .. } = at;
        let len = out.len() / inner;
        for (i, (row, index)) in ys.chunks_exact(inner).zip(indices).enumerate() {
            if let Some(later) = indices.get(i + AHEAD) {
                let to = from_start(*later, n).wrapping_sub(first);
                if to < len {
                    // Other threads take the updates between.
                    prefetch_elements(ys, (i + AHEAD) * inner, inner);
                    prefetch_elements(out, to * inner, inner);
                }
            }
            let to = from_start(*index, n).wrapping_sub(first);
            if to < len {
                let to = &mut out[to * inner..][..inner];
                (to.iter_mut().zip(row)).for_each(|(to, y)| *to = combine(*to, *y));
            }
        }
    }
}

leveled! {
    /// Writes the updates of one outer element, and returns whether all indices are in range.
    fn write_all<S, T: Element>(
        indices: &[impl Index],
        ys: &[T],
        out: &mut [T],
        at: Places,
        combine: impl Fn(T, T) -> T,
    ) -> bool {
        let Places { n, inner, .. } = at;
        assert!(n > 0 && out.len() == n * inner, "an axis with elements");
        let mut right = true;
        if inner == 1 {
            right = write_elements(indices, n, ys, out, Columns::One, combine);
        } else if at.by_inner {
            for (row, indices) in ys.chunks_exact(inner).zip(indices.chunks_exact(inner)) {
                right &= write_elements(indices, n, row, out, Columns::Each(inner), &combine);
            }
        } else {
            let mut wrong = false;
            for (i, (row, index)) in ys.chunks_exact(inner).zip(indices).enumerate() {
                prefetch_row(out, indices.get(i + AHEAD), [n, inner]);
                let to = &mut out[place_of(*index, n, &mut wrong) * inner..][..inner];
                (to.iter_mut().zip(row)).for_each(|(to, y)| *to = combine(*to, *y));
            }
            right = !wrong;
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, STREAMED, take_slices};
    use crate::simd::vector::non_temporal;

    #[test]
    fn elements_and_rows_of_any_size_are_those_at_the_indices() {
        let n = 1000;
        for (inner, m) in [
            (1, 3 * STREAMED),
            (3, 9000),
            (17, 800),
            (20, 420_000),
            (64, 40_000),
        ] {
            let xs: Vec<u32> = (0..n as u32 * inner as u32).collect();
            let place = |j: usize| j * 7919 % n;
            for negative in [false, true] {
                let index = |j: usize| match negative && j.is_multiple_of(3) {
                    true => place(j) as i64 - n as i64,
                    false => place(j) as i64,
                };
                let mut indices: Vec<i64> = (0..m).map(index).collect();
                let at = Places {
                    outer: 1,
                    n,
                    m,
                    inner,
                    by_outer: false,
                    by_inner: false,
                    shared: true,
                };
                let mut out = vec![u32::MAX; m * inner];
                assert!(take_slices(&xs, &indices, &mut out, at));
                for (j, row) in out.chunks(inner).enumerate() {
                    assert_eq!(*row, xs[place(j) * inner..][..inner], "{inner} {j}");
                }
                for wrong in [n as i64, -1 - n as i64] {
                    indices[m - 1] = wrong;
                    assert!(!take_slices(&xs, &indices, &mut out, at));
                }
            }
        }
        assert!(non_temporal(20 * 420_000 * size_of::<u32>() / 4));
    }
}
