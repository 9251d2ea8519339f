//! Orders of rows: sorting, and the greatest elements.
//!
//! NaN is greater than any number.

use crate::memory::element::Element;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use gradloom_ir::DType;
use std::cmp::Reverse;

/// Number of elements of a result that a thread computes, at least.
const TASK: usize = 1 << 12;

/// Direction of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

/// Sorts each row of `len` elements.
pub fn sort(dtype: DType, len: usize, direction: Direction) -> Prepared {
    fn typed<T: Number>(len: usize, direction: Direction) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            for_each_row(out, len, 60, |i, out| {
                out.copy_from_slice(&xs[i * len..][..len]);
                match direction {
                    Direction::Ascending => out.sort_unstable_by_key(|x| key(*x)),
                    Direction::Descending => out.sort_unstable_by_key(|x| Reverse(key(*x))),
                }
            });
        })
    }
    on_number!(dtype, typed(len, direction))
}

/// Writes the indices of each row of `len` elements in their order. Equal elements keep theirs.
pub fn argsort(dtype: DType, len: usize, direction: Direction) -> Prepared {
    fn typed<T: Number>(len: usize, direction: Direction) -> Prepared {
        map(move |xs: &[T], out: &mut [i64]| {
            for_each_row(out, len, 100, |i, out| {
                let mut row = places(&xs[i * len..][..len]);
                sort_places(&mut row, direction);
                write_places(&row, out);
            });
        })
    }
    on_number!(dtype, typed(len, direction))
}

/// Writes the indices of the `count` greatest of each row of `len` elements, the greatest first.
///
/// Of equal elements, the first are first.
pub fn top_k(dtype: DType, len: usize, count: usize) -> Prepared {
    fn typed<T: Number>(len: usize, count: usize) -> Prepared {
        map(move |xs: &[T], out: &mut [i64]| {
            for_each_row(out, count, 10 * len.div_ceil(count.max(1)), |i, out| {
                let mut row = places(&xs[i * len..][..len]);
                if count < len {
                    let descending = |p: &(T::Key, usize)| (Reverse(p.0), p.1);
                    row.select_nth_unstable_by_key(count, descending);
                }
                let row = &mut row[..count];
                sort_places(row, Direction::Descending);
                write_places(row, out);
            });
        })
    }
    on_number!(dtype, typed(len, count))
}

/// Calls `row` with the number and the elements of each row of `len` elements of `out`.
///
/// An element takes about `nanos`.
fn for_each_row<T: Element>(
    out: &mut [T],
    len: usize,
    nanos: usize,
    row: impl Fn(usize, &mut [T]) + Sync,
) {
    if out.is_empty() {
        return;
    }
    let rows = TASK.div_ceil(len);
    let nanos = nanos * out.len();
    for_each_chunk(out, rows * len, nanos, |task, out| {
        for (i, out) in out.chunks_exact_mut(len).enumerate() {
            row(task * rows + i, out);
        }
    });
}

/// Returns the integer that orders the elements: NaN is the greatest.
fn key<T: Number>(x: T) -> T::Key {
    match x.is_number() {
        true => x.key(),
        false => T::GREATEST,
    }
}

/// Returns the keys and the indices of a row. Zeros of both signs are equal.
fn places<T: Number>(row: &[T]) -> Vec<(T::Key, usize)> {
    let row = row.iter().enumerate();
    row.map(|(i, x)| (key(x.plus(T::ZERO)), i)).collect()
}

fn sort_places<K: Copy + Ord>(row: &mut [(K, usize)], direction: Direction) {
    match direction {
        Direction::Ascending => row.sort_unstable(),
        Direction::Descending => row.sort_unstable_by_key(|&(key, i)| (Reverse(key), i)),
    }
}

fn write_places<K>(row: &[(K, usize)], out: &mut [i64]) {
    for (y, (_, i)) in out.iter_mut().zip(row) {
        *y = *i as i64;
    }
}
