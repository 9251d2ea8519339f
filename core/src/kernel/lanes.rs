//! Sums of elements that lie one after the other, in an order that depends on their number alone.
//!
//! A chunk is added up in lanes, element `i` in lane `i % 64`, and then the upper half of the lanes to the lower one until
//! one is left. The sums of chunks are added up in pairs of equal weight. So the error of a sum is at most `(k + log2 n)`
//! roundings of the sum of the absolute values, with `k` less than 16.

use super::number::Number;

/// How many elements are added up in lanes.
pub(super) const CHUNK: usize = 1024;

/// Four of the widest vectors, which are independent of each other: an addition takes several cycles.
const LANES: usize = 64;

/// Folds values in pairs of equal weight, as a counter in base 2 carries: the rounding error grows with the
/// logarithm of their number.
pub(super) struct Pairwise<V> {
    /// The totals of 1, 2, 4, ... values, where the bit of `n` is set.
    levels: [V; 60],
    n: u64,
}

impl<V: Copy> Pairwise<V> {
    /// Of no values. `any` is not read.
    #[inline(always)]
    pub(super) fn new(any: V) -> Pairwise<V> {
        Pairwise {
            levels: [any; 60],
            n: 0,
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, mut value: V, f: impl Fn(V, V) -> V) {
        let carries = self.n.trailing_ones() as usize;
        for &earlier in &self.levels[..carries] {
            value = f(earlier, value);
        }
        self.levels[carries] = value;
        self.n += 1;
    }

    /// The fold of all values, `None` if there is none.
    #[inline(always)]
    pub(super) fn finish(&self, f: impl Fn(V, V) -> V) -> Option<V> {
        let mut left = self.n;
        let mut total = None;
        while left > 0 {
            let earlier = self.levels[left.trailing_zeros() as usize];
            total = Some(total.map_or(earlier, |later| f(earlier, later)));
            left &= left - 1;
        }
        total
    }
}

/// What becomes of an element before it is added up.
///
/// It is no closure: those that are not inlined would not be compiled for the level.
pub(super) trait Map<T>: Copy {
    /// Implementations are `#[inline(always)]`.
    fn of(self, x: T) -> T;
}

/// The sum of a slice.
#[inline(always)]
pub(super) fn sum<T: Number>(xs: &[T]) -> T {
    if xs.len() <= CHUNK {
        return sum_chunk(xs);
    }
    let mut tree = Pairwise::new(T::ZERO);
    for xs in xs.chunks(CHUNK) {
        tree.push(sum_chunk(xs), T::plus);
    }
    tree.finish(T::plus).unwrap_or(T::ZERO)
}

/// Writes what becomes of each element, and returns the [`sum`] of what it writes.
#[inline(always)]
pub(super) fn map_sum<T: Number>(xs: &[T], out: &mut [T], f: impl Map<T>) -> T {
    if xs.len() <= CHUNK {
        return map_sum_chunk(xs, out, f);
    }
    let mut tree = Pairwise::new(T::ZERO);
    for (xs, out) in xs.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        tree.push(map_sum_chunk(xs, out, f), T::plus);
    }
    tree.finish(T::plus).unwrap_or(T::ZERO)
}

/// The sum of what becomes of each element, as [`sum`] adds up; `some` is overwritten.
#[inline(always)]
pub(super) fn sum_of<T: Number>(xs: &[T], some: &mut [T; CHUNK], f: impl Map<T>) -> T {
    if xs.len() <= CHUNK {
        return map_sum_chunk(xs, &mut some[..xs.len()], f);
    }
    let mut tree = Pairwise::new(T::ZERO);
    for xs in xs.chunks(CHUNK) {
        tree.push(map_sum_chunk(xs, &mut some[..xs.len()], f), T::plus);
    }
    tree.finish(T::plus).unwrap_or(T::ZERO)
}

/// A loop that maps and one that adds are both made of vectors, and a loop that does both is not.
#[inline(always)]
fn map_sum_chunk<T: Number>(xs: &[T], out: &mut [T], f: impl Map<T>) -> T {
    for (y, &x) in out.iter_mut().zip(xs) {
        *y = f.of(x);
    }
    sum_chunk(out)
}

/// The sum of at most [`CHUNK`] elements.
#[inline(always)]
pub(super) fn sum_chunk<T: Number>(xs: &[T]) -> T {
    let (rows, rest) = xs.as_chunks::<LANES>();
    let Some((first, rows)) = rows.split_first() else {
        return sum_few(rest);
    };
    let mut lanes = *first;
    let mut rows = rows;
    // Several rows at a time save loads and stores of the lanes.
    if let Some((some, others)) = rows.split_first_chunk() {
        add::<7, T>(some, &mut lanes);
        rows = others;
    }
    while let Some((some, others)) = rows.split_first_chunk() {
        add::<8, T>(some, &mut lanes);
        rows = others;
    }
    for row in rows {
        add::<1, T>(std::array::from_ref(row), &mut lanes);
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = lane.plus(x);
    }
    halve::<32, T>(&mut lanes);
    halve::<16, T>(&mut lanes);
    halve::<8, T>(&mut lanes);
    halve::<4, T>(&mut lanes);
    halve::<2, T>(&mut lanes);
    halve::<1, T>(&mut lanes);
    lanes[0]
}

#[inline(always)]
fn halve<const N: usize, T: Number>(lanes: &mut [T; LANES]) {
    for i in 0..N {
        lanes[i] = lanes[i].plus(lanes[i + N]);
    }
}

#[inline(always)]
fn add<const N: usize, T: Number>(rows: &[[T; LANES]; N], lanes: &mut [T; LANES]) {
    for j in 0..LANES {
        let mut total = lanes[j];
        for row in rows {
            total = total.plus(row[j]);
        }
        lanes[j] = total;
    }
}

/// The same for fewer elements than lanes.
#[inline(always)]
fn sum_few<T: Number>(xs: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    for (lane, &x) in lanes.iter_mut().zip(xs) {
        *lane = x;
    }
    let mut n = xs.len();
    while n > 1 {
        let width = n.next_power_of_two() / 2;
        for i in 0..n - width {
            lanes[i] = lanes[i].plus(lanes[i + width]);
        }
        n = width;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Pairwise, sum};

    #[test]
    fn pairs_of_equal_weight_are_folded_first() {
        let tree = |n: usize| {
            let mut tree = Pairwise::new((0, 0));
            let join = |(n, a): (usize, usize), (m, b): (usize, usize)| {
                assert!(n >= m && (n == m || n.is_power_of_two()));
                (n + m, 1 + a.max(b))
            };
            (0..n).for_each(|_| tree.push((1, 0), join));
            tree.finish(join)
        };
        assert_eq!(tree(0), None);
        for n in 1..200usize {
            let depth = n.next_power_of_two().ilog2() as usize;
            let (total, deepest) = tree(n).unwrap();
            assert_eq!(total, n);
            assert!(deepest <= depth, "{n}: {deepest}");
        }
    }

    #[test]
    fn the_error_of_a_sum_grows_with_the_logarithm() {
        let mut seed = 1u32;
        let mut draw = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / 1e6 - 3.0
        };
        for n in [1, 7, 63, 64, 65, 100, 1023, CHUNK, CHUNK + 1, 5000, 300_000] {
            let xs: Vec<f32> = (0..n).map(|_| draw()).collect();
            let want: f64 = xs.iter().map(|&x| f64::from(x)).sum();
            let size: f64 = xs.iter().map(|&x| f64::from(x.abs())).sum();
            let roundings = 16.0 + (n as f64).log2();
            let bound = roundings * f64::from(f32::EPSILON) / 2.0 * size;
            assert!((f64::from(sum(&xs)) - want).abs() <= bound, "{n}");
        }
    }

    #[test]
    fn a_sum_of_negative_zeros_is_negative() {
        for n in [1, 10, 64, 100, 3000] {
            assert!(sum(&vec![-0.0f32; n]).is_sign_negative());
        }
    }
}
