//! Orders of rows: sorting, and the greatest elements.
//!
//! NaN is greater than any number.

use crate::memory::element::Element;
use crate::memory::scratch::{Plain, with_scratch};
use crate::movement::write_parts;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::task::{Prepared, map};
use crate::threads::{for_each, for_each_chunk, worth};
use gradloom_ir::DType;
use std::ops::Range;

/// Number of elements of a result that a thread computes, at least.
const TASK: usize = 1 << 12;

/// Direction of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

/// Writes 0 and 1 for bools.
pub fn numbers_of_bools() -> Prepared {
    map(|xs: &[bool], out: &mut [i32]| {
        (out.iter_mut().zip(xs)).for_each(|(y, x)| *y = i32::from(*x));
    })
}

/// Writes the bools for 0 and 1.
pub fn bools_of_numbers() -> Prepared {
    map(|xs: &[i32], out: &mut [bool]| {
        (out.iter_mut().zip(xs)).for_each(|(y, x)| *y = *x != 0);
    })
}

/// Number of elements up to which a value is compared with all of them, which is faster than a search.
const FEW_ELEMENTS: usize = 32;

/// Number of values that are searched for together: the loads of one search wait for each other.
const AT_ONCE: usize = 16;

/// Writes the number of elements of an ascending vector that are less than each value. NaN is the greatest.
///
/// The operands are vectors of `len` elements, and `n_values` values for each.
pub fn search(dtype: DType, len: usize, n_values: usize) -> Prepared {
    fn typed<T: Number>(len: usize, n_values: usize) -> Prepared {
        Box::new(move |args, outs| {
            let (xs, values) = (T::slice(args[0]), T::slice(args[1]));
            let out = i64::slice_mut(&mut outs[0]);
            let nanos = out.len() * len.min(FEW_ELEMENTS) / 4;
            for_each_chunk(out, TASK, nanos, |i, out| {
                let (mut at, mut out) = (i * TASK, out);
                while !out.is_empty() {
                    let (vector, in_vector) = (at / n_values, at % n_values);
                    let (now, later) = out.split_at_mut(out.len().min(n_values - in_vector));
                    let (xs, values) = (&xs[vector * len..][..len], &values[at..][..now.len()]);
                    match len {
                        ..=FEW_ELEMENTS => count_less(xs, values, now),
                        _ => bisect(xs, values, now),
                    }
                    (at, out) = (at + now.len(), later);
                }
            });
            Ok(())
        })
    }
    on_number!(dtype, typed(len, n_values))
}

leveled! {
    fn count_less<S, T: Number>(xs: &[T], values: &[T], out: &mut [i64]) {
        out.fill(0);
        for x in xs {
            (out.iter_mut().zip(values)).for_each(|(n, value)| *n += i64::from(value.above(*x)));
        }
    }
}

leveled! {
    /// Halves the part of the vector in which the place of each value is.
    fn bisect<S, T: Number>(xs: &[T], values: &[T], out: &mut [i64]) {
        let (values, rest) = values.as_chunks::<AT_ONCE>();
        let (out, of_rest) = out.as_chunks_mut::<AT_ONCE>();
        (out.iter_mut().zip(values)).for_each(|(out, values)| *out = places(xs, values));
        for (out, value) in of_rest.iter_mut().zip(rest) {
            [*out] = places(xs, std::array::from_ref(value));
        }
    }
}

/// Returns the number of elements that are less than each value. The vector has at least one element.
#[inline(always)]
fn places<T: Number, const N: usize>(xs: &[T], values: &[T; N]) -> [i64; N] {
    // The place is among the `n` elements from each start on, or after them.
    let (mut starts, mut n) = ([0; N], xs.len());
    while n > 1 {
        let half = n / 2;
        let later = above(&xs[half - 1..], &starts, values);
        (starts.iter_mut().zip(later)).for_each(|(start, later)| *start += half & later);
        n -= half;
    }
    let mut places = [0; N];
    let later = above(xs, &starts, values);
    for ((place, start), later) in places.iter_mut().zip(starts).zip(later) {
        *place = (start + (later & 1)) as i64;
    }
    places
}

/// Compares each value with the element at an index. The result has all bits set if the value is greater, and none otherwise.
///
/// Elements are loaded before any is compared, so the comparisons are those of vectors, and not branches.
#[inline(always)]
fn above<T: Number, const N: usize>(xs: &[T], at: &[usize; N], values: &[T; N]) -> [usize; N] {
    let (mut elements, mut above) = ([T::ZERO; N], [0; N]);
    (elements.iter_mut().zip(at)).for_each(|(x, at)| *x = xs[*at]);
    for ((above, value), x) in above.iter_mut().zip(values).zip(elements) {
        *above = usize::from(value.above(x)).wrapping_neg();
    }
    above
}

/// Sorts each row of `len` elements. Equal elements keep their order: zeros of both signs.
pub fn sort(dtype: DType, len: usize, direction: Direction) -> Prepared {
    fn typed<T: Number>(len: usize, direction: Direction) -> Prepared
    where
        T::Key: Digits,
    {
        map(move |xs: &[T], out: &mut [T]| {
            for_each_row(out, len, 20, |i, out| {
                with_scratch([len, len], |[keys, other]| {
                    let row = &xs[i * len..][..len];
                    write_parts(keys, 1, |at, keys| {
                        write(row[at..].iter().map(|x| key(*x)), keys);
                    });
                    let sorted = sorted(keys, other, 0..size_of::<T>() as u32);
                    write_parts(out, 1, |at, out| {
                        let element = |key: &T::Key| T::of_key(*key);
                        match direction {
                            Direction::Ascending => write(sorted[at..].iter().map(element), out),
                            Direction::Descending => {
                                write(sorted[..len - at].iter().rev().map(element), out);
                            }
                        }
                    });
                    if T::TYPE.is_float() {
                        write_zeros(row, out);
                    }
                });
            });
        })
    }
    on_number!(dtype, typed(len, direction))
}

/// Writes the zeros of a row to those of its sorted elements. Keys do not tell their signs.
fn write_zeros<T: Number>(row: &[T], sorted: &mut [T]) {
    let zero = T::default();
    let Some(first) = sorted.iter().position(|y| *y == zero) else {
        return;
    };
    let zeros = row.iter().filter(|x| **x == zero);
    write(zeros.copied(), &mut sorted[first..]);
}

/// Writes the indices of each row of `len` elements in their order. Equal elements keep theirs.
pub fn argsort(dtype: DType, len: usize, direction: Direction) -> Prepared {
    fn typed<T: Number>(len: usize, direction: Direction) -> Prepared
    where
        T::Key: Into<i64>,
    {
        match is_short::<T>(len) {
            true => by::<T, i64>(len, direction),
            false => by::<T, i128>(len, direction),
        }
    }
    fn by<T: Number, E: Entry>(len: usize, direction: Direction) -> Prepared
    where
        T::Key: Into<i64>,
    {
        map(move |xs: &[T], out: &mut [i64]| {
            for_each_row(out, len, 40, |i, out| {
                with_scratch([len, len], |[entries, other]| {
                    write_entries(&xs[i * len..][..len], direction, entries);
                    let sorted: &[E] = sorted(entries, other, E::DIGITS);
                    write_parts(out, 1, |at, out| {
                        write(sorted[at..].iter().map(|entry| entry.index()), out);
                    });
                });
            });
        })
    }
    on_number!(dtype, typed(len, direction))
}

/// Writes the indices of the `count` greatest of each row of `len` elements, the greatest first.
///
/// Of equal elements, the first are first.
pub fn top_k(dtype: DType, len: usize, count: usize) -> Prepared {
    fn typed<T: Number>(len: usize, count: usize) -> Prepared
    where
        T::Key: Into<i64>,
    {
        match is_short::<T>(len) {
            _ if count <= FEW => few::<T>(len, count),
            true => by::<T, i64>(len, count),
            false => by::<T, i128>(len, count),
        }
    }
    fn few<T: Number>(len: usize, count: usize) -> Prepared {
        map(move |xs: &[T], out: &mut [i64]| {
            for_each_row(out, count, len.div_ceil(count.max(1)), |i, out| {
                greatest(&xs[i * len..][..len], out);
            });
        })
    }
    fn by<T: Number, E: Entry>(len: usize, count: usize) -> Prepared
    where
        T::Key: Into<i64>,
    {
        map(move |xs: &[T], out: &mut [i64]| {
            for_each_row(out, count, 10 * len.div_ceil(count.max(1)), |i, out| {
                with_scratch([len, count], |[entries, other]| {
                    let row = &xs[i * len..][..len];
                    write_entries::<T, E>(row, Direction::Descending, entries);
                    let sorted = if count < len {
                        // The entries that are selected are in no order: they are found again, in that of their indices.
                        let least = *entries.select_nth_unstable(count).1;
                        let entries_of_row = row.iter().enumerate();
                        let all = entries_of_row
                            .map(|(i, x)| entry::<T, E>(i, *x, Direction::Descending));
                        write(all.filter(|entry| *entry < least), other);
                        sorted(other, &mut entries[..count], E::DIGITS)
                    } else {
                        sorted(entries, other, E::DIGITS)
                    };
                    write(sorted.iter().map(|entry| entry.index()), out);
                });
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

fn write<T>(from: impl Iterator<Item = T>, out: &mut [T]) {
    out.iter_mut().zip(from).for_each(|(y, x)| *y = x);
}

/// Number of greatest elements up to which each element is compared with the least of them.
const FEW: usize = 16;

leveled! {
    /// Writes the indices of the greatest elements of a row, at most [`FEW`].
    fn greatest<S, T: Number>(row: &[T], out: &mut [i64]) {
        const BLOCK: usize = 64;
        let count = out.len();
        // The keys of the elements in `out`, and the least one.
        let mut keys = [T::LEAST; FEW];
        let mut n = 0;
        let of = |x: &T| key(x.plus(T::ZERO));
        for (block, xs) in row.chunks(BLOCK).enumerate() {
            let least = keys[count - 1];
            if n == count && !xs.iter().fold(false, |any, x| any | (of(x) > least)) {
                continue;
            }
            for (i, x) in xs.iter().enumerate() {
                let x = of(x);
                if n == count && x <= keys[count - 1] {
                    continue;
                }
                let at = keys[..n].partition_point(|y| *y >= x);
                n = (n + 1).min(count);
                keys[..n].copy_within(at..n - 1, at + 1);
                out[..n].copy_within(at..n - 1, at + 1);
                keys[at] = x;
                out[at] = (block * BLOCK + i) as i64;
            }
        }
    }
}

/// Returns whether the keys and the indices of a row have 32 bits.
fn is_short<T>(len: usize) -> bool {
    size_of::<T>() == 4 && u32::try_from(len).is_ok()
}

/// Integer that is sorted by its digits.
pub(crate) trait Digits: Plain + Ord + Send + Sync {
    /// Returns the byte with this number. The order of the bytes is that of the integers.
    fn digit(self, byte: u32) -> usize;
}

/// The key of an element with its index, in the order of the keys.
trait Entry: Digits {
    /// The bytes of the key, the lowest first.
    const DIGITS: Range<u32>;
    fn new(key: i64, index: usize) -> Self;
    fn index(self) -> i64;
}

macro_rules! digits {
    ($($t:ty)*) => {$(
        impl Digits for $t {
            #[inline(always)]
            fn digit(self, byte: u32) -> usize {
                // The sign bit is flipped, so that negative numbers are first.
                ((self ^ <$t>::MIN) >> (8 * byte)) as u8 as usize
            }
        }
    )*};
}

digits! { i32 i64 i128 }

macro_rules! entries {
    ($($t:ty, $bits:literal, $index:ty;)*) => {$(
        impl Entry for $t {
            const DIGITS: Range<u32> = $bits / 8..$bits / 4;
            #[inline(always)]
            fn new(key: i64, index: usize) -> Self {
                <$t>::from(key) << $bits | index as $t
            }
            #[inline(always)]
            fn index(self) -> i64 {
                self as $index as i64
            }
        }
    )*};
}

entries! { i64, 32, u32; i128, 64, u64; }

/// Writes the entries of a row, in whose order the elements are sorted. Zeros of both signs are equal.
fn write_entries<T: Number, E: Entry>(row: &[T], direction: Direction, out: &mut [E])
where
    T::Key: Into<i64>,
{
    write_parts(out, 1, |at, out| {
        for (i, (y, x)) in out.iter_mut().zip(&row[at..]).enumerate() {
            *y = entry(at + i, *x, direction);
        }
    });
}

/// Returns the entry of element `i`.
#[inline(always)]
fn entry<T: Number, E: Entry>(i: usize, x: T, direction: Direction) -> E
where
    T::Key: Into<i64>,
{
    let key: i64 = key(x.plus(T::ZERO)).into();
    match direction {
        Direction::Ascending => E::new(key, i),
        Direction::Descending => E::new(!key, i),
    }
}

/// Number of values of a digit.
const VALUES: usize = 256;

/// Approximate number of nanoseconds for a digit of a number.
const DIGIT_NANOS: usize = 2;

/// Sorts numbers by the bytes `digits`, and returns the slice with the result.
///
/// The lower bytes have to be in ascending order already. The other slice is scratch of the same
/// length.
pub(crate) fn sorted<'a, E: Digits>(
    xs: &'a mut [E],
    other: &'a mut [E],
    digits: Range<u32>,
) -> &'a [E] {
    let n_digits = digits.len();
    if xs.len() < 64 * n_digits {
        xs.sort_unstable();
        return xs;
    }
    let n_threads = worth(xs.len() * DIGIT_NANOS);
    if n_threads > 1 {
        return sorted_by_threads(xs, other, digits, n_threads);
    }
    let mut counts = [[0usize; VALUES]; 8];
    for x in &*xs {
        for (counts, byte) in counts.iter_mut().zip(digits.clone()) {
            counts[x.digit(byte)] += 1;
        }
    }
    let (mut from, mut to) = (xs, other);
    for (places, byte) in counts.iter_mut().zip(digits) {
        // Equal digits do not change the order.
        if places[from[0].digit(byte)] == from.len() {
            continue;
        }
        let mut place = 0;
        for count in places.iter_mut() {
            (*count, place) = (place, place + *count);
        }
        for x in &*from {
            let place = &mut places[x.digit(byte)];
            to[*place] = *x;
            *place += 1;
        }
        (from, to) = (to, from);
    }
    from
}

/// As [`sorted`], on some threads: each moves a part of the numbers for each digit.
fn sorted_by_threads<'a, E: Digits>(
    xs: &'a mut [E],
    other: &'a mut [E],
    digits: Range<u32>,
    n_parts: usize,
) -> &'a [E] {
    struct Start<E>(*mut E);
    // SAFETY: threads write disjoint elements through the pointer, and these may move between threads.
    unsafe impl<E: Send> Sync for Start<E> {}
    let (n, nanos) = (xs.len(), xs.len() * DIGIT_NANOS);
    let part = n.div_ceil(n_parts);
    let mut places = vec![[0; VALUES]; n.div_ceil(part)];
    let (mut from, mut to) = (xs, other);
    assert_eq!(to.len(), n);
    for byte in digits {
        let parts = |i: usize| &from[i * part..][..part.min(n - i * part)];
        for_each_chunk(&mut places, 1, nanos / 2, |i, counts| {
            counts[0] = [0; VALUES];
            for x in parts(i) {
                counts[0][x.digit(byte)] += 1;
            }
        });
        let first = from[0].digit(byte);
        // Equal digits do not change the order.
        if places.iter().map(|counts| counts[first]).sum::<usize>() == n {
            continue;
        }
        let mut place = 0;
        for digit in 0..VALUES {
            for counts in &mut places {
                (counts[digit], place) = (place, place + counts[digit]);
            }
        }
        let start = &Start(to.as_mut_ptr());
        for_each(places.len(), nanos, |i| {
            let mut places = places[i];
            for x in parts(i) {
                let place = &mut places[x.digit(byte)];
                // SAFETY: the places of a digit of a part are as many as its numbers with this digit. They are below `n`,
                // the number of elements of `to`, which is borrowed mutably, and those of others start after them.
                unsafe { start.0.add(*place).write(*x) };
                *place += 1;
            }
        });
        (from, to) = (to, from);
    }
    from
}

#[cfg(test)]
mod tests {
    use super::{Direction, argsort, sort, top_k};
    use crate::memory::{Data, DataMut};
    use crate::threads::set_threads;
    use gradloom_ir::DType;

    #[test]
    fn threads_sort_a_long_row_together() {
        let n = 300_001;
        let mut xs: Vec<f32> = (0..n)
            .map(|i| (i * 7919 % 10_007) as f32 - 5000.0)
            .collect();
        xs.iter_mut().step_by(1001).for_each(|x| *x = -0.0);
        xs[77] = f32::NAN;
        let mut by_row: Vec<usize> = (0..n).collect();
        by_row.sort_by(|i, j| {
            let (x, y) = (xs[*i], xs[*j]);
            x.partial_cmp(&y).unwrap_or(x.is_nan().cmp(&y.is_nan()))
        });
        set_threads(2);
        let (mut sorted, mut indices) = (vec![9.0; n], vec![9; n]);
        let args = [Data::F32(&xs)];
        let kernel = sort(DType::F32, n, Direction::Ascending);
        kernel(&args, &mut [DataMut::F32(&mut sorted)]).unwrap();
        let kernel = argsort(DType::F32, n, Direction::Ascending);
        kernel(&args, &mut [DataMut::I64(&mut indices)]).unwrap();
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
        assert!((0..n).all(|i| indices[i] == by_row[i] as i64));
        assert!((0..n).all(|i| same(sorted[i], xs[by_row[i]])));

        set_threads(1);
        let kernel = sort(DType::F32, n, Direction::Descending);
        let mut alone = vec![9.0; n];
        kernel(&args, &mut [DataMut::F32(&mut alone)]).unwrap();
        set_threads(2);
        kernel(&args, &mut [DataMut::F32(&mut sorted)]).unwrap();
        assert!((0..n).all(|i| same(sorted[i], alone[i])));
    }

    #[test]
    fn the_greatest_of_equal_elements_are_the_first() {
        let of = |i: usize| (i * 7919 % 10_007 % 11) as i32 - 5;
        for n in [1, 40, 300, 1000, 5000] {
            let xs: Vec<i32> = (0..n).map(of).collect();
            let (doubles, floats): (Vec<f64>, Vec<f32>) =
                xs.iter().map(|x| (f64::from(*x), *x as f32)).unzip();
            let longs: Vec<i64> = xs.iter().map(|x| i64::from(*x)).collect();
            let mut want: Vec<i64> = (0..n as i64).collect();
            want.sort_by_key(|i| -xs[*i as usize]);
            for count in [1, 16, 17, 255, 256, 299, 511, 512, 999, 4999, n] {
                let count = count.min(n);
                let check = |dtype, args: Data<'_>| {
                    let mut found = vec![9; count];
                    top_k(dtype, n, count)(&[args], &mut [DataMut::I64(&mut found)]).unwrap();
                    assert!(found == want[..count], "{count} of {n} {dtype:?}");
                };
                check(DType::I32, Data::I32(&xs));
                check(DType::I64, Data::I64(&longs));
                check(DType::F32, Data::F32(&floats));
                check(DType::F64, Data::F64(&doubles));
            }
        }
    }
}
