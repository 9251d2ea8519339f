//! Sums over the elements of windows, without columns: for groups with few channels.
//!
//! A plane is copied with its padding, so that no window has an element outside. Along the last axis, the
//! copy has the elements at distance of the stride next to each other. So neighbouring windows read
//! neighbouring elements, and a vector of results is a chain of multiply-adds, one for each element of
//! the windows.

use crate::simd::lanes::{Identity, Map, map};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::Vector;
use crate::windows::Windows;
use gradloom_ir::op::windows::{MAX_AXES, WindowAxis};

/// Axis of a plane with padding.
#[derive(Clone, Copy, Debug)]
struct PaddedAxis {
    /// Length of the plane.
    len: usize,
    /// Position of the first element of the plane, which may lie outside, and the distance between its
    /// elements.
    first: i64,
    step: usize,
    /// Length with the padding.
    padded: usize,
    /// Number of results, and the distance between the elements that they read.
    count: usize,
    stride: usize,
}

impl PaddedAxis {
    /// Returns the elements of the plane that have a position.
    fn inside(&self) -> std::ops::Range<usize> {
        let below = |end: i64| (end.max(0) as usize).div_ceil(self.step);
        let start = below(-self.first).min(self.len);
        start..below(self.padded as i64 - self.first).clamp(start, self.len)
    }

    fn position(&self, i: usize) -> usize {
        (self.first + (i * self.step) as i64) as usize
    }
}

/// Planes with padding, and the results that are sums over their windows.
#[derive(Clone, Debug)]
pub(super) struct Padded {
    axes: [PaddedAxis; MAX_AXES],
    /// Offsets of the elements of a window from its first one.
    taps: Vec<usize>,
}

impl Padded {
    /// Returns the sums of a convolution: the planes are those of `x`.
    pub(super) fn of_results(windows: &Windows) -> Padded {
        Padded::new(windows, |axis, reach| PaddedAxis {
            len: axis.len,
            first: axis.before,
            step: 1,
            padded: (axis.count - 1) * axis.stride + reach + 1,
            count: axis.count,
            stride: axis.stride,
        })
    }

    /// Returns the sums of the transpose in `x`: the planes are those of `z`.
    pub(super) fn of_inputs(windows: &Windows) -> Padded {
        let mut padded = Padded::new(windows, |axis, reach| PaddedAxis {
            len: axis.count,
            first: reach as i64 - axis.before,
            step: axis.stride,
            padded: axis.len + reach,
            count: axis.len,
            stride: 1,
        });
        // The last element of a window is the first one that reaches an element.
        padded.taps.reverse();
        padded
    }

    fn new(windows: &Windows, of: impl Fn(&WindowAxis, usize) -> PaddedAxis) -> Padded {
        let axes = windows.axes();
        if windows.n_windows() * windows.n_taps() * windows.n_elements() == 0 {
            let none = PaddedAxis {
                len: 0,
                first: 0,
                step: 1,
                padded: 0,
                count: 0,
                stride: 1,
            };
            return Padded {
                axes: [none; MAX_AXES],
                taps: Vec::new(),
            };
        }
        let mut padded = Padded {
            axes: axes.map(|axis| of(&axis, (axis.window - 1) * axis.dilation)),
            taps: Vec::new(),
        };
        let at = |axis: usize, tap: usize| tap * axes[axis].dilation;
        let [planes, rows, columns] = axes.map(|axis| axis.window);
        for (plane, row) in (0..planes).flat_map(|p| (0..rows).map(move |r| (p, r))) {
            let row = padded.row(at(0, plane), at(1, row));
            let columns = (0..columns).map(|tap| row + padded.column(at(2, tap)));
            let columns: Vec<usize> = columns.collect();
            padded.taps.extend(columns);
        }
        padded
    }

    /// Returns the number of elements of a row, and of the elements at distance of the stride.
    fn row_len(&self) -> [usize; 2] {
        let [.., last] = &self.axes;
        let part = last.padded.div_ceil(last.stride);
        [part * last.stride, part]
    }

    fn row(&self, plane: usize, row: usize) -> usize {
        (plane * self.axes[1].padded + row) * self.row_len()[0]
    }

    fn column(&self, at: usize) -> usize {
        let stride = self.axes[2].stride;
        at % stride * self.row_len()[1] + at / stride
    }

    /// Returns the number of elements of a plane with its padding.
    pub(super) fn len(&self) -> usize {
        self.row(self.axes[0].padded, 0)
    }

    /// Copies planes.
    pub(super) fn copy<T: Number>(&self, planes: &[T], padded: &mut [T]) {
        copy_rows(self, planes, padded);
    }

    /// Writes the sum of the products of the weights and the elements of each window, for all planes.
    pub(super) fn sum<T: Number>(&self, padded: &[T], weights: &[T], out: &mut [T]) {
        sum_rows(self, padded, weights, out);
    }
}

leveled! {
    fn copy_rows<S, T: Number>(of: &Padded, planes: &[T], padded: &mut [T]) {
        let [outer, rows, columns] = &of.axes;
        let inside = columns.inside();
        let dense = columns.step == 1 && columns.stride == 1;
        let len = outer.len * rows.len * columns.len;
        let zero = <T::Vectors<S>>::splat(T::ZERO);
        map::<T::Vectors<S>, 0>([], padded, false, Splat(zero));
        for (plane, padded) in (planes.chunks_exact(len)).zip(padded.chunks_exact_mut(of.len())) {
            for (p, r) in outer.inside().flat_map(|p| rows.inside().map(move |r| (p, r))) {
                let from = &plane[(p * rows.len + r) * columns.len..][inside.clone()];
                let to = &mut padded[of.row(outer.position(p), rows.position(r))..];
                if inside.is_empty() {
                    // The padding is so negative that no element of a row has a position.
                } else if dense {
                    let to = &mut to[columns.position(inside.start)..][..from.len()];
                    map::<T::Vectors<S>, 1>([from], to, false, Identity);
                } else {
                    for (x, column) in from.iter().zip(inside.clone()) {
                        to[of.column(columns.position(column))] = *x;
                    }
                }
            }
        }
    }
}

/// A vector, without operands.
#[derive(Clone, Copy)]
struct Splat<V>(V);

impl<V: Vector> Map<V, 0, 1> for Splat<V> {
    #[inline(always)]
    fn of(self, []: [V; 0]) -> [V; 1] {
        [self.0]
    }
}

leveled! {
    fn sum_rows<S, T: Number>(of: &Padded, padded: &[T], weights: &[T], out: &mut [T]) {
        let [planes, rows, columns] = &of.axes;
        let farthest = of.row((planes.count - 1) * planes.stride, (rows.count - 1) * rows.stride)
            + of.taps.iter().max().expect("a window has elements")
            + columns.count;
        assert!(farthest <= of.len(), "windows lie inside the padding");
        assert_eq!(padded.len() / of.len(), weights.len() / of.taps.len());
        for (i, out) in out.chunks_exact_mut(columns.count).enumerate() {
            let first = of.row(i / rows.count * planes.stride, i % rows.count * rows.stride);
            assert!(i < planes.count * rows.count, "a row of results");
            let mut done = 0;
            while done < out.len() {
                let left = out.len() - done;
                let channels = padded.chunks_exact(of.len()).map(|plane| &plane[first + done..]);
                // SAFETY: the row `first` and the offsets of its last window lie inside the plane, as
                // asserted for the farthest row.
                done += unsafe {
                    match left / <T::Vectors<S>>::N {
                        4.. => strip::<T::Vectors<S>, 4>(channels, of, weights, &mut out[done..]),
                        1.. => strip::<T::Vectors<S>, 1>(channels, of, weights, &mut out[done..]),
                        0 => part::<T::Vectors<S>>(channels, of, weights, &mut out[done..]),
                    }
                };
            }
        }
    }
}

/// Writes `K` vectors of results, and returns the number of their elements.
///
/// # Safety
///
/// Each channel must have as many elements from each offset on.
#[inline(always)]
unsafe fn strip<'a, V: Vector, const K: usize>(
    channels: impl Iterator<Item = &'a [V::T]>,
    of: &Padded,
    weights: &[V::T],
    out: &mut [V::T],
) -> usize
where
    V::T: 'a,
{
    let mut sums = [V::splat(V::T::ZERO); K];
    for (x, weights) in channels.zip(weights.chunks_exact(of.taps.len())) {
        for (tap, weight) in of.taps.iter().zip(weights) {
            let weight = V::splat(*weight);
            for (k, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller guarantees `K` vectors from each offset on.
                let x = unsafe { V::load(x.as_ptr().add(*tap + k * V::N)) };
                *sum = weight.fma(x, *sum);
            }
        }
    }
    let out = &mut out[..K * V::N];
    for (sum, out) in sums.iter().zip(out.chunks_exact_mut(V::N)) {
        // SAFETY: a chunk has the elements of a vector.
        unsafe { sum.store(out.as_mut_ptr()) };
    }
    K * V::N
}

/// As [`strip`], for less than a vector of results.
///
/// # Safety
///
/// As for [`strip`], with the elements of `out`.
#[inline(always)]
unsafe fn part<'a, V: Vector>(
    channels: impl Iterator<Item = &'a [V::T]>,
    of: &Padded,
    weights: &[V::T],
    out: &mut [V::T],
) -> usize
where
    V::T: 'a,
{
    let n = out.len();
    let mut sum = V::splat(V::T::ZERO);
    for (x, weights) in channels.zip(weights.chunks_exact(of.taps.len())) {
        for (tap, weight) in of.taps.iter().zip(weights) {
            // SAFETY: the caller guarantees `n` elements from each offset on.
            let x = unsafe { V::load_some(x.as_ptr().add(*tap), n) };
            sum = V::splat(*weight).fma(x, sum);
        }
    }
    // SAFETY: `out` has `n` elements.
    unsafe { sum.store_some(out.as_mut_ptr(), n) };
    n
}
