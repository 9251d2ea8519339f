//! Convolutions and their transposes.
//!
//! For each element of a batch and each group of channels, a convolution is the product of the
//! weights, `[outer, inner * taps]`, and of [`columns`] that hold the windows, `[inner *
//! taps, windows]`. The columns are written in blocks that fit the cache. Groups with few channels,
//! as in depthwise convolutions, are added up directly, in [planes with padding](padded).
//!
//! All sums have an order that depends on shapes alone: blocks and parts of the batch do not depend
//! on the number of threads.

mod columns;
mod direct;
mod padded;

use crate::gemm::{self, Batch, Gemm, Matrix};
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::scratch::{Plain, Scratch, with_scratch, with_slices};
use crate::task::Prepared;
use crate::threads::for_each_chunk;
use crate::windows::{Windows, part};
use gradloom_ir::DType;
use padded::Padded;

/// Sizes of a convolution `z = conv(x, w)`.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    /// Length of the batch.
    pub batch: usize,
    /// Number of groups.
    pub groups: usize,
    /// Number of channels of `x` in a group.
    pub inner: usize,
    /// Number of channels of `z` in a group.
    pub outer: usize,
    /// Windows that slide over each plane of `x`.
    pub windows: Windows,
}

/// Number of elements of a block of columns.
const BLOCK: usize = 1 << 17;

/// Minimum number of windows in a block of columns.
const MIN_WINDOWS: usize = 128;

/// Number of pairs of channels of a group up to which it is added up directly.
const DIRECT_PAIRS: usize = 4;

/// Maximum number of parts of the batch, whose products for the weights are added up at last.
const PARTS: usize = 8;

/// Maximum number of elements of the products of all parts.
const PARTS_ELEMENTS: usize = 1 << 22;

impl Conv {
    /// Returns the number of elements of the weights of an output channel.
    fn depth(&self) -> usize {
        self.inner * self.windows.n_taps()
    }

    /// Returns the numbers of elements of `x`, `w` and `z` for one group.
    fn sizes(&self) -> [usize; 3] {
        [
            self.inner * self.windows.n_elements(),
            self.outer * self.depth(),
            self.outer * self.windows.n_windows(),
        ]
    }

    /// Returns whether no product has an element.
    fn is_empty(&self) -> bool {
        self.sizes().contains(&0) || self.batch == 0 || self.groups == 0
    }

    fn is_direct(&self) -> bool {
        self.inner * self.outer <= DIRECT_PAIRS
    }

    /// Returns the estimated time on one thread.
    fn nanos<T: Gemm>(&self) -> usize {
        let mkn = [self.outer, self.depth(), self.windows.n_windows()];
        let one = match self.is_direct() {
            true => mkn.iter().product::<usize>() / 4,
            false => T::nanos(mkn),
        };
        one.saturating_mul(self.batch * self.groups)
    }

    /// Calls `f` with the first window and the number of windows of each block.
    fn each_block(&self, mut f: impl FnMut(usize, usize)) {
        let n = self.windows.n_windows();
        let len = (BLOCK / self.depth()).max(MIN_WINDOWS).min(n);
        for first in (0..n).step_by(len) {
            f(first, len.min(n - first));
        }
    }
}

/// Returns a matrix with rows that are `rows` apart.
fn matrix(offset: usize, rows: usize) -> Matrix {
    Matrix {
        offset,
        rows,
        cols: 1,
    }
}

/// Computes `out = a b`, or `out += a b`.
fn product<T: Gemm>(
    mkn: [usize; 3],
    (a, at_a): (&[T], Matrix),
    (b, at_b): (&[T], Matrix),
    (out, at_out): (&mut [T], Matrix),
    add: bool,
) {
    let batch = Batch {
        mkn,
        a: at_a,
        b: at_b,
        out: at_out,
        axes: Vec::new(),
        summed: Vec::new(),
        single: false,
    };
    gemm::run(&batch, a, b, out, add, None);
}

/// Returns the kernel of `conv(x, w)`.
pub fn conv(dtype: DType, of: Conv) -> Prepared {
    fn typed<T: Gemm + Plain>(of: Conv) -> Prepared {
        let padded = Padded::of_results(&of.windows);
        Box::new(move |args, outs| {
            let z = T::slice_mut(&mut outs[0]);
            convolve(&of, &padded, T::slice(args[0]), T::slice(args[1]), z);
            Ok(())
        })
    }
    on_number!(dtype, typed(of))
}

/// Returns the kernel of the transpose in `x`, on `z` and `w`.
pub fn input_t(dtype: DType, of: Conv) -> Prepared {
    fn typed<T: Gemm + Plain>(of: Conv) -> Prepared {
        let padded = Padded::of_inputs(&of.windows);
        Box::new(move |args, outs| {
            let x = T::slice_mut(&mut outs[0]);
            inputs(&of, &padded, T::slice(args[0]), T::slice(args[1]), x);
            Ok(())
        })
    }
    on_number!(dtype, typed(of))
}

/// Returns the kernel of the transpose in `w`, on `x` and `z`.
pub fn weight_t(dtype: DType, of: Conv) -> Prepared {
    fn typed<T: Gemm + Plain>(of: Conv) -> Prepared {
        Box::new(move |args, outs| {
            let w = T::slice_mut(&mut outs[0]);
            weights(&of, T::slice(args[0]), T::slice(args[1]), w);
            Ok(())
        })
    }
    on_number!(dtype, typed(of))
}

fn convolve<T: Gemm + Plain>(of: &Conv, padded: &Padded, x: &[T], w: &[T], z: &mut [T]) {
    if of.is_empty() {
        return z.fill(T::ZERO);
    }
    let ([n_x, n_w, n_z], depth) = (of.sizes(), of.depth());
    let n_windows = of.windows.n_windows();
    for_each_chunk(z, n_z, of.nanos::<T>(), |i, z| {
        let (x, w) = (part(x, i, n_x), part(w, i % of.groups, n_w));
        if of.is_direct() {
            return with_scratch([of.inner * padded.len()], |[planes]| {
                padded.copy(x, planes);
                let each = z.chunks_exact_mut(of.windows.n_windows());
                (each.zip(w.chunks_exact(depth))).for_each(|(z, w)| padded.sum(planes, w, z));
            });
        }
        let mut times = |columns: &[T], first: usize, n: usize| {
            let stride = columns.len() / depth;
            product(
                [of.outer, depth, n],
                (w, matrix(0, depth)),
                (columns, matrix(0, stride)),
                (&mut *z, matrix(first, n_windows)),
                false,
            );
        };
        if of.windows.are_elements() {
            return times(x, 0, n_windows);
        }
        of.each_block(|first, n| {
            with_scratch([depth * n], |[columns]| {
                columns::gather(x, columns, of, first);
                times(columns, first, n);
            });
        });
    });
}

fn inputs<T: Gemm + Plain>(of: &Conv, padded: &Padded, z: &[T], w: &[T], x: &mut [T]) {
    if of.is_empty() {
        return x.fill(T::ZERO);
    }
    let ([n_x, n_w, n_z], depth) = (of.sizes(), of.depth());
    let n_windows = of.windows.n_windows();
    for_each_chunk(x, n_x, of.nanos::<T>(), |i, x| {
        let (z, w) = (part(z, i, n_z), part(w, i % of.groups, n_w));
        let times = |columns: &mut [T], first: usize, n: usize| {
            product(
                [depth, of.outer, n],
                (w, matrix(0, depth).transposed()),
                (z, matrix(first, n_windows)),
                (columns, matrix(0, n)),
                false,
            );
        };
        if !of.is_direct() && of.windows.are_elements() {
            return times(x, 0, n_windows);
        }
        if of.is_direct() {
            let n_taps = of.windows.n_taps();
            let sizes = [of.outer * padded.len(), of.outer * n_taps];
            return with_scratch(sizes, |[planes, weights]| {
                padded.copy(z, planes);
                let each = x.chunks_exact_mut(of.windows.n_elements());
                for (x, w) in each.zip((0..).map(|inner| &w[inner * n_taps..])) {
                    let of_outers = weights.chunks_exact_mut(n_taps).zip(w.chunks(depth));
                    of_outers.for_each(|(to, w)| to.copy_from_slice(&w[..n_taps]));
                    padded.sum(planes, weights, x);
                }
            });
        }
        x.fill(T::ZERO);
        of.each_block(|first, n| {
            with_scratch([depth * n], |[columns]| {
                times(columns, first, n);
                columns::scatter(columns, x, of, first);
            });
        });
    });
}

fn weights<T: Gemm + Plain>(of: &Conv, x: &[T], z: &[T], w: &mut [T]) {
    thread_local! {
        static TOTALS: Scratch = const { Scratch::new(AlignedVec::new()) };
    }
    if of.is_empty() {
        return w.fill(T::ZERO);
    }
    let n_w = of.sizes()[1];
    let n_parts = PARTS.min(of.batch).min(PARTS_ELEMENTS / w.len()).max(1);
    // Adds up the products of part `i / groups` of the batch for group `i % groups`.
    let of_part = |i: usize, w: &mut [T]| {
        let (at, group) = (i / of.groups, i % of.groups);
        let members = at * of.batch / n_parts..(at + 1) * of.batch / n_parts;
        weights_of_part(of, (x, z), group, members, w);
    };
    if n_parts == 1 {
        return for_each_chunk(w, n_w, of.nanos::<T>(), of_part);
    }
    with_slices(&TOTALS, [n_parts * w.len()], |[totals]| {
        for_each_chunk(totals, n_w, of.nanos::<T>(), of_part);
        let mut totals = totals.chunks_exact(w.len());
        if let Some(first) = totals.next() {
            w.copy_from_slice(first);
        }
        for total in totals {
            w.iter_mut().zip(total).for_each(|(w, t)| *w = w.plus(*t));
        }
    });
}

/// Adds up the products for the weights of a group over the given elements of the batch.
fn weights_of_part<T: Gemm + Plain>(
    of: &Conv,
    (x, z): (&[T], &[T]),
    group: usize,
    members: std::ops::Range<usize>,
    w: &mut [T],
) {
    let ([n_x, _, n_z], depth) = (of.sizes(), of.depth());
    let n_windows = of.windows.n_windows();
    w.fill(T::ZERO);
    for member in members {
        let i = member * of.groups + group;
        let (x, z) = (part(x, i, n_x), part(z, i, n_z));
        if of.is_direct() {
            direct::weights(x, z, w, of);
            continue;
        }
        let mut times = |columns: &[T], first: usize, n: usize| {
            let stride = columns.len() / depth;
            product(
                [of.outer, n, depth],
                (z, matrix(first, n_windows)),
                (columns, matrix(0, stride).transposed()),
                (&mut *w, matrix(0, depth)),
                true,
            );
        };
        if of.windows.are_elements() {
            times(x, 0, n_windows);
            continue;
        }
        of.each_block(|first, n| {
            with_scratch([depth * n], |[columns]| {
                columns::gather(x, columns, of, first);
                times(columns, first, n);
            });
        });
    }
}

#[cfg(test)]
mod tests;
