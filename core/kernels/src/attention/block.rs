//! A block of the matrix of weights: some keys by some queries.
//!
//! The rows of a block are keys, so the maximum and the sum of each query are computed for a vector
//! of queries at a time. The features of the queries, transposed once, are the right operand of all
//! products.

use crate::attention::mask;
use crate::attention::mask::VisibleKeys;
use crate::gemm;
use crate::gemm::{Batch, Gemm, Matrix};
use crate::memory::scratch::{Plain, with_scratch};
use crate::simd::lanes;
use crate::simd::leveled::leveled;
use crate::simd::number::Float;
use crate::simd::vector::{Floats, Vector};

/// Maximum number of queries of a block.
///
/// With [`KEYS`] keys, a block of `f32` takes 48 KiB; 96 keys are 8 whole tiles of a product.
pub(crate) const QUERIES: usize = 128;
pub(crate) const KEYS: usize = 96;
/// Maximum number of keys of a block in which the causal mask hides some scores.
///
/// The kernel computes all scores of a block, and about half of those of such a block are hidden.
pub(crate) const SOME_KEYS: usize = 48;
/// Alignment and granularity of the rows of a block, so that loops have no remainder.
pub(crate) const STEP: usize = 16;

/// Float type that attention is computed in.
pub(crate) trait AttentionFloat: Float + Gemm + Plain {
    /// Smallest finite number.
    const LOWEST: Self;
}

macro_rules! reals {
    ($($t:ident)*) => {$(
        impl AttentionFloat for $t {
            const LOWEST: Self = $t::MIN;
        }
    )*};
}

reals! { f32 f64 }

/// Queries or keys, one per row: the elements and their layout.
pub(crate) type MatrixSlice<'a, T> = (&'a [T], Matrix);

/// A block of scores: one row per key, one column per query. Rows are `width` elements apart.
#[derive(Clone, Debug)]
pub(crate) struct MaskedBlock {
    pub(crate) keys: usize,
    pub(crate) queries: usize,
    /// Number of queries, padded to whole vectors.
    pub(crate) width: usize,
    /// Queries before this one see none of the keys. A multiple of [`STEP`].
    pub(crate) from: usize,
    /// Causal mask: query `c` sees key `r` if `c >= r + skew`. `None` if each sees all.
    pub(crate) skew: Option<isize>,
    /// Mask tensor: which of these keys each query sees. `None` if it hides none.
    pub(crate) seen: Option<VisibleKeys>,
}

impl MaskedBlock {
    /// Creates the block of `keys` from `j` on and `queries` from `i` on.
    pub(crate) fn new(
        [i, queries]: [usize; 2],
        [j, keys]: [usize; 2],
        causal: bool,
    ) -> MaskedBlock {
        let unseen = if causal { j.saturating_sub(i) } else { 0 };
        let skew = j as isize - i as isize;
        MaskedBlock {
            keys,
            queries,
            width: queries.next_multiple_of(STEP),
            from: unseen - unseen % STEP,
            skew: Some(skew).filter(|skew| causal && skew + keys as isize > 1),
            seen: None,
        }
    }

    /// Returns the first query that sees key `r`, at least `from`.
    fn first(&self, r: usize) -> usize {
        let first = self.skew.map_or(0, |skew| skew + r as isize);
        (first.max(0) as usize).max(self.from)
    }

    /// Returns whether query `c` sees key `r`.
    fn sees(&self, c: usize, r: usize) -> bool {
        let seen = |seen: &VisibleKeys| seen[c / STEP][r] >> (c % STEP) & 1 == 1;
        c >= self.first(r) && self.seen.as_ref().is_none_or(seen)
    }

    /// Returns whether all queries from `from` on see all keys.
    fn is_full(&self) -> bool {
        self.skew.is_none() && self.seen.is_none()
    }

    /// Writes `value` where a query does not see a key.
    pub(crate) fn hide<T: AttentionFloat>(&self, block: &mut [T], value: T) {
        if let Some(seen) = &self.seen {
            mask::hide(block, self, seen, value);
        }
        if self.skew.is_none() {
            return;
        }
        for (r, row) in block
            .chunks_exact_mut(self.width)
            .take(self.keys)
            .enumerate()
        {
            let first = self.first(r).min(self.width);
            row[self.from..first].fill(value);
        }
    }

    /// Returns the layout of the block itself, with a row for each key.
    fn matrix(&self) -> Matrix {
        Matrix {
            offset: self.from,
            rows: self.width,
            cols: 1,
        }
    }

    /// Computes `block = x y`, or `block += x y` if `add`.
    ///
    /// `x` has a row for each key, and `y` a column for each query.
    pub(crate) fn score<T: AttentionFloat>(
        &self,
        (x, rows): MatrixSlice<'_, T>,
        y: &[T],
        features: usize,
        block: &mut [T],
        add: bool,
    ) {
        let mkn = [self.keys, features, self.width - self.from];
        product(
            mkn,
            (x, rows),
            (y, self.matrix()),
            (block, self.matrix()),
            add,
        );
    }

    /// Computes a row for each query: the sum of the rows `x` of the keys, weighted by `block`.
    ///
    /// Adds to `out` if `add`.
    pub(crate) fn for_queries<T: AttentionFloat>(
        &self,
        block: &[T],
        (x, rows): MatrixSlice<'_, T>,
        len: usize,
        out: &mut [T],
        add: bool,
    ) {
        let weights = Matrix {
            offset: self.from,
            rows: 1,
            cols: self.width,
        };
        let n = self.queries.saturating_sub(self.from);
        let to = Matrix {
            offset: self.from * len,
            rows: len,
            cols: 1,
        };
        let (mkn, weights, x, out) = ([n, self.keys, len], (block, weights), (x, rows), (out, to));
        match self.is_full() || finite(x, self.keys, len) {
            true => product(mkn, weights, x, out, add),
            false => {
                product_of_seen(mkn, weights, x, out, add, |c, r| {
                    self.sees(self.from + c, r)
                });
            }
        }
    }

    /// Adds a row for each key to `out`: the sum of the rows `x` of the queries, weighted by
    /// `block`.
    ///
    /// `x` starts with the first query of the block. `to` is the layout of `out`.
    pub(crate) fn for_keys<T: AttentionFloat>(
        &self,
        block: &[T],
        (x, rows): MatrixSlice<'_, T>,
        len: usize,
        out: &mut [T],
        to: Matrix,
    ) {
        let (weights, rows) = (self.matrix(), rows.below(self.from));
        let n = self.queries.saturating_sub(self.from);
        let (mkn, weights, x, out) = ([self.keys, n, len], (block, weights), (x, rows), (out, to));
        match self.is_full() || finite(x, n, len) {
            true => product(mkn, weights, x, out, true),
            false => {
                product_of_seen(mkn, weights, x, out, true, |r, c| {
                    self.sees(self.from + c, r)
                });
            }
        }
    }
}

/// Returns whether all elements of `n` rows of `len` are finite.
fn finite<T: AttentionFloat>((x, rows): MatrixSlice<'_, T>, n: usize, len: usize) -> bool {
    len == 0
        || (0..n).all(|r| {
            let row = &x[rows.below(r).offset..][..len];
            row.iter().all(|x| x.is_finite())
        })
}

/// As [`product`], with zeros for the rows of `b` that a row of `a` does not see.
///
/// Multiplying them by a weight of 0 would give NaN if they are infinite.
fn product_of_seen<T: AttentionFloat>(
    [m, k, n]: [usize; 3],
    (a, a_at): MatrixSlice<'_, T>,
    (b, b_at): MatrixSlice<'_, T>,
    (out, out_at): (&mut [T], Matrix),
    add: bool,
    sees: impl Fn(usize, usize) -> bool,
) {
    let whole = Matrix {
        offset: 0,
        rows: n,
        cols: 1,
    };
    with_scratch([k * n], |[seen]| {
        let mut i = 0;
        while i < m {
            // Adjacent rows that see the same keys.
            let alike = |other: &usize| (0..k).all(|r| sees(i, r) == sees(*other, r));
            let rows = 1 + (i + 1..m).take_while(alike).count();
            for (r, row) in seen.chunks_exact_mut(n).enumerate() {
                match sees(i, r) {
                    true => row.copy_from_slice(&b[b_at.below(r).offset..][..n]),
                    false => row.fill(T::ZERO),
                }
            }
            let (a_at, out_at) = (a_at.below(i), out_at.below(i));
            product([rows, k, n], (a, a_at), (seen, whole), (out, out_at), add);
            i += rows;
        }
    });
}

/// Computes `out = a b`, or `out += a b` if `add`, for any sizes, including 0.
fn product<T: AttentionFloat>(
    mkn: [usize; 3],
    (a, a_at): MatrixSlice<'_, T>,
    (b, b_at): MatrixSlice<'_, T>,
    (out, out_at): (&mut [T], Matrix),
    add: bool,
) {
    let [m, k, n] = mkn;
    if m == 0 || n == 0 || (k == 0 && add) {
        return;
    }
    if k == 0 {
        for i in 0..m {
            out[out_at.below(i).offset..][..n].fill(T::ZERO);
        }
        return;
    }
    let batch = Batch {
        mkn,
        a: a_at,
        b: b_at,
        out: out_at,
        axes: Vec::new(),
        summed: Vec::new(),
        single: false,
    };
    gemm::run(&batch, a, b, out, add, None);
}

/// Transposes `queries` rows of `len` elements, times `scale`, and pads each column of the result
/// to `width` with zeros.
pub(crate) fn turn<T: AttentionFloat>(
    (x, rows): MatrixSlice<'_, T>,
    [queries, len, width]: [usize; 3],
    scale: T,
    out: &mut [T],
) {
    if len == 0 {
        return;
    }
    gemm::copy([len, queries], x, rows.transposed(), out, width);
    if queries < width {
        for column in out.chunks_exact_mut(width) {
            column[queries..].fill(T::ZERO);
        }
    }
    if scale != T::ONE {
        multiply(out, scale);
    }
}

leveled! {
    fn multiply<A, T: AttentionFloat>(xs: &mut [T], y: T) {
        for x in xs {
            *x = x.times(y);
        }
    }
}

/// Running state of the online softmax, for each query of a block.
///
/// - `top`: greatest score so far.
/// - `total`: sum of the exponentials of the scores less `top`.
/// - `shrink`: factor by which the last keys have scaled the earlier sums.
pub(crate) struct ScoreTotals<'a, T> {
    pub(crate) top: &'a mut [T],
    pub(crate) total: &'a mut [T],
    pub(crate) shrink: &'a mut [T],
}

impl<T: AttentionFloat> ScoreTotals<'_, T> {
    pub(crate) fn reset(&mut self) {
        self.top.fill(T::of(f64::NEG_INFINITY));
        self.total.fill(T::ZERO);
    }
}

/// Replaces the scores of a block by exponentials, and sums them for each query.
///
/// The exponentials are of the scores less the greatest score of the query so far (Milakov,
/// Gimelshein: Online normalizer calculation for softmax, 2018).
pub(crate) fn exponentials<T: AttentionFloat>(
    block: &MaskedBlock,
    scores: &mut [T],
    totals: &mut ScoreTotals<'_, T>,
) {
    let scores = &mut scores[..block.keys * block.width];
    exponentials_of(scores, block, totals);
}

leveled! {
    fn exponentials_of<S, T: AttentionFloat>(scores: &mut [T], block: &MaskedBlock, totals: &mut ScoreTotals<'_, T>) {
        let n = <T::Floats<S> as Vector>::N;
        for c in (block.from..block.width).step_by(n) {
            column::<T, T::Floats<S>>(scores, block.width, c, totals);
        }
    }
}

/// Computes [`exponentials`] for a vector of queries from `c` on.
#[inline(always)]
fn column<T: AttentionFloat, V: Floats<T = T>>(
    scores: &mut [T],
    width: usize,
    c: usize,
    totals: &mut ScoreTotals<'_, T>,
) {
    let before = get::<V>(totals.top, c);
    // The maximum does not depend on the assignment of rows to the four accumulators.
    let mut most = [before; 4];
    for rows in scores.chunks(4 * width) {
        for (row, most) in rows.chunks_exact(width).zip(&mut most) {
            *most = get::<V>(row, c).most(*most);
        }
    }
    let top = most[0].most(most[1]).most(most[2].most(most[3]));
    // If all scores are -inf, the exponentials are 0.
    let shift = top.most(V::splat(T::LOWEST));
    let shrink = lanes::exp(before.minus(shift));
    let mut total = get::<V>(totals.total, c).times(shrink);
    for row in scores.chunks_exact_mut(width) {
        let weight = lanes::exp(get::<V>(row, c).minus(shift));
        put(weight, row, c);
        total = total.plus(weight);
    }
    put(top, totals.top, c);
    put(total, totals.total, c);
    put(shrink, totals.shrink, c);
}

/// Loads a vector of elements from `at` on.
#[inline(always)]
pub(crate) fn get<V: Vector>(xs: &[V::T], at: usize) -> V {
    let xs = &xs[at..at + V::N];
    // SAFETY: the slice has `V::N` elements.
    unsafe { V::load(xs.as_ptr()) }
}

#[inline(always)]
pub(crate) fn put<V: Vector>(x: V, to: &mut [V::T], at: usize) {
    let to = &mut to[at..at + V::N];
    // SAFETY: the slice has `V::N` elements.
    unsafe { x.store(to.as_mut_ptr()) }
}

leveled! {
    /// Writes the log-sum-exp of each query.
    pub(crate) fn logarithms<A, T: AttentionFloat>(totals: &ScoreTotals<'_, T>, out: &mut [T]) {
        for ((y, &total), &top) in out.iter_mut().zip(&*totals.total).zip(&*totals.top) {
            *y = top.plus(total.log::<A>());
        }
    }
}

leveled! {
    /// Multiplies each row of `len` elements by the factor of its query.
    pub(crate) fn shrink<A, T: AttentionFloat>(rows: &mut [T], factors: &[T], len: usize) {
        for (row, &factor) in rows.chunks_exact_mut(len).zip(factors) {
            // Most queries meet their greatest score early, and the factor is 1 afterwards.
            if factor != T::ONE {
                for x in row {
                    *x = x.times(factor);
                }
            }
        }
    }
}

leveled! {
    /// Divides each row of `len` elements by the sum of its query.
    pub(crate) fn divide<A, T: AttentionFloat>(rows: &mut [T], totals: &[T], len: usize) {
        for (row, &total) in rows.chunks_exact_mut(len).zip(totals) {
            let factor = total.recip();
            for x in row {
                *x = x.times(factor);
            }
        }
    }
}

/// Replaces the scores of a block by weights, from the log-sum-exp of each query.
pub(crate) fn weights<T: AttentionFloat>(block: &MaskedBlock, scores: &mut [T], lse: &[T]) {
    weights_of(&mut scores[..block.keys * block.width], block, lse);
    block.hide(scores, T::ZERO);
}

leveled! {
    fn weights_of<A, T: AttentionFloat>(scores: &mut [T], block: &MaskedBlock, lse: &[T]) {
        let (from, width) = (block.from, block.width);
        for row in scores.chunks_exact_mut(width) {
            for (x, &lse) in row[from..].iter_mut().zip(&lse[from..width]) {
                *x = x.minus(lse).exp::<A>();
            }
        }
    }
}

/// Computes `d = p (d - shift) scale`, with one `shift` per query.
pub(crate) fn pull_back<T: AttentionFloat>(
    block: &MaskedBlock,
    p: &[T],
    d: &mut [T],
    shift: &[T],
    scale: T,
) {
    pull_back_of(&mut d[..block.keys * block.width], p, block, shift, scale);
    block.hide(d, T::ZERO);
}

leveled! {
    fn pull_back_of<A, T: AttentionFloat>(d: &mut [T], p: &[T], block: &MaskedBlock, shift: &[T], scale: T) {
        let (from, width) = (block.from, block.width);
        for (d, p) in d.chunks_exact_mut(width).zip(p.chunks_exact(width)) {
            let ps = p[from..].iter().zip(&shift[from..width]);
            for (d, (&p, &shift)) in d[from..].iter_mut().zip(ps) {
                *d = d.minus(shift).times(p).times(scale);
            }
        }
    }
}

/// Computes `d = p d` and adds it to the total of each query.
pub(crate) fn push_forward<T: AttentionFloat>(
    block: &MaskedBlock,
    p: &[T],
    d: &mut [T],
    totals: &mut [T],
) {
    let d = &mut d[..block.keys * block.width];
    times(d, p, block);
    block.hide(d, T::ZERO);
    add_up(d, block, totals);
}

leveled! {
    fn times<A, T: AttentionFloat>(d: &mut [T], p: &[T], block: &MaskedBlock) {
        let (from, width) = (block.from, block.width);
        for (d, p) in d.chunks_exact_mut(width).zip(p.chunks_exact(width)) {
            for (d, &p) in d[from..].iter_mut().zip(&p[from..]) {
                *d = d.times(p);
            }
        }
    }
}

leveled! {
    fn add_up<A, T: AttentionFloat>(d: &[T], block: &MaskedBlock, totals: &mut [T]) {
        let (from, width) = (block.from, block.width);
        for d in d.chunks_exact(width) {
            for (total, &d) in totals[from..width].iter_mut().zip(&d[from..]) {
                *total = total.plus(d);
            }
        }
    }
}

/// Writes the dot products of corresponding rows of `len` elements. `some` is scratch for a row.
pub(crate) fn dots<T: AttentionFloat>(
    x: MatrixSlice<'_, T>,
    y: MatrixSlice<'_, T>,
    len: usize,
    some: &mut [T],
    out: &mut [T],
) {
    if len == 0 {
        return out.fill(T::ZERO);
    }
    for (i, out) in out.iter_mut().enumerate() {
        let [x, y] = [x, y].map(|(x, rows)| &x[rows.below(i).offset..][..len]);
        dot(x, y, some, out);
    }
}

leveled! {
    fn dot<A, T: AttentionFloat>(x: &[T], y: &[T], some: &mut [T], out: &mut T) {
        let some = &mut some[..x.len()];
        for ((z, &x), &y) in some.iter_mut().zip(x).zip(y) {
            *z = x.times(y);
        }
        *out = lanes::sum::<A, T>(some);
    }
}

leveled! {
    /// `out -= factor x`
    pub(crate) fn take_off<A, T: AttentionFloat>(out: &mut [T], x: &[T], factor: T) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = out.minus(x.times(factor));
        }
    }
}

leveled! {
    /// `out += x`
    pub(crate) fn add<A, T: AttentionFloat>(out: &mut [T], x: &[T]) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = out.plus(x);
        }
    }
}
