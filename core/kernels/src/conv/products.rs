//! Products of results and windows for the transpose in the weights, without columns.
//!
//! A weight is the sum over all windows of the result times the element of the window. The sum has 16 lanes,
//! on every level: windows of a row that are 16 apart are added in the same lane.

use crate::conv::padded::Padded;
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::Vector;

/// Number of lanes of a sum.
const LANES: usize = 16;

/// Returns whether the rows of results leave few lanes empty.
pub(super) fn fill_lanes(of: &Padded) -> bool {
    let [.., columns] = of.counts();
    columns.is_multiple_of(LANES) || columns > 4 * LANES
}

leveled! {
    /// Adds the products of `z` and the elements of the windows of all planes to the weights.
    pub(super) fn add<S, T: Number>(of: &Padded, planes: &[T], z: &[T], w: &mut [T]) {
        let taps = of.taps();
        let depth = planes.len() / of.len() * taps.len();
        let n_windows = of.counts().iter().product::<usize>();
        let n = w.len() / depth;
        assert_eq!(planes.len() % of.len(), 0);
        assert_eq!([n * depth, n * n_windows], [w.len(), z.len()]);
        let mut outer = 0;
        while outer < n {
            let products = Products { of, taps, planes, z: &z[outer * n_windows..], depth, n_windows };
            let w = &mut w[outer * depth..];
            outer += match n - outer {
                3.. => products.channels::<T::Vectors<S>, 3>(w),
                2 => products.channels::<T::Vectors<S>, 2>(w),
                _ => products.channels::<T::Vectors<S>, 1>(w),
            };
        }
    }
}

/// Operands of the sums for the weights of neighbouring output channels.
struct Products<'a, T> {
    of: &'a Padded,
    /// Offsets of the elements of a window, which lie inside the padding.
    taps: &'a [usize],
    planes: &'a [T],
    /// Results of the channels.
    z: &'a [T],
    /// Number of weights of a channel, and of its results.
    depth: usize,
    n_windows: usize,
}

impl<T: Number> Products<'_, T> {
    /// Adds to all weights of `M` channels, and returns `M`.
    #[inline(always)]
    fn channels<V: Vector<T = T>, const M: usize>(&self, w: &mut [T]) -> usize {
        match LANES / V::N {
            1 => self.all_weights::<V, M, 4, 1>(w),
            2 => self.all_weights::<V, M, 2, 2>(w),
            _ => self.all_weights::<V, M, 1, 4>(w),
        }
        M
    }

    #[inline(always)]
    fn all_weights<V: Vector<T = T>, const M: usize, const K: usize, const P: usize>(
        &self,
        w: &mut [T],
    ) {
        assert_eq!(P * V::N, LANES);
        let (whole, rest) = (self.depth - self.depth % K, self.depth % K);
        for at in (0..whole).step_by(K) {
            self.weights::<V, M, K, P>(at, w);
        }
        for at in whole..whole + rest {
            self.weights::<V, M, 1, P>(at, w);
        }
    }

    /// Adds to `K` weights of each of `M` channels, from weight `at` on.
    #[inline(always)]
    fn weights<V: Vector<T = T>, const M: usize, const K: usize, const P: usize>(
        &self,
        at: usize,
        w: &mut [T],
    ) {
        let (of, taps) = (self.of, self.taps);
        let [planes, rows, columns] = of.counts();
        let mut elements = [0; K];
        for (k, element) in elements.iter_mut().enumerate() {
            *element = (at + k) / taps.len() * of.len() + taps[(at + k) % taps.len()];
        }
        assert!(at + K <= self.depth && M * self.n_windows <= self.z.len());
        let mut sums = [[[V::splat(T::ZERO); P]; K]; M];
        let (whole, rest) = (columns - columns % LANES, columns % LANES);
        for row in 0..planes * rows {
            let z = self.z[row * columns..].as_ptr();
            let x = self.planes[of.first([row / rows, row % rows])..].as_ptr();
            for column in (0..whole).step_by(LANES) {
                // SAFETY: `z` has the results of `M` channels, and all windows of the row lie inside
                // the padding (`taps`).
                let lanes = |from: *const T, p: usize| unsafe { V::load(from.add(p * V::N)) };
                let z = |m: usize| z.wrapping_add(m * self.n_windows + column);
                let x = |k: usize| x.wrapping_add(elements[k] + column);
                step(&mut sums, z, x, lanes);
            }
            if rest > 0 {
                // SAFETY: as above, for the last results of the row.
                let lanes = |from: *const T, p: usize| unsafe {
                    let left = rest.saturating_sub(p * V::N).min(V::N);
                    V::load_some(from.wrapping_add(p * V::N), left)
                };
                let z = |m: usize| z.wrapping_add(m * self.n_windows + whole);
                let x = |k: usize| x.wrapping_add(elements[k] + whole);
                step(&mut sums, z, x, lanes);
            }
        }
        for m in 0..M {
            for k in 0..K {
                let w = &mut w[m * self.depth + at + k];
                *w = w.plus(total(sums[m][k]));
            }
        }
    }
}

/// Adds the products of 16 results of each channel and 16 elements for each weight.
#[inline(always)]
fn step<V: Vector, const M: usize, const K: usize, const P: usize>(
    sums: &mut [[[V; P]; K]; M],
    z: impl Fn(usize) -> *const V::T,
    x: impl Fn(usize) -> *const V::T,
    lanes: impl Fn(*const V::T, usize) -> V,
) {
    #[expect(
        clippy::needless_range_loop,
        reason = "`p` and `k` are parts of several places"
    )]
    for p in 0..P {
        let mut zs = [V::splat(V::T::ZERO); M];
        for (m, to) in zs.iter_mut().enumerate() {
            *to = lanes(z(m), p);
        }
        for k in 0..K {
            let x = lanes(x(k), p);
            for m in 0..M {
                sums[m][k][p] = zs[m].fma(x, sums[m][k][p]);
            }
        }
    }
}

/// Adds the upper half of the lanes to the lower half until one number is left.
#[inline(always)]
fn total<V: Vector, const P: usize>(lanes: [V; P]) -> V::T {
    match P {
        1 => lanes[0],
        2 => lanes[0].plus(lanes[1 % P]),
        _ => (lanes[0].plus(lanes[2 % P])).plus(lanes[1 % P].plus(lanes[3 % P])),
    }
    .total()
}
