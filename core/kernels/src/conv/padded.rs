//! Sums over the elements of windows, without columns.
//!
//! A plane is copied with its padding, so that no window has an element outside. Along the last axis, the
//! copy has the elements at distance of the stride next to each other. So neighbouring windows read
//! neighbouring elements, and a vector of results is a chain of multiply-adds, one for each element of
//! the windows. A tile of such vectors, for several output channels, stays in registers.

use crate::simd::lanes::{Identity, Map, map};
use crate::simd::leveled::leveled;
use crate::simd::number::Number;
use crate::simd::vector::{LANES, Vector};
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

    /// Returns the offset of a row of a plane with its padding.
    fn row(&self, plane: usize, row: usize) -> usize {
        (plane * self.axes[1].padded + row) * self.row_len()[0]
    }

    fn column(&self, at: usize) -> usize {
        let stride = self.axes[2].stride;
        at % stride * self.row_len()[1] + at / stride
    }

    /// Returns the offset of the first window of row `i` of the results.
    pub(super) fn first(&self, i: usize) -> usize {
        let [planes, rows, _] = &self.axes;
        self.row(i / rows.count * planes.stride, i % rows.count * rows.stride)
    }

    /// Returns the offsets of the elements of a window from its first one.
    ///
    /// # Panics
    ///
    /// Panics if a window has an element outside of the padding.
    pub(super) fn taps(&self) -> &[usize] {
        let [planes, rows, columns] = self.counts();
        let farthest = self.taps.iter().max().expect("a window has elements");
        let end = self.first(planes * rows - 1) + farthest + columns;
        assert!(end <= self.len(), "windows lie inside the padding");
        &self.taps
    }

    /// Returns the number of elements of a plane with its padding.
    pub(super) fn len(&self) -> usize {
        self.row(self.axes[0].padded, 0)
    }

    /// Copies planes.
    pub(super) fn copy<T: Number>(&self, planes: &[T], padded: &mut [T]) {
        copy_rows(self, planes, padded);
    }

    /// Returns the number of elements of scratch for the planes of `n` channels.
    ///
    /// Vectors that are loaded at the end of the last row reach beyond it.
    pub(super) fn scratch_len(&self, n: usize) -> usize {
        n * self.len() + LANES
    }

    /// Returns the length of the rows of results.
    pub(super) fn n_columns(&self) -> usize {
        self.axes[MAX_AXES - 1].count
    }

    /// Returns the distance between elements of the planes that are next to each other in the input.
    pub(super) fn steps(&self) -> [usize; MAX_AXES] {
        self.axes.map(|axis| axis.step)
    }

    /// Returns the number of planes of results, the number of rows of each, and their length.
    pub(super) fn counts(&self) -> [usize; MAX_AXES] {
        self.axes.map(|axis| axis.count)
    }

    /// Writes the sums of the products of weights and elements of each window, for `n` output channels.
    ///
    /// `padded` has the planes of all input channels and `weights` is [packed](pack).
    pub(super) fn sum<T: Number>(&self, padded: &[T], weights: &[T], n: usize, out: &mut [T]) {
        sum_rows(self, padded, weights, n, out);
    }
}

/// Maximum number of output channels of a tile.
const ROWS: usize = 6;

/// Number of results of a row for which the weights of a tile are read again and again.
const STRETCH: usize = 64;

/// Returns the first output channel of each tile and the number of its channels.
fn tiles(n: usize) -> impl Iterator<Item = (usize, usize)> {
    let n_tiles = n.div_ceil(ROWS);
    (0..n_tiles).map(move |i| (i * n / n_tiles, (i + 1) * n / n_tiles - i * n / n_tiles))
}

/// Copies the weights of `n` output channels so that those of a tile, for one element of the windows, are
/// neighbours.
///
/// `weight` returns the weight of an output channel and an element of the windows of all input channels.
pub(super) fn pack<T: Copy>(n: usize, packed: &mut [T], weight: impl Fn(usize, usize) -> T) {
    let depth = packed.len() / n;
    for (first, rows) in tiles(n) {
        let packed = &mut packed[first * depth..][..rows * depth];
        for (i, to) in packed.chunks_exact_mut(rows).enumerate() {
            (first..).zip(to).for_each(|(row, to)| *to = weight(row, i));
        }
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
    fn sum_rows<S, T: Number>(of: &Padded, padded: &[T], weights: &[T], n: usize, out: &mut [T]) {
        let [planes, rows, columns] = of.counts();
        let n_taps = of.taps().len();
        let depth = weights.len() / n;
        let n_channels = depth / n_taps;
        assert_eq!(weights.len(), n * n_channels * n_taps);
        assert!(of.scratch_len(n_channels) <= padded.len(), "the scratch has space for vectors");
        let n_windows = planes * rows * columns;
        assert_eq!(out.len(), n * n_windows);
        for row in 0..planes * rows {
            for start in (0..columns).step_by(STRETCH) {
                let len = STRETCH.min(columns - start);
                for (channel, height) in tiles(n) {
                    let x = &padded[of.first(row) + start..];
                    let weights = &weights[channel * depth..][..height * depth];
                    let to = &mut out[channel * n_windows + row * columns + start..];
                    let tile = Tile { of, x, weights, n_windows, len };
                    // SAFETY: all windows lie inside the padding (`taps`), and the scratch is longer
                    // than the planes by at least what the vectors of a strip exceed.
                    unsafe {
                        match height {
                            1 => tile.strips::<T::Vectors<S>, 1>(to),
                            2 => tile.strips::<T::Vectors<S>, 2>(to),
                            3 => tile.strips::<T::Vectors<S>, 3>(to),
                            4 => tile.strips::<T::Vectors<S>, 4>(to),
                            5 => tile.strips::<T::Vectors<S>, 5>(to),
                            _ => tile.strips::<T::Vectors<S>, ROWS>(to),
                        }
                    }
                }
            }
        }
    }
}

/// Part of a row of results, for neighbouring output channels.
struct Tile<'a, T> {
    of: &'a Padded,
    /// The planes, from the first element of the first window on.
    x: &'a [T],
    weights: &'a [T],
    /// Distance between the results of neighbouring channels.
    n_windows: usize,
    /// Number of results of each channel.
    len: usize,
}

impl<T: Number> Tile<'_, T> {
    /// Writes the results of `M` channels.
    ///
    /// # Safety
    ///
    /// Each channel must have as many elements from each offset on as whole vectors cover.
    #[inline(always)]
    unsafe fn strips<V: Vector<T = T>, const M: usize>(&self, out: &mut [T]) {
        assert!((M - 1) * self.n_windows + self.len <= out.len());
        let mut done = 0;
        while done < self.len {
            let left = self.len - done;
            // SAFETY: the caller guarantees the vectors.
            done += unsafe {
                match left.div_ceil(V::N) {
                    3.. if M <= 2 && V::N < STRETCH / 2 => self.strip::<V, M, 4>(done, out),
                    2.. => self.strip::<V, M, 2>(done, out),
                    _ => self.strip::<V, M, 1>(done, out),
                }
            };
        }
    }

    /// Writes up to `K` vectors of results of `M` channels, and returns the number of their elements.
    ///
    /// # Safety
    ///
    /// As for [`Tile::strips`]. `out` must have the results of `M` channels.
    #[inline(always)]
    unsafe fn strip<V: Vector<T = T>, const M: usize, const K: usize>(
        &self,
        done: usize,
        out: &mut [T],
    ) -> usize {
        let mut sums = [[V::splat(T::ZERO); K]; M];
        let mut weights = self.weights.as_ptr();
        let mut plane = self.x[done..].as_ptr();
        for _ in 0..self.weights.len() / (M * self.of.taps.len()) {
            for tap in &self.of.taps {
                // SAFETY: the caller guarantees `K` vectors from each offset on, and there are `M`
                // weights for each element of the windows.
                unsafe {
                    let mut x = [V::splat(T::ZERO); K];
                    for (k, x) in x.iter_mut().enumerate() {
                        *x = V::load(plane.wrapping_add(*tap + k * V::N));
                    }
                    for (m, sums) in sums.iter_mut().enumerate() {
                        let weight = V::splat(*weights.add(m));
                        for (x, sum) in x.iter().zip(sums) {
                            *sum = weight.fma(*x, *sum);
                        }
                    }
                    weights = weights.add(M);
                }
            }
            plane = plane.wrapping_add(self.of.len());
        }
        // Indices, because an iterator over part of the sums would keep them in memory.
        for m in 0..M {
            let out = &mut out[m * self.n_windows..][..self.len];
            for k in 0..K {
                let out = &mut out[(done + k * V::N).min(self.len)..];
                // SAFETY: `out` has the elements of a vector, or those that are stored.
                unsafe {
                    match out.len() >= V::N {
                        true => sums[m][k].store(out.as_mut_ptr()),
                        false => sums[m][k].store_some(out.as_mut_ptr(), out.len()),
                    }
                }
            }
        }
        (K * V::N).min(self.len - done)
    }
}
