//! Transpose of the Jacobian of attention.

use crate::attention::block;
use crate::attention::block::AttentionFloat;
use crate::attention::heads::{DerivativeOperands, HeadRows, Heads};
use crate::gemm::Matrix;
use crate::memory::scratch::with_scratch;
use crate::threads::{self, SharedSlice};

/// Minimum number of tasks: with fewer heads than this, several tasks share a head.
const TASKS: usize = 4;
/// Number of elements that are added up at a time.
const PIECE: usize = 1 << 14;

/// A requested cotangent, and the partial sums of all parts of each head but the first.
pub(crate) type RequestedCotangent<'a, T> = Option<(&'a mut [T], &'a mut [T])>;

/// Returns the number of parts into which the queries of a head are divided.
///
/// The task of a part has its own sums of the cotangents of all keys and values. The number depends
/// on shapes alone, because it determines the order of sums.
pub(crate) fn n_parts(heads: &Heads) -> usize {
    TASKS.div_ceil(heads.n.max(1)).min(heads.n_blocks()).max(1)
}

/// Writes the requested cotangents of queries, keys and values, from that of the result.
pub(crate) fn run<T: AttentionFloat>(
    heads: &Heads,
    of: &DerivativeOperands<'_, T>,
    (ct, ct_rows): (&[T], &HeadRows),
    ct_q: Option<&mut [T]>,
    [ct_k, ct_v]: [RequestedCotangent<'_, T>; 2],
) {
    let (d, e, n_parts) = (heads.features, heads.of_values, n_parts(heads));
    let scale = T::of(heads.scale());
    let for_queries = ct_q.map(SharedSlice::new);
    let for_keys = ct_k.map(|(first, others)| [first, others].map(SharedSlice::new));
    let for_values = ct_v.map(|(first, others)| [first, others].map(SharedSlice::new));
    let scored = for_queries.is_some() || for_keys.is_some();
    let nanos = heads.nanos::<T>([3, 2]);
    threads::for_each(heads.n * n_parts, nanos, |task| {
        let (head, part) = (task / n_parts, task % n_parts);
        let mut ct_k = for_keys
            .as_ref()
            // SAFETY: each task has its own part of a head.
            .map(|both| unsafe { own(both, heads, [head, part], d) });
        let mut ct_v = for_values
            .as_ref()
            // SAFETY: each task has its own part of a head.
            .map(|both| unsafe { own(both, heads, [head, part], e) });
        for ct in [&mut ct_k, &mut ct_v].into_iter().flatten() {
            ct.fill(T::ZERO);
        }
        let to = |j: usize, cols: usize| Matrix {
            offset: j * cols,
            rows: cols,
            cols: 1,
        };
        let width = block::QUERIES
            .min(heads.queries)
            .next_multiple_of(block::STEP);
        let square = block::KEYS * width;
        let lens = [d * width, e * width, square, square, width, width, e];
        with_scratch(lens, |[turned, ct_turned, p, ds, lse, along_o, some]| {
            for (i, n) in heads.queries_of(part, n_parts) {
                let width = n.next_multiple_of(block::STEP);
                // SAFETY: each block of queries of a head belongs to one of its tasks.
                let mut ct_q = for_queries
                    .as_ref()
                    .map(|ct| unsafe { ct.part((head * heads.queries + i) * d, n * d) });
                let of_ct = (ct, ct_rows.at(head, i));
                let (turned, ct_turned) = (&mut turned[..d * width], &mut ct_turned[..e * width]);
                block::turn(of.q(head, i), [n, d, width], scale, turned);
                lse.fill(T::ZERO);
                lse[..n].copy_from_slice(of.lse(heads, head, i, n));
                if scored {
                    block::turn(of_ct, [n, e, width], T::ONE, ct_turned);
                    along_o.fill(T::ZERO);
                    block::dots(of_ct, of.o(head, i), e, some, &mut along_o[..n]);
                }
                let mut first = true;
                for (j, block) in heads.blocks(of.mask, head, [i, n]) {
                    block.score(of.k(head, j), turned, d, p, false);
                    block::weights(&block, p, lse);
                    if let Some(ct_v) = &mut ct_v {
                        block.for_keys(p, of_ct, e, ct_v, to(j, e));
                    }
                    if !scored {
                        continue;
                    }
                    block.score(of.v(head, j), ct_turned, e, ds, false);
                    block::pull_back(&block, p, ds, along_o, scale);
                    if let Some(ct_k) = &mut ct_k {
                        block.for_keys(ds, of.q(head, i), d, ct_k, to(j, d));
                    }
                    if let Some(ct_q) = &mut ct_q {
                        if first {
                            ct_q[..block.from.min(n) * d].fill(T::ZERO);
                        }
                        block.for_queries(ds, of.k(head, j), d, ct_q, !first);
                    }
                    first = false;
                }
                if let Some(ct_q) = ct_q.filter(|_| first) {
                    ct_q.fill(T::ZERO);
                }
            }
        });
    });
    for both in [for_keys, for_values].into_iter().flatten() {
        join(both);
    }
}

/// Returns the rows of `len` elements in which the task of a part of a head sums.
///
/// # Safety
///
/// Nothing else may use these rows meanwhile.
#[expect(
    clippy::mut_from_ref,
    reason = "the caller guarantees that the parts are distinct"
)]
unsafe fn own<'a, T: AttentionFloat>(
    [first, others]: &'a [SharedSlice<'_, T>; 2],
    heads: &Heads,
    [head, part]: [usize; 2],
    len: usize,
) -> &'a mut [T] {
    let len = heads.keys * len;
    // SAFETY: the caller guarantees exclusive use of these rows.
    unsafe {
        match part {
            0 => first.part(head * len, len),
            _ => others.part(((part - 1) * heads.n + head) * len, len),
        }
    }
}

/// Adds the partial sums to the cotangents of the first parts, in order.
fn join<T: AttentionFloat>([first, others]: [SharedSlice<'_, T>; 2]) {
    let len = first.len();
    let n = others.len().checked_div(len).unwrap_or(0);
    if n == 0 {
        return;
    }
    let nanos = (n * len * size_of::<T>()) / 16;
    threads::for_each(len.div_ceil(PIECE), nanos, |i| {
        let (start, len_here) = (i * PIECE, PIECE.min(len - i * PIECE));
        // SAFETY: each task has its own piece of `first`, and nothing writes `others` any more.
        unsafe {
            let out = first.part(start, len_here);
            for other in 0..n {
                block::add(out, others.part(other * len + start, len_here));
            }
        }
    });
}
