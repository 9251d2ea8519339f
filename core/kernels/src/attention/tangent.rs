//! Jacobian of attention, applied to tangents.

use crate::attention::block;
use crate::attention::block::AttentionFloat;
use crate::attention::heads::{DerivativeOperands, HeadRows, Heads};
use crate::memory::scratch::with_scratch;
use crate::threads::{self, SharedSlice};

/// Writes the tangent of the result. `dx` are the active tangents of queries, keys and values.
pub(crate) fn run<T: AttentionFloat>(
    heads: &Heads,
    of: &DerivativeOperands<'_, T>,
    dx: [Option<(&[T], &HeadRows)>; 3],
    out: &mut [T],
) {
    let [dq, dk, dv] = dx;
    let (d, e) = (heads.features, heads.of_values);
    if e == 0 {
        return;
    }
    let scale = T::of(heads.scale());
    let out = SharedSlice::new(out);
    let scores = dq.is_some() || dk.is_some();
    threads::for_each(
        heads.n * heads.n_blocks(),
        heads.nanos::<T>([3, 2]),
        |task| {
            let (head, i, n) = heads.block_of(task);
            let width = n.next_multiple_of(block::STEP);
            // SAFETY: each task has a block of queries of its own.
            let out = unsafe { out.part((head * heads.queries + i) * e, n * e) };
            let square = block::KEYS * width;
            let lens = [d * width, d * width, square, square, width, width];
            with_scratch(lens, |[turned, d_turned, p, w, totals, lse]| {
                out.fill(T::ZERO);
                totals.fill(T::ZERO);
                lse.fill(T::ZERO);
                lse[..n].copy_from_slice(of.lse(heads, head, i, n));
                block::turn(of.q(head, i), [n, d, width], scale, turned);
                if let Some((dq, rows)) = dq {
                    block::turn((dq, rows.at(head, i)), [n, d, width], scale, d_turned);
                }
                for (j, block) in heads.blocks(of.mask, head, [i, n]) {
                    block.score(of.k(head, j), turned, d, p, false);
                    block::weights(&block, p, lse);
                    if scores {
                        if dq.is_some() {
                            block.score(of.k(head, j), d_turned, d, w, false);
                        }
                        if let Some((dk, rows)) = dk {
                            block.score((dk, rows.at(head, j)), turned, d, w, dq.is_some());
                        }
                        block::push_forward(&block, p, w, totals);
                        block.for_queries(w, of.v(head, j), e, out, true);
                    }
                    if let Some((dv, rows)) = dv {
                        block.for_queries(p, (dv, rows.at(head, j)), e, out, true);
                    }
                }
                if scores {
                    for (c, out) in out.chunks_exact_mut(e).enumerate() {
                        let (o, at) = of.o(head, i + c);
                        block::take_off(out, &o[at.offset..][..e], totals[c]);
                    }
                }
            });
        },
    );
}
