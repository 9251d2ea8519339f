//! Reads and writes of elements at indices of an axis.
//!
//! A tensor has the shape `[outer, n, inner]`, and the elements at the indices have the shape
//! `[outer, m, inner]`. The elements of the inner axes that share an index are a *row*, which is copied
//! as a whole.

use crate::KernelFault;
use crate::memory::{Data, Element};
use crate::simd::number::Number;
use crate::task::Prepared;
use crate::threads::for_each_chunk;
use gradloom_ir::DType;

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

/// Combination of an update with the element that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The update replaces the element.
    Set,
    /// The sum.
    Add,
    /// The greater one, or NaN if either is NaN.
    Max,
    /// The smaller one, or NaN if either is NaN.
    Min,
}

/// Elements of a cache-sized part of a result.
const CHUNK: usize = 4096;
/// Largest number of parts of a result that are written at the same time.
const MAX_PARTS: usize = 16;

/// Integer type of indices.
trait Index: Element + Into<i64> {}
impl Index for i32 {}
impl Index for i64 {}

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
    fn typed<T: Element>(at: Places) -> Prepared {
        Box::new(move |args, outs| {
            let (xs, out) = (T::slice(args[0]), T::slice_mut(&mut outs[0]));
            on_index!(args[1], |indices| {
                check(indices, at.n)?;
                take_slices(xs, indices, out, at);
            });
            Ok(())
        })
    }
    on_element!(dtype, typed(at))
}

/// As [`take`], but 0 for an index that a later one repeats.
///
/// The second result is scratch of [`take_last_scratch`] elements.
pub fn take_last(dtype: DType, at: Places) -> Prepared {
    fn typed<T: Element>(at: Places) -> Prepared {
        Box::new(move |args, outs| {
            let [out, scratch] = outs else {
                unreachable!("the kernel has a result and scratch")
            };
            let (xs, out) = (T::slice(args[0]), T::slice_mut(out));
            let last = i64::slice_mut(scratch);
            on_index!(args[1], |indices| {
                check(indices, at.n)?;
                take_last_slices(xs, indices, out, last, at);
            });
            Ok(())
        })
    }
    on_element!(dtype, typed(at))
}

/// Returns the number of elements of the scratch of [`take_last`].
pub fn take_last_scratch(at: Places) -> usize {
    at.n * at.width()
}

/// Writes elements at the indices of a tensor: of zeros, or of an operand if `onto` is true.
///
/// The operands are the tensor, if there is one, the indices and the elements. The order of equal
/// indices is kept.
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
                true => (Some(T::slice(args[0])), &args[1..]),
                false => (None, args),
            };
            let (ys, out) = (T::slice(rest[1]), T::slice_mut(&mut outs[0]));
            on_index!(rest[0], |indices| {
                check(indices, at.n)?;
                write_slices(base, indices, ys, out, at, combine);
            });
            Ok(())
        })
    }
    fn number<T: Number>(at: Places, onto: bool, by: Write) -> Prepared {
        match by {
            Write::Set => typed(at, onto, |_, y: T| y),
            Write::Add => typed(at, onto, T::plus),
            Write::Max => typed(at, onto, T::greater),
            Write::Min => typed(at, onto, T::less),
        }
    }
    match (dtype, by) {
        (DType::Bool, Write::Set) => typed(at, onto, |_, y: bool| y),
        _ => on_number!(dtype, number(at, onto, by)),
    }
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

/// Returns an index counted from the start of the axis.
#[inline(always)]
fn from_start<I: Index>(index: I, n: usize) -> usize {
    let index: i64 = index.into();
    (if index < 0 { index + n as i64 } else { index }) as usize
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

fn take_slices<T: Element, I: Index>(xs: &[T], indices: &[I], out: &mut [T], at: Places) {
    let Places { n, m, inner, .. } = at;
    if out.is_empty() {
        return;
    }
    let rows = (CHUNK / inner).max(1);
    for_each_chunk(
        out,
        rows * inner,
        at.nanos::<T>(at.outer * m * inner),
        |c, out| {
            let (mut outer, mut j) = (c * rows / m, c * rows % m);
            let (mut start, mut read) = (at.indices_of(outer), at.read_of(outer));
            for row in out.chunks_exact_mut(inner) {
                if at.by_inner {
                    let indices = &indices[start + j * inner..][..inner];
                    let whole = &xs[read..][..n * inner];
                    for (b, (y, index)) in row.iter_mut().zip(indices).enumerate() {
                        *y = whole[from_start(*index, n) * inner + b];
                    }
                } else {
                    let from = read + from_start(indices[start + j], n) * inner;
                    row.copy_from_slice(&xs[from..from + inner]);
                }
                j += 1;
                if j == m {
                    (outer, j) = (outer + 1, 0);
                    (start, read) = (at.indices_of(outer), at.read_of(outer));
                }
            }
        },
    );
}

fn take_last_slices<T: Element, I: Index>(
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

/// Each part of the result takes its updates in order, so it does not depend on the number of
/// threads.
fn write_slices<T: Element, I: Index>(
    base: Option<&[T]>,
    indices: &[I],
    ys: &[T],
    out: &mut [T],
    at: Places,
    combine: impl Fn(T, T) -> T + Copy + Sync,
) {
    let Places {
        outer, n, m, inner, ..
    } = at;
    if out.is_empty() {
        return;
    }
    // Each part of an outer element reads all of its indices, which is cheap for long rows only.
    let parts = match at.by_inner {
        true => 1,
        false => (inner / 8).clamp(1, MAX_PARTS.div_ceil(outer)),
    };
    let rows = n.div_ceil(parts);
    let nanos = at.nanos::<T>(out.len() + 2 * ys.len());
    let write = |o: usize, first: usize, out: &mut [T]| {
        let indices = &indices[at.indices_of(o)..][..m * at.width()];
        let ys = &ys[o * m * inner..][..m * inner];
        if at.by_inner {
            for (row, indices) in ys.chunks_exact(inner).zip(indices.chunks_exact(inner)) {
                for (b, (y, index)) in row.iter().zip(indices).enumerate() {
                    let to = &mut out[from_start(*index, n) * inner + b];
                    *to = combine(*to, *y);
                }
            }
            return;
        }
        let len = out.len() / inner;
        for (row, index) in ys.chunks_exact(inner).zip(indices) {
            let to = from_start(*index, n).wrapping_sub(first);
            if to < len {
                for (to, y) in out[to * inner..][..inner].iter_mut().zip(row) {
                    *to = combine(*to, *y);
                }
            }
        }
    };
    let start = |from: usize, out: &mut [T]| match base {
        Some(base) => out.copy_from_slice(&base[from..][..out.len()]),
        None => out.fill(T::default()),
    };
    if parts == 1 {
        // Whole outer elements, several at a time.
        let some = (CHUNK / (n * inner)).max(1);
        for_each_chunk(out, some * n * inner, nanos, |c, out| {
            start(c * some * n * inner, out);
            for (i, out) in out.chunks_exact_mut(n * inner).enumerate() {
                write(c * some + i, 0, out);
            }
        });
        return;
    }
    for (o, out) in out.chunks_exact_mut(n * inner).enumerate() {
        for_each_chunk(out, rows * inner, nanos / outer, |c, out| {
            start(o * n * inner + c * rows * inner, out);
            write(o, c * rows, out);
        });
    }
}
