//! The definitions of attention and its derivatives, a query and a key at a time, and what no case of the op table shows.

use super::Nd;
use super::naive::log_sum_exp;
use gradloom_ir::{Op, Static};

/// A query and a key that it sees: the head and the places in it.
#[derive(Clone, Copy)]
struct Pair {
    head: usize,
    i: usize,
    j: usize,
}

/// Queries, keys and what else there is, with the sizes.
struct Heads<'a> {
    args: &'a [Nd],
    causal: bool,
    n: usize,
    queries: usize,
    keys: usize,
}

impl Heads<'_> {
    /// A row of an operand.
    fn row(&self, arg: usize, head: usize, i: usize) -> &[f64] {
        let shape = &self.args[arg].shape;
        let [n, d] = [2, 1].map(|from_end| shape[shape.len() - from_end]);
        &self.args[arg].data[(head * n + i) * d..][..d]
    }

    fn scale(&self) -> f64 {
        let d = *self.args[0].shape.last().unwrap();
        if d == 0 { 1.0 } else { 1.0 / (d as f64).sqrt() }
    }

    fn score(&self, of: Pair) -> f64 {
        let [q, k] = [self.row(0, of.head, of.i), self.row(1, of.head, of.j)];
        dot(q, k) * self.scale()
    }

    fn pairs_of(&self, head: usize, i: usize) -> impl Iterator<Item = Pair> {
        let seen = if self.causal {
            self.keys.min(i + 1)
        } else {
            self.keys
        };
        (0..seen).map(move |j| Pair { head, i, j })
    }

    fn lse(&self, head: usize, i: usize) -> f64 {
        let scores: Vec<f64> = self.pairs_of(head, i).map(|of| self.score(of)).collect();
        log_sum_exp(&scores)
    }

    /// The weight of a key by the logarithms that are given.
    fn weight(&self, of: Pair) -> f64 {
        (self.score(of) - self.args[4].data[of.head * self.queries + of.i]).exp()
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Adds `x` times a number to a row of a matrix.
fn add(out: &mut Nd, head: usize, i: usize, factor: f64, x: &[f64]) {
    let (n, d) = (out.shape[out.shape.len() - 2], x.len());
    let row = &mut out.data[(head * n + i) * d..][..d];
    row.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

pub(super) fn eval(op: Op, statics: &[Static], args: &[Nd], outs: &[Vec<usize>]) -> Vec<Nd> {
    let [q, k] = [&args[0].shape, &args[1].shape];
    let rank = q.len();
    let of = Heads {
        args,
        causal: statics[0].bool().unwrap(),
        n: q[..rank - 2].iter().product(),
        queries: q[rank - 2],
        keys: k[rank - 2],
    };
    let mut outs: Vec<Nd> = outs.iter().map(|shape| Nd::zeros(shape)).collect();
    let active = statics.get(1).map_or(&[][..], |s| s.ints().unwrap());
    for (head, i) in (0..of.n).flat_map(|h| (0..of.queries).map(move |i| (h, i))) {
        let lse = of.lse(head, i);
        if op == Op::AttentionLse {
            outs[0].data[head * of.queries + i] = lse;
            continue;
        }
        let mut along_o = 0.0;
        for pair in of.pairs_of(head, i) {
            let j = pair.j;
            let (q, k, v) = (of.row(0, head, i), of.row(1, head, j), of.row(2, head, j));
            if op == Op::Attention {
                add(&mut outs[0], head, i, (of.score(pair) - lse).exp(), v);
                continue;
            }
            let p = of.weight(pair);
            let o = of.row(3, head, i);
            if op == Op::AttentionVjp {
                let ct = of.row(5, head, i);
                let ds = p * (dot(ct, v) - dot(ct, o)) * of.scale();
                for (out, which) in outs.iter_mut().zip(active) {
                    match which {
                        0 => add(out, head, i, ds, k),
                        1 => add(out, head, j, ds, q),
                        _ => add(out, head, j, p, ct),
                    }
                }
                continue;
            }
            for (at, which) in active.iter().enumerate() {
                let (dq, dk) = match which {
                    0 => (of.row(5 + at, head, i), k),
                    1 => (q, of.row(5 + at, head, j)),
                    _ => {
                        add(&mut outs[0], head, i, p, of.row(5 + at, head, j));
                        continue;
                    }
                };
                let w = p * dot(dq, dk) * of.scale();
                add(&mut outs[0], head, i, w, v);
                along_o += w;
            }
        }
        if op == Op::AttentionJvp {
            add(&mut outs[0], head, i, -along_o, of.row(3, head, i));
        }
    }
    outs
}
