//! Mask tensors: bools that say which keys a query sees.

use crate::attention::block::{AttentionFloat, KEYS, MaskedBlock, QUERIES, STEP, get, put};
use crate::attention::heads::HeadRows;
use crate::simd::leveled::leveled;
use crate::simd::vector::Vector;

/// Bits of a block: for each [`STEP`] queries and each key, one bit per query that sees the key.
pub(crate) type VisibleKeys = [[u16; KEYS]; QUERIES / STEP];

const _: () = assert!(STEP == u16::BITS as usize);

/// A mask tensor with a row for each query. Queries may share a row, and a row may be one bool for
/// all keys.
#[derive(Clone, Copy)]
pub(crate) struct Mask<'a> {
    pub(crate) data: &'a [bool],
    pub(crate) rows: &'a HeadRows,
}

impl Mask<'_> {
    /// Returns the block at query `i` and key `j` of a head with this mask applied.
    ///
    /// Trailing keys that no query sees are dropped. Returns `None` if no query sees any key.
    pub(crate) fn over(
        &self,
        head: usize,
        [i, j]: [usize; 2],
        block: MaskedBlock,
    ) -> Option<MaskedBlock> {
        let mut seen: VisibleKeys = [[0; KEYS]; QUERIES / STEP];
        let n_steps = block.queries.div_ceil(STEP);
        // A row that all queries share is read once.
        let shared = self.rows.at(head, i).rows == 0;
        for (step, seen) in seen.iter_mut().take(n_steps).enumerate() {
            let first = step * STEP;
            let n = if shared {
                1
            } else {
                STEP.min(block.queries - first)
            };
            let seen = &mut seen[..block.keys];
            for bit in 0..n {
                match self.row(head, i + first + bit, j, block.keys) {
                    [sees] => seen.iter_mut().for_each(|s| *s |= u16::from(*sees) << bit),
                    row => mark(seen, row, bit),
                }
            }
            // Padding queries, and queries that share the row, get the bits of the last query read.
            let last = n - 1;
            for seen in seen.iter_mut() {
                *seen |= (0u16.wrapping_sub(*seen >> last & 1)) << last;
            }
        }
        let mut steps = seen[..n_steps].iter();
        let last = |seen: &[u16; KEYS]| seen[..block.keys].iter().rposition(|s| *s != 0);
        let keys = steps.clone().filter_map(last).max()? + 1;
        let full = steps.all(|seen| seen[..keys].iter().all(|s| *s == u16::MAX));
        let seen = (!full).then_some(seen);
        Some(MaskedBlock {
            keys,
            seen,
            ..block
        })
    }

    /// Returns whether a query sees any of the keys before `end`.
    pub(crate) fn any(&self, head: usize, query: usize, end: usize) -> bool {
        end > 0 && self.row(head, query, 0, end).contains(&true)
    }

    /// Returns the bools of a query for `n` keys from `j` on, or a single one for all keys.
    fn row(&self, head: usize, query: usize, j: usize, n: usize) -> &[bool] {
        let at = self.rows.at(head, query);
        match at.cols {
            0 => &self.data[at.offset..][..1],
            _ => &self.data[at.offset + j..][..n],
        }
    }
}

/// Sets bit `bit` for the keys that the query sees.
#[inline(always)]
fn mark(seen: &mut [u16], row: &[bool], bit: usize) {
    for (seen, sees) in seen.iter_mut().zip(row) {
        *seen |= u16::from(*sees) << bit;
    }
}

/// Writes `value` where a query does not see a key.
pub(crate) fn hide<T: AttentionFloat>(
    block: &mut [T],
    of: &MaskedBlock,
    seen: &VisibleKeys,
    value: T,
) {
    hide_in(&mut block[..of.keys * of.width], of, seen, value);
}

leveled! {
    fn hide_in<S, T: AttentionFloat>(block: &mut [T], of: &MaskedBlock, seen: &VisibleKeys, value: T) {
        let n = <T::Floats<S> as Vector>::N;
        let hidden = <T::Floats<S> as Vector>::splat(value);
        for (r, row) in block.chunks_exact_mut(of.width).enumerate() {
            for c in (of.from..of.width).step_by(n) {
                let x: T::Floats<S> = get(row, c);
                put(x.choose(seen[c / STEP][r] >> (c % STEP), hidden), row, c);
            }
        }
    }
}
