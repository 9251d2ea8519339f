//! Sums over the elements of windows, without columns.
//!
//! A plane is copied with its padding, so that no window has an element outside. Along the last axis, the
//! copy has the elements at distance of the stride next to each other. So neighbouring windows read
//! neighbouring elements, and a vector of results is a chain of multiply-adds, one for each element of
//! the windows. A tile of such vectors, for several output channels, stays in registers.

use crate::movement::gather::read_row;
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

    /// Returns the offset of the first window of a row of the results: its plane, and its index there.
    pub(super) fn first(&self, [plane, row]: [usize; 2]) -> usize {
        let [planes, rows, _] = &self.axes;
        self.row(plane * planes.stride, row * rows.stride)
    }

    /// Returns the offsets of the elements of a window from its first one.
    ///
    /// # Panics
    ///
    /// Panics if a window has an element outside of the padding.
    pub(super) fn taps(&self) -> &[usize] {
        let [planes, rows, columns] = self.counts();
        let farthest = self.taps.iter().max().expect("a window has elements");
        let end = self.first([planes - 1, rows - 1]) + farthest + columns;
        assert!(end <= self.len(), "windows lie inside the padding");
        &self.taps
    }

    /// Returns the number of elements of a plane.
    pub(super) fn n_elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
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
}

/// Sums over the windows of planes with padding.
pub(super) struct Sums {
    /// The planes.
    pub(super) planes: Padded,
    /// Vectors of results.
    places: Vec<Place>,
}

impl Sums {
    /// Returns the sums over the windows of planes.
    pub(super) fn new<T: Number>(planes: Padded) -> Sums {
        let places = places::<T>(&planes);
        Sums { planes, places }
    }

    /// Writes the sums of the products of weights and elements of each window, for `n` output channels.
    ///
    /// `padded` has the planes of all input channels and `weights` is [packed](pack).
    pub(super) fn write<T: Number>(&self, padded: &[T], weights: &[T], n: usize, out: &mut [T]) {
        sum_rows(self, padded, weights, n, out);
    }
}

/// Maximum number of output channels of a tile.
///
/// The level has twice as many registers if a vector has 64 bytes.
const fn max_height<V>() -> usize {
    if size_of::<V>() == 64 { 8 } else { 6 }
}

/// Number of vectors of results for which the weights of a tile are read again and again.
const STRETCH: usize = 24;

/// Returns the first output channel of each tile and the number of its channels.
fn tiles<V>(n: usize) -> impl Iterator<Item = (usize, usize)> {
    let n_tiles = n.div_ceil(max_height::<V>());
    (0..n_tiles).map(move |i| (i * n / n_tiles, (i + 1) * n / n_tiles - i * n / n_tiles))
}

/// Weights of output channels, each a row of numbers for blocks of neighbouring elements.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Distance between the weights of neighbouring output channels.
    pub(super) channel: usize,
    /// Number of elements of a block, and the distance between blocks.
    pub(super) block: [usize; 2],
}

leveled! {
    /// Copies the weights of `n` output channels so that those of a tile, for one element of the
    /// windows, are neighbours.
    pub(super) fn pack<S, T: Number>(n: usize, w: &[T], rows: Rows, packed: &mut [T]) {
        let depth = packed.len() / n;
        let [block, distance] = rows.block;
        for (first, height) in tiles::<T::Vectors<S>>(n) {
            let packed = &mut packed[first * depth..][..height * depth];
            for row in 0..height {
                let w = &w[(first + row) * rows.channel..];
                let blocks = packed.chunks_exact_mut(height * block);
                for (packed, w) in blocks.zip(w.chunks(distance)) {
                    let to = packed[row..].iter_mut().step_by(height);
                    to.zip(&w[..block]).for_each(|(to, w)| *to = *w);
                }
            }
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
        if inside.is_empty() || rows.inside().is_empty() {
            // The padding is so negative that no element has a position.
            return;
        }
        let distance = rows.step * of.row(0, 1);
        for (plane, padded) in (planes.chunks_exact(len)).zip(padded.chunks_exact_mut(of.len())) {
            for p in outer.inside() {
                let from = &plane[(p * rows.len + rows.inside().start) * columns.len..];
                let from = from.chunks_exact(columns.len).take(rows.inside().len());
                let first = of.row(outer.position(p), rows.position(rows.inside().start));
                for (from, to) in from.zip(padded[first..].chunks_mut(distance)) {
                    let from = &from[inside.clone()];
                    let first = columns.position(inside.start);
                    if dense {
                        let to = &mut to[first..][..from.len()];
                        map::<T::Vectors<S>, 1>([from], to, false, Identity);
                    } else if columns.step == 1 {
                        // Elements at distance of the stride become neighbours.
                        for i in 0..columns.stride.min(from.len()) {
                            let n = (from.len() - i).div_ceil(columns.stride);
                            let to = &mut to[of.column(first + i)..][..n];
                            read_row(&from[i..], columns.stride, to);
                        }
                    } else {
                        assert_eq!(columns.stride, 1, "results or planes have neighbours");
                        let to = to[first..].iter_mut().step_by(columns.step);
                        to.zip(from).for_each(|(y, x)| *y = *x);
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

/// Place of a vector of results.
#[derive(Clone, Copy)]
struct Place {
    /// First element of the first window.
    element: usize,
    /// Index of the first window, and the number of windows.
    window: usize,
    n: usize,
}

/// Returns whether each place lies within `n_windows` windows, and has up to `lanes` of them.
fn are_inside(places: &[Place], n_windows: usize, lanes: usize) -> bool {
    let inside = |place: &Place| place.window + place.n <= n_windows && place.n <= lanes;
    places.iter().all(inside)
}

/// Returns whether each place has `lanes` windows.
fn are_whole(places: &[Place], lanes: usize) -> bool {
    places.iter().all(|place| place.n == lanes)
}

leveled! {
    /// Returns the vectors of the level that hold the results of a channel.
    fn places<S, T: Number>(of: &Padded) -> Vec<Place> {
        let [planes, rows, columns] = of.counts();
        let lanes = <T::Vectors<S>>::N;
        let rows_of_planes = (0..planes).flat_map(|plane| (0..rows).map(move |row| [plane, row]));
        let of_row = |(i, row)| {
            (0..columns).step_by(lanes).map(move |start| Place {
                element: of.first(row) + start,
                window: i * columns + start,
                n: lanes.min(columns - start),
            })
        };
        rows_of_planes.enumerate().flat_map(of_row).collect()
    }
}

leveled! {
    fn sum_rows<S, T: Number>(of: &Sums, padded: &[T], weights: &[T], n: usize, out: &mut [T]) {
        let planes = &of.planes;
        let n_taps = planes.taps().len();
        let depth = weights.len() / n;
        let n_channels = depth / n_taps;
        assert_eq!(weights.len(), n * n_channels * n_taps);
        assert!(planes.scratch_len(n_channels) <= padded.len(), "the scratch has space for vectors");
        let n_windows = planes.counts().iter().product();
        assert_eq!(out.len(), n * n_windows);
        for places in of.places.chunks(STRETCH) {
            for (channel, height) in tiles::<T::Vectors<S>>(n) {
                let weights = &weights[channel * depth..][..height * depth];
                let out = &mut out[channel * n_windows..][..height * n_windows];
                let tile = Tile { of: planes, x: padded, weights, n_windows };
                // SAFETY: all windows lie inside the padding (`taps`), and the scratch is longer
                // than the planes by at least what the vectors of a strip exceed. The places are
                // windows of all planes.
                unsafe { tile.all::<T::Vectors<S>>(places, height, out) };
            }
        }
    }
}

/// Results of neighbouring output channels.
struct Tile<'a, T> {
    of: &'a Padded,
    /// The planes.
    x: &'a [T],
    weights: &'a [T],
    /// Distance between the results of neighbouring channels.
    n_windows: usize,
}

impl<T: Number> Tile<'_, T> {
    /// Writes the results of `height` channels: as many vectors at a time as registers hold.
    ///
    /// # Safety
    ///
    /// The planes must have a vector at each element of the windows of each of the places, and `out`
    /// the results of the channels there.
    #[inline(always)]
    unsafe fn all<V: Vector<T = T>>(&self, places: &[Place], height: usize, out: &mut [T]) {
        let wide = max_height::<V>() > 6;
        // SAFETY: the caller guarantees the vectors and the results.
        unsafe {
            match height {
                1 => self.strips::<V, 1, 8>(places, out),
                2 => self.strips::<V, 2, 4>(places, out),
                3 => self.strips::<V, 3, 3>(places, out),
                4 => self.strips::<V, 4, 3>(places, out),
                5 if wide => self.strips::<V, 5, 3>(places, out),
                5 => self.strips::<V, 5, 2>(places, out),
                6 if wide => self.strips::<V, 6, 3>(places, out),
                6 => self.strips::<V, 6, 2>(places, out),
                7 => self.strips::<V, 7, 3>(places, out),
                _ => self.strips::<V, 8, 3>(places, out),
            }
        }
    }

    /// Writes the results of `M` channels, `K` vectors at a time.
    ///
    /// # Safety
    ///
    /// As for [`Tile::all`].
    #[inline(always)]
    unsafe fn strips<V: Vector<T = T>, const M: usize, const K: usize>(
        &self,
        places: &[Place],
        out: &mut [T],
    ) {
        let (strips, rest) = places.as_chunks::<K>();
        // SAFETY: the caller guarantees the vectors and the results.
        unsafe {
            for places in strips {
                self.strip::<V, M, K>(places, out);
            }
            for place in rest {
                self.strip::<V, M, 1>(&[*place], out);
            }
        }
    }

    /// Writes `K` vectors of results of `M` channels.
    ///
    /// # Safety
    ///
    /// As for [`Tile::all`].
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "loops with indices are unrolled, and the sums stay in registers"
    )]
    unsafe fn strip<V: Vector<T = T>, const M: usize, const K: usize>(
        &self,
        places: &[Place; K],
        out: &mut [T],
    ) {
        let mut sums = [[V::splat(T::ZERO); K]; M];
        let mut weights = self.weights.as_ptr();
        let mut plane = [self.x.as_ptr(); K];
        for k in 0..K {
            plane[k] = self.x[places[k].element..].as_ptr();
        }
        for _ in 0..self.weights.len() / (M * self.of.taps.len()) {
            for tap in &self.of.taps {
                // SAFETY: the caller guarantees `K` vectors for each element of the windows, and there
                // are `M` weights for it.
                unsafe {
                    let mut x = [V::splat(T::ZERO); K];
                    for k in 0..K {
                        x[k] = V::load(plane[k].wrapping_add(*tap));
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
            for plane in &mut plane {
                *plane = plane.wrapping_add(self.of.len());
            }
        }
        let n_windows = self.n_windows;
        assert!(are_inside(places, n_windows, V::N) && M * n_windows <= out.len());
        let whole = are_whole(places, V::N);
        let out = out.as_mut_ptr();
        // The bodies are small and have indices, so that the loops are unrolled: otherwise the sums
        // would be kept in memory.
        for m in 0..M {
            for k in 0..K {
                let to = out.wrapping_add(m * n_windows + places[k].window);
                // SAFETY: each channel has `n_windows` results, and those of a place lie among them,
                // as asserted.
                unsafe {
                    match whole {
                        true => sums[m][k].store(to),
                        false => sums[m][k].store_some(to, places[k].n),
                    }
                }
            }
        }
    }
}
