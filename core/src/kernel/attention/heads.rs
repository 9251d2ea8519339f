//! How many heads there are, how they are cut into blocks, and where their rows lie.

use super::block::{Block, KEYS, QUERIES, Real, SOME_KEYS};
use super::mask::Mask;
use crate::kernel::gemm::Matrix;
use crate::layout::Layout;

/// The sizes of an attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) n: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// Of a query and a key.
    pub(super) features: usize,
    /// Of a value.
    pub(super) of_values: usize,
    pub(super) causal: bool,
}

impl Heads {
    pub(super) fn scale(&self) -> f64 {
        match self.features {
            0 => 1.0,
            d => 1.0 / (d as f64).sqrt(),
        }
    }

    /// The number of blocks of queries of a head.
    pub(super) fn n_blocks(&self) -> usize {
        self.queries.div_ceil(QUERIES)
    }

    /// The head, the first query and the number of queries of a block. Those that see most come first.
    pub(super) fn block_of(&self, task: usize) -> (usize, usize, usize) {
        let n_blocks = self.n_blocks();
        let i = (n_blocks - 1 - task % n_blocks) * QUERIES;
        (task / n_blocks, i, QUERIES.min(self.queries - i))
    }

    /// The first query and the number of queries of each block in one of so many parts of a head.
    pub(super) fn queries_of(
        &self,
        part: usize,
        n_parts: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let queries = self.queries;
        // In turns: of causal attention, later blocks are more work.
        let blocks = (part..self.n_blocks()).step_by(n_parts);
        blocks.map(move |block| (block * QUERIES, QUERIES.min(queries - block * QUERIES)))
    }

    /// How many keys the queries before `end` see together.
    pub(super) fn seen(&self, end: usize) -> usize {
        match self.causal {
            true => self.keys.min(end),
            false => self.keys,
        }
    }

    /// The blocks of the keys that `n` queries from `i` on see, each with its first key.
    pub(super) fn blocks(
        &self,
        mask: Option<Mask<'_>>,
        head: usize,
        [i, n]: [usize; 2],
    ) -> impl Iterator<Item = (usize, Block)> {
        let (end, causal) = (self.seen(i + n), self.causal);
        // The keys that all queries see, and those that some do not.
        let all = if causal { end.min(i) } else { end };
        let cut = |from: usize, to: usize, most: usize| {
            (from..to).step_by(most).map(move |j| (j, most.min(to - j)))
        };
        let keys = cut(0, all, KEYS).chain(cut(all, end, SOME_KEYS));
        keys.filter_map(move |(j, keys)| {
            let block = Block::new([i, n], [j, keys], causal);
            let block = match mask {
                Some(mask) => mask.over(head, [i, j], block)?,
                None => block,
            };
            Some((j, block))
        })
    }

    /// About how long one thread takes for so many products with features and with values.
    pub(super) fn nanos<T: Real>(&self, [a, b]: [usize; 2]) -> usize {
        let width = a * self.features + b * self.of_values + 16;
        let all = T::nanos([self.queries, width, self.keys]).saturating_mul(self.n);
        if self.causal { all / 2 } else { all }
    }
}

/// Where the rows of all heads lie; the elements of a row lie side by side, or are one that is repeated.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    offset: usize,
    /// The length and the stride of each axis of the batch.
    batch: Box<[(usize, usize)]>,
    stride: usize,
    /// From an element to the next.
    step: usize,
}

impl Rows {
    pub(super) fn new(layout: &Layout) -> Rows {
        let rank = layout.shape.len();
        let lens = layout.shape[..rank - 2].iter().copied();
        Rows {
            offset: layout.offset,
            batch: lens.zip(layout.strides.iter().copied()).collect(),
            stride: layout.strides[rank - 2],
            step: match layout.shape[rank - 1] {
                0 | 1 => 1,
                _ => layout.strides[rank - 1].min(1),
            },
        }
    }

    /// The rows of a head from the one of number `row` on.
    pub(super) fn at(&self, mut head: usize, row: usize) -> Matrix {
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

/// What derivatives are given: queries, keys, values, the result and the logarithms of the sums of exponentials, and a mask.
pub(super) struct Given<'a, T> {
    pub(super) rows: &'a [Rows; 4],
    pub(super) data: [&'a [T]; 4],
    pub(super) lse: &'a [T],
    pub(super) mask: Option<Mask<'a>>,
}

impl<'a, T> Given<'a, T> {
    pub(super) fn q(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[0], self.rows[0].at(head, row))
    }

    pub(super) fn k(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[1], self.rows[1].at(head, row))
    }

    pub(super) fn v(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[2], self.rows[2].at(head, row))
    }

    pub(super) fn o(&self, head: usize, row: usize) -> (&'a [T], Matrix) {
        (self.data[3], self.rows[3].at(head, row))
    }

    /// The numbers of `n` queries from `i` on.
    pub(super) fn lse(&self, heads: &Heads, head: usize, i: usize, n: usize) -> &'a [T] {
        &self.lse[head * heads.queries + i..][..n]
    }
}
