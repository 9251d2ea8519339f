use super::attention_jvp::{Attention, Sees, matmul, weights};
use super::nd_array::{Application, NdArray};
use super::pairs;
use super::pairs::Pairs;
use super::{
    AxesRule, Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, lanes,
    shape,
};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, StaticKind, Var};

methods! { attention {
    /// `softmax(q k^T / sqrt(d)) v`: for each query, a weighted mean of the values.
    ///
    /// Values weigh more the better their keys match the query.
    ///
    /// `self` are the queries `[.., n, d]`; keys are `[.., m, d]` and values `[.., m, e]`. The
    /// result has the shape `[.., n, e]`. All have the same float dtype and the same axes before
    /// the last two; [`Tensor::broadcast_to`] repeats what several heads share. See Vaswani et al.:
    /// Attention Is All You Need, 2017.
    ///
    /// The weights `[.., n, m]` are never materialised, neither here nor in the first derivative; a
    /// second derivative materialises them. For another scale, multiply the queries by that scale
    /// times `sqrt(d)`. Without keys, the result is 0. [`Tensor::masked_attention`] excludes keys.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let queries = Tensor::from([[0.0f32, 0.0]]);
    /// let keys = Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0]]);
    /// assert_eq!(queries.attention(&keys, &values).to_vec::<f32>(), [3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shapes do not match, or the dtypes differ or are not floats.
    fn attention(queries: Data, keys: Data, values: Data, causal: Switch(false));

    /// [`Tensor::attention`] in which query `i` sees only the keys `0..=i`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32], [0.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0]]);
    /// assert_eq!(x.causal_attention(&x, &values).to_vec::<f32>(), [2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::attention`].
    fn causal_attention(queries: Data, keys: Data, values: Data, causal: Switch(true));

    /// [`Tensor::attention`] in which a query sees only the keys where `mask` is true.
    ///
    /// For a query that sees no key, the result and all its derivatives are 0.
    ///
    /// The mask has dtype `bool` and broadcasts to `[.., n, m]`, for queries `[.., n, d]` and keys
    /// `[.., m, d]`. For queries of `[batch, heads, n, d]`, for example:
    ///
    /// - `[batch, 1, 1, m]` excludes the padding keys of each sequence.
    /// - `[n, m]`, such as a sliding window, is the same for all sequences and heads.
    /// - `[batch, heads, n, m]` gives each head its own mask.
    ///
    /// The mask is not copied along repeated axes. Blocks of queries and keys in which no key is
    /// seen are skipped.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32], [0.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0]]);
    /// let mask = Tensor::from([[true, true], [false, true]]);
    /// assert_eq!(x.masked_attention(&x, &values, &mask).to_vec::<f32>(), [3.0, 4.0]);
    ///
    /// // Both queries see the first key only.
    /// let padding = Tensor::from([true, false]);
    /// assert_eq!(x.masked_attention(&x, &values, padding).to_vec::<f32>(), [2.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::attention`], and if the mask is not `bool` or does not broadcast to
    /// `[.., n, m]`.
    fn masked_attention(queries: Data, keys: Data, values: Data, mask: Data, causal: Switch(false));

    /// [`Tensor::masked_attention`] that also hides all keys after `i` from query `i`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[0.0f32], [0.0], [0.0]]);
    /// let values = Tensor::from([[2.0f32], [4.0], [6.0]]);
    /// let mask = Tensor::from([false, true, true]);
    /// assert_eq!(x.masked_causal_attention(&x, &values, mask).to_vec::<f32>(), [0.0, 4.0, 5.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::masked_attention`].
    fn masked_causal_attention(queries: Data, keys: Data, values: Data, mask: Data, causal: Switch(true));
} }

const AXES: AxesRule = AxesRule {
    signature: |of| axes::heads(of, 3),
    batch: |b, of| lanes::heads(b, of, 3),
};

/// `attention[causal] q, k, v, mask`: `softmax(q k^T / sqrt(d)) v`.
///
/// The queries `q` have shape `[.., n, d]`, the keys `k` `[.., m, d]` and the values `v` `[.., m,
/// e]`, with equal leading axes (Vaswani et al.: Attention Is All You Need, 2017).
///
/// - With `causal`, query `i` sees only the keys 0 to `i`.
/// - The optional bool `mask` broadcasts to `[.., n, m]`. A query sees only the keys where it is
///   true.
/// - A query that sees no key has result 0.
/// - Queries without features (`d = 0`) weigh all keys equally.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "attention",
    operands: Operands::Between(3, 4),
    statics: &[StaticKind::KnownFlag.named("causal")],
    shape: |_, args| {
        let heads = Heads::of(&args[..3], args.get(3).copied())?;
        Ok(heads.map_or(Shape::UNKNOWN, |heads| heads.mixed()))
    },
    dtype: |_, args| floats(args, (args.len() > 3).then_some(3)),
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (causal, o) = (eqn.attrs[0], eqn.out());
        let [q, k, v] = [eqn.args[0], eqn.args[1], eqn.args[2]];
        let mask = eqn.args.get(3).copied();
        let scored: Vec<Var> = [q, k].into_iter().chain(mask).collect();
        let lse = b.emit(Op::AttentionLse, &[causal], &scored);
        let of = Attention {
            of: [q, k, v, o, lse],
            sees: Sees { causal, mask },
        };
        of.tangent(b, [dx[0], dx[1], dx[2]])
    }),
    kernel: Kernel::Attention,
    count: Count::Attention {
        products: [1, 1],
        pair: Ops::new(4, 1),
    },
    facts: OpFacts::composite(AXES, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(q: f64[2, 3], k: f64[4, 3], v: f64[4, 2]) { o = attention[causal=false] q, k, v return o }",
            "(q: f64[4, 3], k: f64[4, 3], v: f64[4, 2]) { o = attention[causal=true] q, k, v return o }",
            "(q: f64[2, 2, 3, 2], k: f64[2, 2, 2, 2], v: f64[2, 2, 2, 3]) { o = attention[causal=true] q, k, v return o }",
            "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 2]) { o = attention[causal=true] q, k, v return o }",
            "(x: f64[2, 3, 2]) { o = attention[causal=false] x, x, x return o }",
            "(q: f64[2, 0], k: f64[3, 0], v: f64[3, 2]) { o = attention[causal=false] q, k, v return o }",
            "(q: f64[2, 2], k: f64[0, 2], v: f64[0, 3]) { o = attention[causal=false] q, k, v return o }",
            "(q: f64[0, 2], k: f64[2, 2], v: f64[2, 0]) { o = attention[causal=true] q, k, v return o }",
            "(q: f64[3, 2], k: f64[4, 2], v: f64[4, 2], mask: bool[3, 4]) { o = attention[causal=false] q, k, v, mask return o }",
            "(q: f64[2, 3, 2], k: f64[2, 3, 2], v: f64[2, 3, 1], mask: bool[2, 1, 3]) { o = attention[causal=true] q, k, v, mask return o }",
            "(q: f64[2, 2, 2], k: f64[2, 3, 2], v: f64[2, 3, 1], mask: bool[2, 1]) { o = attention[causal=false] q, k, v, mask return o }",
            "(q: f64[2, 2], k: f64[2, 2], v: f64[2, 1], mask: bool[]) { o = attention[causal=true] q, k, v, mask return o }",
            "(q: f64[2, 2], k: f64[0, 2], v: f64[0, 3], mask: bool[1]) { o = attention[causal=false] q, k, v, mask return o }",
        ],
    ),
};

/// The dims of queries, keys and values.
pub(super) struct Heads {
    batch: Vec<Dim>,
    queries: Dim,
    values: Dim,
}

impl Heads {
    /// Checks the shapes of queries, keys, values (if given) and the optional mask.
    ///
    /// Returns `None` if the ranks are unknown.
    pub(super) fn of(args: &[&Aval], mask: Option<&Aval>) -> Result<Option<Heads>, Fault> {
        let named = ["the queries", "the keys", "the values"]
            .into_iter()
            .zip(args);
        let known: Vec<(&str, &[Dim])> = named
            .filter_map(|(name, aval)| Some((name, aval.shape.dims()?)))
            .collect();
        let Some(&(first, dims)) = known.first() else {
            return Ok(None);
        };
        let rank = dims.len();
        let mut batch = vec![(Dim::Unknown, first); rank.saturating_sub(2)];
        for &(name, dims) in &known {
            if dims.len() < 2 {
                return Err(Fault::Rank {
                    found: dims.len(),
                    expected: format!("at least 2 for {name}"),
                });
            }
            if dims.len() != rank {
                return Err(Fault::Rank {
                    found: dims.len(),
                    expected: format!("{rank} for {name}, as for {first}"),
                });
            }
            for (axis, ((dim, of), own)) in batch.iter_mut().zip(dims).enumerate() {
                agree(&format!("axis {axis} of {name}"), *own, *dim, of)?;
                if *dim == Dim::Unknown {
                    *of = name;
                }
                *dim = dim.meet(*own);
            }
        }
        let ends = |i: usize| match args.get(i).and_then(|aval| aval.shape.dims()) {
            Some(dims) => [dims[rank - 2], dims[rank - 1]],
            None => [Dim::Unknown; 2],
        };
        let [[queries, features], [keys, of_keys], [n_values, values]] = [0, 1, 2].map(ends);
        agree(
            "the last axis of the keys",
            of_keys,
            features,
            "the queries",
        )?;
        agree(
            "the last axis but one of the values",
            n_values,
            keys,
            "the keys",
        )?;
        if let Some(mask) = mask.and_then(|mask| mask.shape.dims()) {
            let ends = [(queries, "the queries"), (keys.meet(n_values), "the keys")];
            fits(mask, &[&batch[..], &ends].concat())?;
        }
        // Derivatives of a higher order materialise a weight for each query and key.
        let pairs = [queries, keys.meet(n_values)];
        let weights = batch.iter().map(|(dim, _)| *dim).chain(pairs);
        shape::check_size(&Shape(Some(weights.collect())))?;
        Ok(Some(Heads {
            batch: batch.into_iter().map(|(dim, _)| dim).collect(),
            queries,
            values,
        }))
    }

    /// Returns the shape of the result, which has a vector of values for each query.
    pub(super) fn mixed(&self) -> Shape {
        self.with(&[self.queries, self.values])
    }

    /// Returns the shape of one number for each query.
    pub(super) fn one_each(&self) -> Shape {
        self.with(&[self.queries])
    }

    fn with(&self, last: &[Dim]) -> Shape {
        Shape::from([&self.batch, last].concat())
    }
}

/// Checks that a mask broadcasts to given lengths. Each length comes with the name of its origin.
fn fits(mask: &[Dim], to: &[(Dim, &str)]) -> Result<(), Fault> {
    let Some(skipped) = to.len().checked_sub(mask.len()) else {
        return Err(Fault::Rank {
            found: mask.len(),
            expected: format!("at most {} for the mask", to.len()),
        });
    };
    for (axis, (own, (len, of))) in mask.iter().zip(&to[skipped..]).enumerate() {
        if own.differs(Dim::Known(1)) && own.differs(*len) {
            let axis = match mask.len() - axis {
                1 => "the last axis".to_owned(),
                2 => "the last axis but one".to_owned(),
                _ => format!("axis {axis}"),
            };
            return Err(Fault::Length {
                what: format!("{axis} of the mask"),
                found: own.to_string(),
                expected: match *len {
                    Dim::Known(1) => format!("1, as for {of}"),
                    len => format!("1 or {len}, as for {of}"),
                },
            });
        }
    }
    Ok(())
}

/// Returns the common dtype of all operands except the mask, whose index is given if there is one.
pub(super) fn floats(args: &[&Aval], mask: Option<usize>) -> Result<Option<DType>, Fault> {
    let Some(mask) = mask else {
        return shape::same_floats(args);
    };
    if let Some(found) = args[mask].dtype.filter(|dtype| *dtype != DType::Bool) {
        return Err(Fault::DType {
            found,
            expected: "bool for the mask",
        });
    }
    shape::same_floats(&[&args[..mask], &args[mask + 1..]].concat())
}

/// Checks that the length of `what` is that of `of`.
fn agree(what: &str, found: Dim, expected: Dim, of: &str) -> Result<(), Fault> {
    match found.differs(expected) {
        false => Ok(()),
        true => Err(Fault::Length {
            what: what.to_owned(),
            found: found.to_string(),
            expected: format!("{expected}, as for {of}"),
        }),
    }
}

/// The weights of the keys, which `attention_lse` normalises, times the values.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (q, k, v) = (eqn.args[0], eqn.args[1], eqn.args[2]);
    let mask = eqn.args.get(3).copied();
    let scored: Vec<Var> = [q, k].into_iter().chain(mask).collect();
    let l = b.emit(Op::AttentionLse, &eqn.attrs, &scored);
    let sees = Sees {
        causal: eqn.attrs[0],
        mask,
    };
    let p = weights(b, [q, k, l], sees);
    Some(vec![matmul(b, p, v)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let pairs = Pairs::new(of, of.args, 3);
    let mut out = NdArray::zeros(of.out());
    for query in pairs.queries() {
        let lse = pairs.lse(query);
        for pair in pairs.seen(query) {
            let weight = (pairs.score(pair) - lse).exp();
            pairs::add(&mut out, query.0, query.1, weight, pairs.of_key(2, pair));
        }
    }
    out
}
