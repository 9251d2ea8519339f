//! Loops over contiguous elements, and sums in an order that depends on their number alone.
//!
//! A chunk is added up in lanes, element `i` in lane `i % 64`; then the upper half of the lanes is
//! added to the lower one until one is left. The sums of chunks are added up in pairs of equal
//! weight. The error of a sum is at most `(k + log2 n)` roundings of the sum of the absolute
//! values, with `k` less than 16.

use crate::array;
use crate::simd::number::{Float, Number};
use crate::simd::vector::{Floats, LANES, Simd, Vector, prefetch};

/// Number of elements that are added up in lanes.
pub(crate) const CHUNK: usize = 1024;

/// Folds values in pairs of equal weight, as a binary counter carries.
///
/// The rounding error grows with the logarithm of the number of values.
pub(crate) struct Pairwise<V> {
    /// Totals of 1, 2, 4, ... values, valid where the bit of `n` is set.
    levels: [V; 60],
    n: u64,
}

impl<V: Copy> Pairwise<V> {
    /// Creates a fold of no values. `any` is a placeholder that is never read.
    #[inline(always)]
    pub(crate) fn new(any: V) -> Pairwise<V> {
        Pairwise {
            levels: [any; 60],
            n: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, mut value: V, f: impl Fn(V, V) -> V) {
        let carries = self.n.trailing_ones() as usize;
        for &earlier in &self.levels[..carries] {
            value = f(earlier, value);
        }
        self.levels[carries] = value;
        self.n += 1;
    }

    /// Returns the fold of all values, or `None` if there are none.
    #[inline(always)]
    pub(crate) fn finish(&self, f: impl Fn(V, V) -> V) -> Option<V> {
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

/// Function of the elements at one index of `K` slices, with `M` results.
///
/// It is a trait, not a closure: a closure that is not inlined would not be compiled for the SIMD
/// level. Implementations are `#[inline(always)]`.
pub(crate) trait Map<V, const K: usize, const M: usize>: Copy {
    fn of(self, xs: [V; K]) -> [V; M];
}

/// Identity.
#[derive(Clone, Copy)]
pub(crate) struct Identity;

impl<V> Map<V, 1, 1> for Identity {
    #[inline(always)]
    fn of(self, xs: [V; 1]) -> [V; 1] {
        xs
    }
}

/// Returns the sum of a slice.
#[inline(always)]
pub(crate) fn sum<S: Simd, T: Number>(xs: &[T]) -> T {
    let [total] = sums::<T::Vectors<S>, 1, 1>([xs], Prefetch(CHUNK), Identity);
    total
}

/// Number of lanes of a product.
const FACTORS: usize = 32;

/// Returns the product of a slice: element `i` is multiplied to lane `i % 32`, then the upper half of
/// the lanes to the lower one until one is left.
#[inline(always)]
pub(crate) fn product<V: Vector>(xs: &[V::T]) -> V::T {
    let (n, whole) = (xs.len(), xs.len() / FACTORS * FACTORS);
    let ones = V::splat(V::T::ONE);
    let mut lanes = [ones; FACTORS / 4];
    let mut width = FACTORS / V::N;
    for start in (0..whole).step_by(FACTORS) {
        for (i, lane) in lanes[..width].iter_mut().enumerate() {
            // SAFETY: there are `FACTORS` elements from `start` on.
            *lane = lane.times(unsafe { V::load(xs.as_ptr().add(start + i * V::N)) });
        }
    }
    for (i, lane) in lanes[..width].iter_mut().enumerate() {
        let at = whole + i * V::N;
        if at < n {
            let left = V::N.min(n - at);
            // SAFETY: there are `left` elements from `at` on.
            let x = unsafe { V::load_some(xs.as_ptr().add(at), left) };
            *lane = lane.times(x.keep(left, ones));
        }
    }
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = lanes[i].times(lanes[i + width]);
        }
    }
    let mut numbers = [V::T::ONE; FACTORS];
    // SAFETY: a vector has at most `FACTORS` numbers.
    unsafe { lanes[0].store(numbers.as_mut_ptr()) };
    let mut half = V::N / 2;
    while half > 0 {
        for i in 0..half {
            numbers[i] = numbers[i].times(numbers[i + half]);
        }
        half /= 2;
    }
    numbers[0]
}

/// Returns the greatest of at least one number, or NaN if there is one; 0 is greater than -0.
///
/// Returns the least instead if `LEAST` is true.
#[inline(always)]
pub(crate) fn extremum<V: Floats, const LEAST: bool>(xs: &[V::T]) -> V::T {
    /// Loads a vector, negated if `LEAST` is true.
    #[inline(always)]
    fn load<V: Floats, const LEAST: bool>(xs: &[V::T], at: usize) -> V {
        debug_assert!(at + V::N <= xs.len());
        // SAFETY: callers keep `at + N` at most the number of elements.
        let x = unsafe { V::load(xs.as_ptr().add(at)) };
        signed::<V, LEAST>(x)
    }
    #[inline(always)]
    fn signed<V: Floats, const LEAST: bool>(x: V) -> V {
        match LEAST {
            true => V::splat(V::T::NOTHING).minus(x),
            false => x,
        }
    }
    let n = xs.len();
    let (mut most, mut marks);
    if n < V::N {
        // SAFETY: there are `n` numbers.
        let x = unsafe { V::load_some(xs.as_ptr(), n) };
        most = signed::<V, LEAST>(x.keep(n, V::splat(xs[0])));
        marks = V::splat(V::T::ZERO).mark_nan(most, most);
    } else {
        // The last vector may overlap the one before.
        most = load::<V, LEAST>(xs, n - V::N);
        marks = V::splat(V::T::ZERO).mark_nan(most, most);
        let (whole, wide) = (n / V::N * V::N, n / (4 * V::N) * (4 * V::N));
        if wide > 0 {
            let (mut mosts, mut nans) = ([most; 4], [marks; 2]);
            for at in (0..wide).step_by(4 * V::N) {
                let mut x = mosts;
                for i in 0..4 {
                    x[i] = load::<V, LEAST>(xs, at + i * V::N);
                    mosts[i] = x[i].most(mosts[i]);
                }
                nans = [nans[0].mark_nan(x[0], x[1]), nans[1].mark_nan(x[2], x[3])];
            }
            most = mosts[0].most(mosts[1]).most(mosts[2].most(mosts[3]));
            marks = nans[0].mark_nan(nans[1], nans[1]);
        }
        for at in (wide..whole).step_by(V::N) {
            let x = load::<V, LEAST>(xs, at);
            (most, marks) = (x.most(most), marks.mark_nan(x, x));
        }
    }
    if marks.any_nan() {
        return V::T::of_key(if LEAST { V::T::LEAST } else { V::T::GREATEST });
    }
    let most = most.greatest();
    if most == V::T::ZERO {
        let [preferred, other] = match LEAST {
            false => [V::T::ZERO, V::T::NOTHING],
            true => [V::T::NOTHING, V::T::ZERO],
        };
        let found = xs
            .iter()
            .fold(false, |found, x| found | (x.key() == preferred.key()));
        return if found { preferred } else { other };
    }
    if LEAST {
        V::T::NOTHING.minus(most)
    } else {
        most
    }
}

/// Returns the first index of a number, where zeros are equal.
#[inline(always)]
pub(crate) fn index_of<V: Floats>(xs: &[V::T], number: V::T) -> Option<usize> {
    let (n, number) = (xs.len(), V::splat(number));
    let wide = n / (4 * V::N) * (4 * V::N);
    for at in (0..wide).step_by(4 * V::N) {
        let mut bits = 0u64;
        for i in 0..4 {
            // SAFETY: there are four vectors from `at` on.
            let x = unsafe { V::load(xs.as_ptr().add(at + i * V::N)) };
            bits |= u64::from(x.equal(number)) << (i * V::N);
        }
        if bits != 0 {
            return Some(at + bits.trailing_zeros() as usize);
        }
    }
    for at in (wide..n).step_by(V::N) {
        let left = V::N.min(n - at);
        // SAFETY: there are `left` numbers from `at` on.
        let x = unsafe { V::load_some(xs.as_ptr().add(at), left) };
        let bits = u32::from(x.equal(number)) & ((1 << left) - 1);
        if bits != 0 {
            return Some(at + bits.trailing_zeros() as usize);
        }
    }
    None
}

/// Prefetch distance in elements from the first slice; 0 for no prefetch.
///
/// The hardware prefetches within a page only.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch(pub(crate) usize);

impl Prefetch {
    /// Returns the distance to the next row, up to two chunks.
    #[inline(always)]
    pub(crate) fn next<T>(row: &[T]) -> Prefetch {
        Prefetch(row.len().clamp(1, 2 * CHUNK))
    }
}

/// Returns the sums of `f` over slices of equal length, each in the order of [`sum`].
#[inline(always)]
pub(crate) fn sums<V: Vector, const K: usize, const M: usize>(
    xs: [&[V::T]; K],
    ahead: Prefetch,
    f: impl Map<V, K, M>,
) -> [V::T; M] {
    sums_to::<V, K, M, false>(xs, &mut [], ahead, f)
}

/// Writes `f` of each element and returns the sum of the results.
#[inline(always)]
pub(crate) fn map_sum<V: Vector>(
    xs: &[V::T],
    out: &mut [V::T],
    ahead: Prefetch,
    f: impl Map<V, 1, 1>,
) -> V::T {
    assert_eq!(xs.len(), out.len());
    let [total] = sums_to::<V, 1, 1, true>([xs], out, ahead, f);
    total
}

/// Returns the starts of slices.
///
/// # Panics
///
/// If one of them does not have `n` elements.
#[inline(always)]
fn starts<T, const K: usize>(slices: [&[T]; K], n: usize) -> [*const T; K] {
    array::map(slices, |slice| {
        assert!(slice.len() == n);
        slice.as_ptr()
    })
}

/// As [`starts`].
#[inline(always)]
fn starts_mut<T, const K: usize>(mut slices: [&mut [T]; K], n: usize) -> [*mut T; K] {
    array::from_fn(|i| {
        assert!(slices[i].len() == n);
        slices[i].as_mut_ptr()
    })
}

#[inline(always)]
fn sums_to<V: Vector, const K: usize, const M: usize, const WRITE: bool>(
    xs: [&[V::T]; K],
    out: &mut [V::T],
    ahead: Prefetch,
    f: impl Map<V, K, M>,
) -> [V::T; M] {
    let n = xs[0].len();
    assert!(!WRITE || out.len() == n);
    let (xs, out) = (starts(xs, n), out.as_mut_ptr());
    if n <= CHUNK {
        // SAFETY: all slices have `n` elements, as asserted.
        return unsafe { sums_of_chunk::<V, K, M, WRITE>(xs, out, n, ahead, f) };
    }
    let mut tree = Pairwise::new([V::T::ZERO; M]);
    let plus = |mut x: [V::T; M], y: [V::T; M]| {
        for i in 0..M {
            x[i] = x[i].plus(y[i]);
        }
        x
    };
    for start in (0..n).step_by(CHUNK) {
        let (xs, out) = (
            array::map(xs, |x| x.wrapping_add(start)),
            out.wrapping_add(start),
        );
        let n = CHUNK.min(n - start);
        // SAFETY: the chunk lies inside the slices, which have equal lengths, as asserted.
        let totals = unsafe { sums_of_chunk::<V, K, M, WRITE>(xs, out, n, ahead, f) };
        tree.push(totals, plus);
    }
    tree.finish(plus).unwrap_or([V::T::ZERO; M])
}

/// Returns the sums of up to [`CHUNK`] elements.
///
/// # Safety
///
/// Each of `xs` must have `n` elements. If `WRITE`, `out` must have space for `n` elements.
#[inline(always)]
unsafe fn sums_of_chunk<V: Vector, const K: usize, const M: usize, const WRITE: bool>(
    xs: [*const V::T; K],
    out: *mut V::T,
    n: usize,
    Prefetch(ahead): Prefetch,
    f: impl Map<V, K, M>,
) -> [V::T; M] {
    let nothing = V::splat(V::T::NOTHING);
    let mut lanes = [nothing.lanes(); M];
    let whole = n / LANES * LANES;
    let mut start = 0;
    while start < whole {
        for v in 0..LANES / V::N {
            let at = start + v * V::N;
            if ahead > 0 && (v * size_of::<V>()).is_multiple_of(64) {
                prefetch(xs[0].wrapping_add(at.wrapping_add(ahead)));
            }
            let mut x = [nothing; K];
            for i in 0..K {
                // SAFETY: `at + V::N <= n`, and the caller guarantees `n` elements.
                x[i] = unsafe { V::load(xs[i].add(at)) };
            }
            let terms = f.of(x);
            if WRITE {
                // SAFETY: `at + V::N <= n`, and the caller guarantees space for `n` elements.
                unsafe { terms[0].store(out.add(at)) };
            }
            for i in 0..M {
                let lane = &mut lanes[i].as_mut()[v];
                *lane = lane.plus(terms[i]);
            }
        }
        start += LANES;
    }
    if whole < n {
        for v in 0..LANES / V::N {
            let at = whole + v * V::N;
            if at >= n {
                break;
            }
            let some = V::N.min(n - at);
            let mut x = [nothing; K];
            for i in 0..K {
                // SAFETY: `at + some <= n`, and the caller guarantees `n` elements.
                x[i] = unsafe { V::load_some(xs[i].add(at), some) };
            }
            let terms = f.of(x);
            if WRITE {
                // SAFETY: `at + some <= n`, and the caller guarantees space for `n` elements.
                unsafe { terms[0].store_some(out.add(at), some) };
            }
            for i in 0..M {
                let lane = &mut lanes[i].as_mut()[v];
                *lane = lane.plus(terms[i].keep(some, nothing));
            }
        }
    }
    let mut totals = [V::T::ZERO; M];
    for i in 0..M {
        totals[i] = V::fold(lanes[i]).total();
    }
    totals
}

/// Writes `f` of slices of equal length.
///
/// Uses non-temporal stores if `non_temporal` and if `out` is aligned to a vector.
#[inline(always)]
pub(crate) fn map<V: Vector, const K: usize>(
    xs: [&[V::T]; K],
    out: &mut [V::T],
    non_temporal: bool,
    f: impl Map<V, K, 1>,
) {
    map_and_ask(xs, out, non_temporal, std::ptr::null(), f);
}

/// As [`map`]; also prefetches as many elements from `next` on, unless it is null.
#[inline(always)]
pub(crate) fn map_and_ask<V: Vector, const K: usize>(
    xs: [&[V::T]; K],
    out: &mut [V::T],
    non_temporal: bool,
    next: *const V::T,
    f: impl Map<V, K, 1>,
) {
    let n = out.len();
    let (xs, to) = (starts(xs, n), out.as_mut_ptr());
    // SAFETY: all slices have `n` elements, as asserted, and `STREAM` is used only if `to` is
    // aligned to a vector.
    unsafe {
        match (non_temporal && to.cast::<V>().is_aligned(), next.is_null()) {
            (true, is_null) => {
                // A prefetch of elements that are read anyway costs nothing beside non-temporal stores, and one variant fewer
                // is compiled.
                let next = xs.first().filter(|_| is_null).copied().unwrap_or(next);
                map_to::<V, K, true, true>(xs, to, n, next, f);
            }
            (false, true) => map_to::<V, K, false, false>(xs, to, n, next, f),
            (false, false) => map_to::<V, K, false, true>(xs, to, n, next, f),
        }
    }
}

/// Writes `f` of `n` elements. `next` is used only if `ASK`.
///
/// # Safety
///
/// Each of `xs` and `out` must have `n` elements. If `STREAM`, `out` must be aligned to a vector.
#[inline(always)]
unsafe fn map_to<V: Vector, const K: usize, const STREAM: bool, const ASK: bool>(
    xs: [*const V::T; K],
    out: *mut V::T,
    n: usize,
    next: *const V::T,
    f: impl Map<V, K, 1>,
) {
    let nothing = V::splat(V::T::NOTHING);
    let mut at = 0;
    while at + V::N <= n {
        if ASK && (at * size_of::<V::T>()).is_multiple_of(64) {
            prefetch(next.wrapping_add(at));
        }
        let mut x = [nothing; K];
        for i in 0..K {
            // SAFETY: `at + V::N <= n`, and the caller guarantees `n` elements.
            x[i] = unsafe { V::load(xs[i].add(at)) };
        }
        let [y] = f.of(x);
        // SAFETY: `at + V::N <= n`, and the caller guarantees space for `n` elements. `at` is a
        // multiple of `V::N`, so the address is as aligned as `out`.
        unsafe {
            match STREAM {
                true => y.stream(out.add(at)),
                false => y.store(out.add(at)),
            }
        }
        at += V::N;
    }
    if at < n {
        let some = n - at;
        let mut x = [nothing; K];
        for i in 0..K {
            // SAFETY: `at + some` is `n`, and the caller guarantees `n` elements.
            x[i] = unsafe { V::load_some(xs[i].add(at), some) };
        }
        let [y] = f.of(x);
        // SAFETY: `at + some` is `n`, and the caller guarantees space for `n` elements.
        unsafe { y.store_some(out.add(at), some) };
    }
}

/// Adds `f` of slices of equal length to totals, element by element.
#[inline(always)]
pub(crate) fn add<V: Vector, const K: usize, const M: usize>(
    xs: [&[V::T]; K],
    totals: [&mut [V::T]; M],
    f: impl Map<V, K, M>,
) {
    add_to::<V, K, M, false>(xs, &mut [], totals, f);
}

/// Writes `f` of slices of equal length and adds it to totals, element by element.
#[inline(always)]
pub(crate) fn map_add<V: Vector, const K: usize>(
    xs: [&[V::T]; K],
    out: &mut [V::T],
    totals: &mut [V::T],
    f: impl Map<V, K, 1>,
) {
    add_to::<V, K, 1, true>(xs, out, [totals], f);
}

#[inline(always)]
fn add_to<V: Vector, const K: usize, const M: usize, const WRITE: bool>(
    xs: [&[V::T]; K],
    out: &mut [V::T],
    totals: [&mut [V::T]; M],
    f: impl Map<V, K, M>,
) {
    let n = xs[0].len();
    assert!(!WRITE || out.len() == n);
    let (xs, to) = (starts(xs, n), starts_mut(totals, n));
    let out = out.as_mut_ptr();
    let nothing = V::splat(V::T::NOTHING);
    let mut at = 0;
    while at + V::N <= n {
        let mut x = [nothing; K];
        for i in 0..K {
            // SAFETY: `at + V::N <= n`, the length of all slices, as asserted.
            x[i] = unsafe { V::load(xs[i].add(at)) };
        }
        let terms = f.of(x);
        if WRITE {
            // SAFETY: `at + V::N <= n`, the length of the result, as asserted.
            unsafe { terms[0].store(out.add(at)) };
        }
        for i in 0..M {
            // SAFETY: `at + V::N <= n`, the length of all totals, as asserted.
            unsafe { V::load(to[i].add(at)).plus(terms[i]).store(to[i].add(at)) };
        }
        at += V::N;
    }
    if at < n {
        let some = n - at;
        let mut x = [nothing; K];
        for i in 0..K {
            // SAFETY: `at + some` is `n`, the length of all slices, as asserted.
            x[i] = unsafe { V::load_some(xs[i].add(at), some) };
        }
        let terms = f.of(x);
        if WRITE {
            // SAFETY: `at + some` is `n`, the length of the result, as asserted.
            unsafe { terms[0].store_some(out.add(at), some) };
        }
        for i in 0..M {
            // SAFETY: `at + some` is `n`, the length of all totals, as asserted.
            unsafe {
                let total = V::load_some(to[i].add(at), some).plus(terms[i]);
                total.store_some(to[i].add(at), some);
            }
        }
    }
}

/// Returns the greatest element that is not NaN, or -infinity if there is none. The sign of a zero
/// is unspecified.
#[inline(always)]
pub(crate) fn greatest<V: Floats>(xs: &[V::T]) -> V::T {
    let least = V::T::of(f64::NEG_INFINITY);
    let mut lanes = V::splat(least).lanes();
    let (rows, rest) = xs.as_chunks::<LANES>();
    for row in rows {
        for v in 0..LANES / V::N {
            let lane = &mut lanes.as_mut()[v];
            // SAFETY: `v * V::N + V::N <= LANES`, the length of a row.
            *lane = unsafe { V::load(row.as_ptr().add(v * V::N)) }.most(*lane);
        }
    }
    for (v, some) in rest.chunks(V::N).enumerate() {
        let lane = &mut lanes.as_mut()[v];
        // SAFETY: `some` is a slice of `some.len()` elements, at most `V::N`.
        let x = unsafe { V::load_some(some.as_ptr(), some.len()) };
        *lane = x.keep(some.len(), V::splat(least)).most(*lane);
    }
    let mut most = lanes.as_ref()[0];
    for x in &lanes.as_ref()[1..] {
        most = most.most(*x);
    }
    most.greatest()
}

/// Returns `e^x` for `x` at most 0, to 1.1 ulp: `gradloom_maths::exp` without the handling of
/// overflow.
#[inline(always)]
pub(crate) fn exp<V: Floats>(x: V) -> V {
    let splat = |x: f64| V::splat(V::T::of(x));
    // NaN is preserved: `most` returns its second operand then.
    let x = V::splat(V::T::EXP_LEAST).most(x);
    let magic = V::splat(V::T::MAGIC);
    let n = x.fma(splat(std::f64::consts::LOG2_E), magic).minus(magic);
    let (head, rest) = V::T::LN_2;
    let minus = |x: V::T| V::splat(V::T::ZERO.minus(x));
    let r = n.fma(minus(rest), n.fma(minus(head), x));
    let (first, others) = V::T::EXP_TAIL
        .split_first()
        .expect("the list of coefficients is not empty");
    let mut tail = V::splat(*first);
    for &c in others {
        tail = tail.fma(r, V::splat(c));
    }
    let p = tail.fma(r.times(r), r);
    p.plus(V::splat(V::T::ONE)).scaled(n)
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Pairwise};
    use crate::simd::leveled::leveled;
    use crate::simd::number::{Float, Number};
    use crate::simd::vector::Floats;

    leveled! {
        fn sum<A, T: Number>(xs: &[T]) -> T {
            super::sum::<A, T>(xs)
        }
    }

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

    leveled! {
        fn exps<S, T: Float>(xs: &[T], out: &mut [T]) {
            super::map::<T::Floats<S>, 1>([xs], out, false, Exp);
        }
    }

    #[derive(Clone, Copy)]
    struct Exp;

    impl<V: Floats> super::Map<V, 1, 1> for Exp {
        #[inline(always)]
        fn of(self, [x]: [V; 1]) -> [V; 1] {
            [super::exp(x)]
        }
    }

    #[test]
    fn exp_of_nonpositive_numbers_is_accurate() {
        // Down to the denormal numbers, and to zero.
        let xs: Vec<f32> = (0..110_000).map(|i| i as f32 * -1e-3).collect();
        let mut ys = vec![0.0; xs.len()];
        exps(&xs, &mut ys);
        for (&x, &y) in xs.iter().zip(&ys) {
            let exact = f64::from(x).exp();
            let ulp = f64::from(f32::EPSILON) * exact.log2().floor().exp2();
            let ulp = ulp.max(f64::from(f32::from_bits(1)));
            assert!((f64::from(y) - exact).abs() <= 1.1 * ulp, "exp({x}) = {y}");
        }
        let mut ys = [1.0; 5];
        exps(&[0.0, -0.0, -1e30, f64::NEG_INFINITY, f64::NAN], &mut ys);
        assert_eq!(ys[..4], [1.0, 1.0, 0.0, 0.0]);
        assert!(ys[4].is_nan());
        for x in [-1e-3f64, -0.7, -3.0, -20.0, -700.0, -740.0] {
            let mut y = [0.0];
            exps(&[x], &mut y);
            let off = (y[0].to_bits() as i64 - x.exp().to_bits() as i64).abs();
            assert!(off <= 1, "exp({x}) = {}", y[0]);
        }
    }

    #[test]
    fn a_sum_of_negative_zeros_is_negative() {
        for n in [1, 10, 64, 100, 3000] {
            assert!(sum(&vec![-0.0f32; n]).is_sign_negative());
        }
    }
}
