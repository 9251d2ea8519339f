//! The result of attention, and the log-sum-exp of the scores.

use crate::attention::block;
use crate::attention::block::{AttentionFloat, ScoreTotals};
use crate::attention::heads::{HeadRows, Heads};
use crate::attention::mask::Mask;
use crate::memory::scratch::with_scratch;
use crate::threads::{self, SharedSlice};

/// The values with the layout of their rows, and the result.
pub(crate) type ValuesAndResult<'a, T> = ((&'a [T], &'a HeadRows), &'a mut [T]);

/// Writes the log-sum-exp of each query and, if there are values, the result.
pub(crate) fn run<T: AttentionFloat>(
    heads: &Heads,
    [(q, q_rows), (k, k_rows)]: [(&[T], &HeadRows); 2],
    mask: Option<Mask<'_>>,
    values: Option<ValuesAndResult<'_, T>>,
    lse: &mut [T],
) {
    let (values, out) = values.unzip();
    let (out, lse) = (out.map(SharedSlice::new), SharedSlice::new(lse));
    let e = if out.is_some() { heads.of_values } else { 0 };
    let scale = T::of(heads.scale());
    let nanos = heads.nanos::<T>([1, usize::from(out.is_some())]);
    threads::for_each(heads.n * heads.n_blocks(), nanos, |task| {
        let (head, i, n) = heads.block_of(task);
        let width = n.next_multiple_of(block::STEP);
        // SAFETY: each task has a block of queries of its own.
        let lse = unsafe { lse.part(head * heads.queries + i, n) };
        // SAFETY: each task has a block of queries of its own.
        let mut out = out
            .as_ref()
            .map(|out| unsafe { out.part((head * heads.queries + i) * e, n * e) });
        let lens = [
            heads.features * width,
            block::KEYS * width,
            width,
            width,
            width,
        ];
        with_scratch(lens, |[turned, scores, top, total, shrink]| {
            let mut totals = ScoreTotals { top, total, shrink };
            totals.reset();
            block::turn(
                (q, q_rows.at(head, i)),
                [n, heads.features, width],
                scale,
                turned,
            );
            let mut first = true;
            for (j, block) in heads.blocks(mask, head, [i, n]) {
                block.score(
                    (k, k_rows.at(head, j)),
                    turned,
                    heads.features,
                    scores,
                    false,
                );
                block.hide(scores, T::of(f64::NEG_INFINITY));
                block::exponentials(&block, scores, &mut totals);
                if let (Some((v, v_rows)), Some(out)) = (values, &mut out)
                    && e > 0
                {
                    let (before, others) = out.split_at_mut(block.from.min(n) * e);
                    match first {
                        true => before.fill(T::ZERO),
                        false => block::shrink(others, &totals.shrink[block.from..], e),
                    }
                    block.for_queries(scores, (v, v_rows.at(head, j)), e, out, !first);
                }
                first = false;
            }
            block::logarithms(&totals, lse);
            if let Some(out) = out
                && e > 0
            {
                if first {
                    out.fill(T::ZERO);
                    return;
                }
                // The row of a query that sees no key is 0, not 0 / 0.
                for (c, total) in totals.total[..n].iter_mut().enumerate() {
                    let any = |mask: Mask<'_>| mask.any(head, i + c, heads.seen(i + c + 1));
                    if *total == T::ZERO && !mask.is_none_or(any) {
                        *total = T::ONE;
                    }
                }
                block::divide(out, totals.total, e);
            }
        });
    });
}
