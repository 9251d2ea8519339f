use crate::{Layer, Linear};
use gradloom::prelude::*;

/// Attention of several heads, between an input and itself or a memory.
///
/// The heads of keys and values may be fewer than those of queries, which then share them (Ainslie et al.: GQA,
/// 2023). Vaswani et al.: Attention Is All You Need, 2017.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::MultiHeadAttention;
///
/// let layer = MultiHeadAttention::new(Key::new(0), 16, 4);
/// let x = Tensor::ones([2, 5, 16], DType::F32);
/// assert_eq!(layer.attend(&x, None).shape(), [2, 5, 16]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadAttention {
    /// From the input to the queries of all heads.
    pub query: Linear,
    /// From the memory to the keys of all heads.
    pub key: Linear,
    /// From the memory to the values of all heads.
    pub value: Linear,
    /// From the results of all heads to the output.
    pub output: Linear,
    /// Number of heads of queries.
    #[tree(skip)]
    pub heads: usize,
    /// Number of heads of keys and values, which divides that of queries.
    #[tree(skip)]
    pub key_heads: usize,
    /// Base of the frequencies of rotary positions, if there are any: pairs `i` and `i + d / 2` of a head of
    /// width `d` turn by `rotary^(-2 i / d)` for each place, as in Llama. Su et al.: RoFormer, 2021.
    #[tree(skip)]
    pub rotary: Option<f64>,
}

impl MultiHeadAttention {
    /// Returns attention with as many heads of keys as of queries, and no positions.
    ///
    /// # Panics
    ///
    /// If `heads` does not divide `width`.
    pub fn new(key: Key, width: usize, heads: usize) -> MultiHeadAttention {
        MultiHeadAttention::grouped(key, width, heads, heads)
    }

    /// Returns attention whose heads of queries share `key_heads` heads of keys and values.
    ///
    /// # Panics
    ///
    /// If `heads` does not divide `width`, or `key_heads` does not divide `heads`.
    pub fn grouped(key: Key, width: usize, heads: usize, key_heads: usize) -> MultiHeadAttention {
        assert!(
            heads > 0 && width.is_multiple_of(heads),
            "`heads` of an attention is {heads}, which does not divide the width {width}"
        );
        assert!(
            key_heads > 0 && heads.is_multiple_of(key_heads),
            "`key_heads` of an attention is {key_heads}, which does not divide {heads} heads"
        );
        let [q, k, v, o] = key.split_n();
        let shared = width / heads * key_heads;
        MultiHeadAttention {
            query: Linear::new(q, width, width),
            key: Linear::new(k, width, shared),
            value: Linear::new(v, width, shared),
            output: Linear::new(o, width, width),
            heads,
            key_heads,
            rotary: None,
        }
    }

    /// Returns the attention with [quantised](Linear::quantized) weights.
    #[must_use]
    pub fn quantized(&self) -> MultiHeadAttention {
        MultiHeadAttention {
            query: self.query.quantized(),
            key: self.key.quantized(),
            value: self.value.quantized(),
            output: self.output.quantized(),
            ..self.clone()
        }
    }

    /// Returns an empty cache for [`step`](MultiHeadAttention::step).
    pub fn cache(&self, batch: usize, capacity: usize) -> KeyValueCache {
        let width = self.key.weight.shape()[0] / self.key_heads;
        let shape = [batch, self.key_heads, capacity, width];
        KeyValueCache {
            keys: Tensor::zeros(shape, self.key.weight.dtype()),
            values: Tensor::zeros(shape, self.key.weight.dtype()),
            len: Tensor::from(0i64),
        }
    }
}

/// Keys and values of the places that an attention has seen.
#[derive(Clone, Debug, Tree)]
pub struct KeyValueCache {
    /// `[batch, heads, capacity, width]`.
    pub keys: Tensor,
    /// `[batch, heads, capacity, width]`.
    pub values: Tensor,
    /// Number of places that are filled, of rank 0. It is a tensor, so that a plan serves all lengths.
    #[nodiff]
    pub len: Tensor,
}

/// Returns `[batch, n, heads * width]` as `[batch, heads, n, width]`.
#[traced]
fn split_heads(x: &Tensor, heads: usize) -> Tensor {
    x.reshape([x.dim(0), x.dim(1), heads, x.dim(2) / heads])
        .swap_axes(1, 2)
}

/// Returns `[batch, heads, n, width]` as `[batch, n, heads * width]`.
#[traced]
fn join_heads(x: &Tensor) -> Tensor {
    let [batch, heads, n, width] = [x.dim(0), x.dim(1), x.dim(2), x.dim(3)];
    x.swap_axes(1, 2).reshape([batch, n, heads * width])
}

/// Repeats each head, so that there are `heads`.
#[traced]
fn repeat_heads(x: &Tensor, heads: usize) -> Tensor {
    let [batch, own, n, width] = [x.dim(0), x.dim(1), x.dim(2), x.dim(3)];
    if own == heads {
        return x.clone();
    }
    let apart = x
        .unsqueeze(2)
        .broadcast_to([batch, own, heads / own, n, width]);
    apart.reshape([batch, heads, n, width])
}

/// Turns `[.., n, d]` by the angles of the places `first`, `first + 1` and so on.
///
/// Elements `i` and `i + d / 2` form a pair, which turns by `theta^(-2 i / d)` for each place.
#[traced]
fn turn(x: &Tensor, #[nodiff] first: &Tensor, theta: f64) -> Tensor {
    let (n, half) = (x.dim(-2), x.dim(-1) / 2);
    let places = (Tensor::arange(n as i64, DType::I64) + first).cast(DType::F64);
    let powers = Tensor::arange(half as i64, DType::F64) * (-theta.ln() / half as f64);
    let angles = places.unsqueeze(1) * powers.exp();
    x.rotary_half(angles.cast(x.dtype()))
}

#[traced]
impl MultiHeadAttention {
    /// Lets each place of `x` attend to all places that the mask allows.
    ///
    /// `x` is `[batch, n, width]`. The mask is as in [`Tensor::masked_attention`].
    pub fn attend(&self, x: &Tensor, #[nodiff] mask: Option<&Tensor>) -> Tensor {
        let (q, k, v) = self.heads_of(x, x);
        let y = match mask {
            Some(mask) => q.masked_attention(&k, &v, mask),
            None => q.attention(&k, &v),
        };
        self.output.forward(&join_heads(&y))
    }

    /// Lets each place of `x` attend to itself and those before. `x` is `[batch, n, width]`.
    pub fn attend_before(&self, x: &Tensor) -> Tensor {
        let (q, k, v) = self.heads_of(x, x);
        let y = q.causal_attention(&k, &v);
        self.output.forward(&join_heads(&y))
    }

    /// Lets each place of `x` attend to the places of `memory` that the mask allows.
    ///
    /// `x` is `[batch, n, width]`, `memory` is `[batch, m, width]`.
    pub fn attend_to(
        &self,
        x: &Tensor,
        memory: &Tensor,
        #[nodiff] mask: Option<&Tensor>,
    ) -> Tensor {
        let (q, k, v) = self.heads_of(x, memory);
        let y = match mask {
            Some(mask) => q.masked_attention(&k, &v, mask),
            None => q.attention(&k, &v),
        };
        self.output.forward(&join_heads(&y))
    }

    /// Lets the next places attend to themselves and those in the cache. Returns the cache with them.
    ///
    /// `x` is `[batch, n, width]`. Places beyond the capacity replace the last ones.
    pub fn step(&self, x: &Tensor, cache: &KeyValueCache) -> (Tensor, KeyValueCache) {
        let n = x.dim(1) as i64;
        let q = self.turned(&split_heads(&self.query.forward(x), self.heads), &cache.len);
        let k = self.turned(
            &split_heads(&self.key.forward(x), self.key_heads),
            &cache.len,
        );
        let v = split_heads(&self.value.forward(x), self.key_heads);
        let start = Tensor::from([0i64, 0, 1]) * &cache.len;
        let keys = cache.keys.dynamic_update_slice(&start, &k);
        let values = cache.values.dynamic_update_slice(&start, &v);
        let places = Tensor::arange(cache.keys.dim(2) as i64, DType::I64);
        let seen = (Tensor::arange(n, DType::I64) + &cache.len)
            .unsqueeze(1)
            .ge(places);
        let all = (
            repeat_heads(&keys, self.heads),
            repeat_heads(&values, self.heads),
        );
        let y = q.masked_attention(&all.0, &all.1, &seen);
        let len = &cache.len + n;
        (
            self.output.forward(&join_heads(&y)),
            KeyValueCache { keys, values, len },
        )
    }

    /// Returns queries, keys and values of `[batch, heads, n, width]`.
    fn heads_of(&self, x: &Tensor, memory: &Tensor) -> (Tensor, Tensor, Tensor) {
        let first = Tensor::from(0i64);
        let q = self.turned(&split_heads(&self.query.forward(x), self.heads), &first);
        let k = self.turned(
            &split_heads(&self.key.forward(memory), self.key_heads),
            &first,
        );
        let v = split_heads(&self.value.forward(memory), self.key_heads);
        (
            q,
            repeat_heads(&k, self.heads),
            repeat_heads(&v, self.heads),
        )
    }

    /// Returns queries or keys at their places, the first of which is `first`.
    fn turned(&self, x: &Tensor, #[nodiff] first: &Tensor) -> Tensor {
        match self.rotary {
            Some(theta) => turn(x, first, theta),
            None => x.clone(),
        }
    }
}
