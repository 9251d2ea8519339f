//! Convolutions and their transposes.
//!
//! For each element of a batch and each group of channels, a convolution is the product of the
//! weights, `[outer, inner * taps]`, and of [`columns`] that hold the windows, `[inner *
//! taps, windows]`. Rows of results that fill vectors are added up without columns, in [planes with
//! padding](padded), if these fit the cache. Otherwise the columns are written in blocks that fit it.
//!
//! All sums have an order that depends on shapes alone: blocks and parts of the batch do not depend
//! on the number of threads.

mod columns;
mod padded;
mod products;

use crate::gemm::{self, Batch, Gemm, Matrix};
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::scratch::{Plain, Scratch, with_scratch, with_slices};
use crate::task::{Prepared, map};
use crate::threads::for_each_chunk;
use crate::windows::{Windows, part};
use gradloom_ir::DType;
use padded::{Padded, Rows, Sums};

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

/// Number of pairs of channels of a group up to which it is always added up without columns.
const DIRECT_PAIRS: usize = 4;

/// Length of the rows of results from which they fill vectors well.
const FULL_ROW: usize = 12;

/// Maximum number of elements of the planes with padding of a group.
const PLANES: usize = 1 << 18;

/// Number of parts of the work from which output channels are not split.
const TASKS: usize = 8;

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

    fn has_few_pairs(&self) -> bool {
        self.inner * self.outer <= DIRECT_PAIRS
    }

    /// Returns whether sums over planes with padding of `n` channels need no columns.
    fn is_direct(&self, padded: &Padded, n: usize) -> bool {
        let fits = padded.n_columns() >= FULL_ROW && n * padded.len() <= PLANES;
        let dense = padded.steps().iter().all(|step| *step == 1);
        self.has_few_pairs() || (fits && dense && !self.windows.are_elements())
    }

    /// Returns the sums over planes with padding of `n` channels, if they need no columns.
    fn direct<T: Gemm>(&self, padded: Padded, n: usize) -> Option<Sums> {
        let direct = !self.is_empty() && self.is_direct(&padded, n);
        direct.then(|| Sums::new::<T>(padded))
    }

    /// Returns the number of parts into which `n` channels of results are split for threads.
    fn n_parts(&self, n: usize) -> usize {
        let wanted = TASKS.div_ceil(self.batch * self.groups).min(n);
        (1..=wanted)
            .rev()
            .find(|parts| n.is_multiple_of(*parts))
            .unwrap_or(1)
    }

    /// Returns the estimated time on one thread for some elements of the batch.
    fn nanos<T: Gemm>(&self, batch: usize) -> usize {
        let mkn = [self.outer, self.depth(), self.windows.n_windows()];
        let one = match self.has_few_pairs() {
            true => mkn.iter().product::<usize>() / 4,
            false => T::nanos(mkn),
        };
        one.saturating_mul(batch * self.groups)
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

/// A kernel that has an operand of weights, which another one may copy first.
pub struct Kernels {
    /// Kernel that copies the weights in the order in which the other one reads them: as many numbers.
    pub weights: Option<Prepared>,
    /// Kernel on the other operand and the weights. It computes as many elements of the batch as there
    /// are.
    pub kernel: Prepared,
    /// Estimated time on one thread for an element of the batch.
    pub nanos: usize,
}

/// Returns the kernels of `conv(x, w)`.
pub fn conv(dtype: DType, of: Conv) -> Kernels {
    fn typed<T: Gemm + Plain>(of: Conv) -> Kernels {
        let sums = of.direct::<T>(Padded::of_results(&of.windows), of.inner);
        let pack: Option<Pack<T>> = sums.is_some().then_some(pack_results);
        kernels::<T>(of, pack, move |x, w, z| {
            convolve(&of, sums.as_ref(), x, w, z)
        })
    }
    on_number!(dtype, typed(of))
}

/// Returns the kernels of the transpose in `x`, on `z` and `w`.
pub fn input_t(dtype: DType, of: Conv) -> Kernels {
    fn typed<T: Gemm + Plain>(of: Conv) -> Kernels {
        let sums = of.direct::<T>(Padded::of_inputs(&of.windows), of.outer);
        let pack: Option<Pack<T>> = sums.is_some().then_some(pack_inputs);
        kernels::<T>(of, pack, move |z, w, x| inputs(&of, sums.as_ref(), z, w, x))
    }
    on_number!(dtype, typed(of))
}

/// Copies weights in the order in which a kernel reads them.
type Pack<T> = fn(&Conv, &[T], &mut [T]);

/// Returns a kernel on an operand and weights, and the one that copies the weights first.
fn kernels<T: Gemm>(
    of: Conv,
    pack: Option<Pack<T>>,
    kernel: impl Fn(&[T], &[T], &mut [T]) + Send + Sync + 'static,
) -> Kernels {
    Kernels {
        weights: pack.map(|pack| map(move |w: &[T], packed: &mut [T]| pack(&of, w, packed))),
        kernel: Box::new(move |args, outs| {
            kernel(
                T::slice(args[0]),
                T::slice(args[1]),
                T::slice_mut(&mut outs[0]),
            );
            Ok(())
        }),
        nanos: of.nanos::<T>(1),
    }
}

/// Returns the kernel of the transpose in `w`, on `x` and `z`.
pub fn weight_t(dtype: DType, of: Conv) -> Prepared {
    fn typed<T: Gemm + Plain>(of: Conv) -> Prepared {
        let padded = Padded::of_results(&of.windows);
        Box::new(move |args, outs| {
            let w = T::slice_mut(&mut outs[0]);
            weights(&of, &padded, T::slice(args[0]), T::slice(args[1]), w);
            Ok(())
        })
    }
    on_number!(dtype, typed(of))
}

/// Sums over the windows of planes with padding, for each part of the channels of results.
///
/// `ins` and `outs` are the numbers of channels of a group, and `packed` has the weights of each part of
/// each group.
fn sum_windows<T: Gemm + Plain>(
    of: &Conv,
    sums: &Sums,
    [ins, outs]: [usize; 2],
    x: &[T],
    packed: &[T],
    out: &mut [T],
) {
    let padded = &sums.planes;
    let n_x = ins * padded.n_elements();
    let (batch, n_parts) = (x.len() / (n_x * of.groups), of.n_parts(outs));
    let nanos = of.nanos::<T>(batch) / n_parts;
    let (n_out, n_w) = (out.len() / (batch * of.groups * n_parts), of.sizes()[1]);
    for_each_chunk(out, n_out, nanos, |i, out| {
        let weights = part(packed, i % (of.groups * n_parts), n_w / n_parts);
        with_scratch([padded.scratch_len(ins)], |[planes]| {
            padded.copy(part(x, i / n_parts, n_x), &mut planes[..ins * padded.len()]);
            sums.write(planes, weights, outs / n_parts, out);
        });
    });
}

/// Copies the weights of a convolution for [`sum_windows`].
fn pack_results<T: Gemm>(of: &Conv, w: &[T], packed: &mut [T]) {
    let (channel, block) = (of.depth(), [of.depth(); 2]);
    pack(of, of.outer, w, Rows { channel, block }, packed);
}

/// Copies the weights of the transpose in `x` for [`sum_windows`].
fn pack_inputs<T: Gemm>(of: &Conv, w: &[T], packed: &mut [T]) {
    let channel = of.windows.n_taps();
    let block = [channel, of.depth()];
    pack(of, of.inner, w, Rows { channel, block }, packed);
}

/// Copies the weights of each part of each group, with `n` channels of results.
fn pack<T: Gemm>(of: &Conv, n: usize, w: &[T], rows: Rows, packed: &mut [T]) {
    let (n_parts, n_w) = (of.n_parts(n), of.sizes()[1]);
    let n_of_part = n / n_parts;
    for (i, packed) in packed.chunks_exact_mut(n_w / n_parts).enumerate() {
        let w = &part(w, i / n_parts, n_w)[i % n_parts * n_of_part * rows.channel..];
        padded::pack(n_of_part, w, rows, packed);
    }
}

/// The weights are [packed](pack_results) if there are sums without columns.
fn convolve<T: Gemm + Plain>(of: &Conv, sums: Option<&Sums>, x: &[T], w: &[T], z: &mut [T]) {
    if of.is_empty() {
        return z.fill(T::ZERO);
    }
    let ([n_x, n_w, n_z], depth) = (of.sizes(), of.depth());
    if let Some(sums) = sums {
        return sum_windows(of, sums, [of.inner, of.outer], x, w, z);
    }
    let n_windows = of.windows.n_windows();
    let nanos = of.nanos::<T>(z.len() / (n_z * of.groups));
    for_each_chunk(z, n_z, nanos, |i, z| {
        let (x, w) = (part(x, i, n_x), part(w, i % of.groups, n_w));
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

/// The weights are [packed](pack_inputs) if there are sums without columns.
fn inputs<T: Gemm + Plain>(of: &Conv, sums: Option<&Sums>, z: &[T], w: &[T], x: &mut [T]) {
    if of.is_empty() {
        return x.fill(T::ZERO);
    }
    let ([n_x, n_w, n_z], depth) = (of.sizes(), of.depth());
    if let Some(sums) = sums {
        return sum_windows(of, sums, [of.outer, of.inner], z, w, x);
    }
    let n_windows = of.windows.n_windows();
    let nanos = of.nanos::<T>(x.len() / (n_x * of.groups));
    for_each_chunk(x, n_x, nanos, |i, x| {
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
        if of.windows.are_elements() {
            return times(x, 0, n_windows);
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

fn weights<T: Gemm + Plain>(of: &Conv, padded: &Padded, x: &[T], z: &[T], w: &mut [T]) {
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
        weights_of_part((of, padded), (x, z), group, members, w);
    };
    if n_parts == 1 {
        return for_each_chunk(w, n_w, of.nanos::<T>(of.batch), of_part);
    }
    with_slices(&TOTALS, [n_parts * w.len()], |[totals]| {
        for_each_chunk(totals, n_w, of.nanos::<T>(of.batch), of_part);
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
    (of, padded): (&Conv, &Padded),
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
        let direct = of.is_direct(padded, of.inner) && products::fill_lanes(padded);
        if direct || of.has_few_pairs() {
            with_scratch([of.inner * padded.len()], |[planes]| {
                padded.copy(x, planes);
                products::add(padded, planes, z, w);
            });
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
