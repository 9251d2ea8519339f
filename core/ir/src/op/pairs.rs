//! Pairs of a query and a key, for the definitions of attention and its derivatives.

use super::logsumexp::log_sum_exp;
use super::nd_array::{Application, NdArray, dot, truth};

/// A query and a key that it sees, with their head.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) head: usize,
    pub(super) query: usize,
    pub(super) key: usize,
}

/// The operands of an attention, with its sizes.
pub(super) struct Pairs<'a> {
    args: &'a [NdArray],
    /// The mask, repeated for each query and key of each head.
    mask: Option<NdArray>,
    causal: bool,
    n_heads: usize,
    n_queries: usize,
    n_keys: usize,
}

impl<'a> Pairs<'a> {
    /// Returns the pairs of an op with `n_unmasked` operands before the optional mask.
    ///
    /// `args` are the operands without tangents and cotangents: queries, keys, maybe others, and
    /// the mask.
    pub(super) fn new(of: &Application<'a>, args: &'a [NdArray], n_unmasked: usize) -> Pairs<'a> {
        let (q, k) = (&args[0].shape, &args[1].shape);
        let rank = q.len();
        let scores = [&q[..rank - 1], &k[rank - 2..rank - 1]].concat();
        let mask = args.get(n_unmasked);
        Pairs {
            args,
            mask: mask.map(|mask| NdArray::build(&scores, |i| truth(mask.spread(&i) != 0.0))),
            causal: of.flag(0),
            n_heads: q[..rank - 2].iter().product(),
            n_queries: q[rank - 2],
            n_keys: k[rank - 2],
        }
    }

    /// Returns the head and the index of each query.
    pub(super) fn queries(&self) -> impl Iterator<Item = (usize, usize)> {
        let n_queries = self.n_queries;
        (0..self.n_heads).flat_map(move |head| (0..n_queries).map(move |query| (head, query)))
    }

    /// Returns the keys that a query sees.
    pub(super) fn seen(&self, (head, query): (usize, usize)) -> impl Iterator<Item = Pair> {
        let end = match self.causal {
            true => self.n_keys.min(query + 1),
            false => self.n_keys,
        };
        let sees = move |key: &usize| {
            let at = self.position(head, query) * self.n_keys + key;
            self.mask.as_ref().is_none_or(|mask| mask.data[at] != 0.0)
        };
        (0..end)
            .filter(sees)
            .map(move |key| Pair { head, query, key })
    }

    /// Returns the position of a query among those of all heads.
    pub(super) fn position(&self, head: usize, query: usize) -> usize {
        head * self.n_queries + query
    }

    /// Returns the row of an operand with one row per query.
    pub(super) fn of_query(&self, operand: usize, of: Pair) -> &'a [f64] {
        row(&self.args[operand], of.head, of.query)
    }

    /// Returns the row of an operand with one row per key.
    pub(super) fn of_key(&self, operand: usize, of: Pair) -> &'a [f64] {
        row(&self.args[operand], of.head, of.key)
    }

    pub(super) fn scale(&self) -> f64 {
        match self.args[0].shape[self.args[0].shape.len() - 1] {
            0 => 1.0,
            d => 1.0 / (d as f64).sqrt(),
        }
    }

    pub(super) fn score(&self, of: Pair) -> f64 {
        dot(self.of_query(0, of), self.of_key(1, of)) * self.scale()
    }

    /// Returns the logarithm of the sum of the exponentials of the scores of a query.
    pub(super) fn lse(&self, query: (usize, usize)) -> f64 {
        let scores: Vec<f64> = self.seen(query).map(|of| self.score(of)).collect();
        log_sum_exp(&scores)
    }

    /// Returns the weight of a key, from the log-sum-exp that is operand 4.
    pub(super) fn weight(&self, of: Pair) -> f64 {
        (self.score(of) - self.args[4].data[self.position(of.head, of.query)]).exp()
    }
}

/// Returns a row of the matrix of a head.
pub(super) fn row(x: &NdArray, head: usize, i: usize) -> &[f64] {
    let rank = x.shape.len();
    let (n, d) = (x.shape[rank - 2], x.shape[rank - 1]);
    &x.data[(head * n + i) * d..][..d]
}

/// Adds `factor` times `x` to a row of the matrix of a head.
pub(super) fn add(out: &mut NdArray, head: usize, i: usize, factor: f64, x: &[f64]) {
    let n = out.shape[out.shape.len() - 2];
    let row = &mut out.data[(head * n + i) * x.len()..][..x.len()];
    row.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}
