//! Sizes of an attention, its division into blocks, and the layout of its rows.

use crate::attention::block::{AttentionFloat, KEYS, MaskedBlock, QUERIES, SOME_KEYS};
use crate::attention::mask::Mask;
use crate::gemm::Matrix;
use crate::memory::layout::Layout;

/// Sizes of an attention: `n` heads, each with `queries` and `keys`.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub n: usize,
    pub queries: usize,
    pub keys: usize,
    /// Number of features of a query or a key.
    pub features: usize,
    /// Number of features of a value.
    pub of_values: usize,
    pub causal: bool,
}

impl Heads {
    pub(crate) fn scale(&self) -> f64 {
        match self.features {
            0 => 1.0,
            d => 1.0 / (d as f64).sqrt(),
        }
    }

    /// Returns the number of blocks of queries of a head.
    pub(crate) fn n_blocks(&self) -> usize {
        self.queries.div_ceil(QUERIES)
    }

    /// Returns the head, the first query and the number of queries of a task. The blocks that see
    /// the most keys come first.
    pub(crate) fn block_of(&self, task: usize) -> (usize, usize, usize) {
        let n_blocks = self.n_blocks();
        let i = (n_blocks - 1 - task % n_blocks) * QUERIES;
        (task / n_blocks, i, QUERIES.min(self.queries - i))
    }

    /// Returns the first query and the number of queries of each block in one of `n_parts` parts of
    /// a head.
    pub(crate) fn queries_of(
        &self,
        part: usize,
        n_parts: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let queries = self.queries;
        // The blocks alternate between parts, because later ones are more work under a causal mask.
        let blocks = (part..self.n_blocks()).step_by(n_parts);
        blocks.map(move |block| (block * QUERIES, QUERIES.min(queries - block * QUERIES)))
    }

    /// Returns the number of keys that the queries before `end` see.
    pub(crate) fn seen(&self, end: usize) -> usize {
        match self.causal {
            true => self.keys.min(end),
            false => self.keys,
        }
    }

    /// Returns the blocks of the keys that `n` queries from `i` on see, each with its first key.
    pub(crate) fn blocks(
        &self,
        mask: Option<Mask<'_>>,
        head: usize,
        [i, n]: [usize; 2],
    ) -> impl Iterator<Item = (usize, MaskedBlock)> {
        let (end, causal) = (self.seen(i + n), self.causal);
        // The keys that all queries see come first, then those that some do not see.
        let all = if causal { end.min(i) } else { end };
        let cut = |from: usize, to: usize, most: usize| {
            (from..to).step_by(most).map(move |j| (j, most.min(to - j)))
        };
        let keys = cut(0, all, KEYS).chain(cut(all, end, SOME_KEYS));
        keys.filter_map(move |(j, keys)| {
            let block = MaskedBlock::new([i, n], [j, keys], causal);
            let block = match mask {
                Some(mask) => mask.over(head, [i, j], block)?,
                None => block,
            };
            Some((j, block))
        })
    }

    /// Returns the estimated time on one thread of `a` products with features and `b` products with
    /// values.
    pub(crate) fn nanos<T: AttentionFloat>(&self, [a, b]: [usize; 2]) -> usize {
        let width = a * self.features + b * self.of_values + 16;
        let all = T::nanos([self.queries, width, self.keys]).saturating_mul(self.n);
        if self.causal { all / 2 } else { all }
    }
}

/// Layout of the rows of all heads. The elements of a row are contiguous or one repeated element.
#[derive(Clone, Debug)]
pub struct HeadRows {
    offset: usize,
    /// Length and stride of each batch axis.
    batch: Box<[(usize, usize)]>,
    stride: usize,
    /// Distance between the elements of a row: 1, or 0 if repeated.
    step: usize,
}

impl HeadRows {
    pub fn new(layout: &Layout) -> HeadRows {
        let rank = layout.shape.len();
        let lens = layout.shape[..rank - 2].iter().copied();
        HeadRows {
            offset: layout.offset,
            batch: lens.zip(layout.strides.iter().copied()).collect(),
            stride: layout.strides[rank - 2],
            step: match layout.shape[rank - 1] {
                0 | 1 => 1,
                _ => layout.strides[rank - 1].min(1),
            },
        }
    }

    /// Returns the rows of a head from `row` on.
    pub(crate) fn at(&self, mut head: usize, row: usize) -> Matrix {
        let mut offset = self.offset + row * self.stride;
        for &(len, stride) in self.batch.iter().rev() {
            offset += head % len * stride;
            head /= len;
        }
        Matrix {
            offset,
            rows: self.stride,
            cols: self.step,
        }
    }
}

/// Operands of both derivatives: queries, keys, values, the result, the log-sum-exp, and the mask.
pub(crate) struct DerivativeOperands<'a, T> {
    pub(crate) rows: &'a [HeadRows; 4],
    pub(crate) data: [&'a [T]; 4],
    pub(crate) lse: &'a [T],
    pub(crate) mask: Option<Mask<'a>>,
}

impl<'a, T> DerivativeOperands<'a, T> {
    pub(crate) fn q(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[0], self.rows[0].at(head, row))
    }

    pub(crate) fn k(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[1], self.rows[1].at(head, row))
    }

    pub(crate) fn v(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[2], self.rows[2].at(head, row))
    }

    pub(crate) fn o(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[3], self.rows[3].at(head, row))
    }

    /// Returns the log-sum-exp of `n` queries from `i` on.
    pub(crate) fn lse(&self, heads: &Heads, head: usize, i: usize, n: usize) -> &'a [T] {
        &self.lse[head * heads.queries + i..][..n]
    }
}
