//! The GPT of W18: the scores of the next word with a cache, and the gradient for all weights.

use crate::Call;
use crate::inputs::{fill, ids, near_one};
use candle_core::{D, Device, Result, Tensor, Var};
use candle_nn::loss::cross_entropy;
use candle_nn::ops::{layer_norm, layer_norm_slow, softmax, softmax_last_dim};

const WORDS: usize = 1000;
const WIDTH: usize = 384;
const LAYERS: usize = 4;
const HEADS: usize = 4;
const PLACES: usize = 256;
const FILLED: usize = 128;

/// A step of decoding. Keys and values of a word are written into the caches, of which only filled places are read.
pub fn decode() -> Result<Call> {
    let model = Model::new()?;
    let ids = ids(1, WORDS, 1)?;
    let shape = (1, HEADS, PLACES, WIDTH / HEADS);
    let caches = (0..2 * LAYERS).map(|i| fill(480 + i as u32, shape, 1.0));
    let caches = caches.collect::<Result<Vec<Tensor>>>()?;
    Ok(Box::new(move || {
        Ok(vec![model.scores(&ids, Some(&caches))?])
    }))
}

/// The gradient of the mean cross-entropy of 8 texts of 128 words.
pub fn gradient() -> Result<Call> {
    let model = Model::new()?;
    let words = ids(8 * 128, WORDS, 8)?;
    let next: Vec<u32> = words.flatten_all()?.to_vec1()?;
    let next: Vec<u32> = next.iter().map(|id| (id + 1) % WORDS as u32).collect();
    let next = Tensor::new(next, &Device::Cpu)?;
    Ok(Box::new(move || {
        let scores = model.scores(&words, None)?;
        let grads = cross_entropy(&scores.flatten_to(1)?, &next)?.backward()?;
        let of = |weight: &Var| {
            grads
                .get(weight)
                .cloned()
                .map_or_else(|| weight.zeros_like(), Ok)
        };
        model.weights.iter().map(of).collect()
    }))
}

struct Model {
    weights: Vec<Var>,
    /// `[places, places]`: 0, or minus infinity where a word is later.
    later: Tensor,
}

impl Model {
    fn new() -> Result<Model> {
        let linear = |outputs, inputs| [vec![outputs, inputs], vec![outputs]];
        let mut shapes = vec![vec![WORDS, WIDTH], vec![PLACES, WIDTH]];
        // An empty shape is the gain of a norm.
        let norm = [vec![], vec![WIDTH]];
        for _ in 0..LAYERS {
            for _ in 0..4 {
                shapes.extend(linear(WIDTH, WIDTH));
            }
            shapes.extend(norm.clone());
            shapes.extend(linear(4 * WIDTH, WIDTH));
            shapes.extend(linear(WIDTH, 4 * WIDTH));
            shapes.extend(norm.clone());
        }
        shapes.extend(norm);
        shapes.extend(linear(WORDS, WIDTH));
        let weight = |(seed, shape): (u32, Vec<usize>)| {
            Var::from_tensor(&match shape.is_empty() {
                true => near_one(seed, WIDTH)?,
                false => fill(seed, shape, 0.05)?,
            })
        };
        let weights = (400..).zip(shapes).map(weight).collect::<Result<_>>()?;
        let later = (0..128 * 128).map(|i| {
            if i % 128 > i / 128 {
                f32::NEG_INFINITY
            } else {
                0.0
            }
        });
        let later = Tensor::from_vec(later.collect(), (128, 128), &Device::Cpu)?;
        Ok(Model { weights, later })
    }

    fn scores(&self, ids: &Tensor, caches: Option<&[Tensor]>) -> Result<Tensor> {
        let mut weights = self.weights.iter().map(Var::as_tensor);
        let mut next = || weights.next().expect("there are more weights");
        let (batch, n) = ids.dims2()?;
        let at = if caches.is_some() { FILLED } else { 0 };
        let (table, places) = (next(), next());
        let words = table
            .index_select(&ids.flatten_all()?, 0)?
            .reshape((batch, n, WIDTH))?;
        let mut h = words.broadcast_add(&places.narrow(0, at, n)?)?;
        let heads = |x: Tensor| {
            x.reshape((batch, n, HEADS, WIDTH / HEADS))?
                .transpose(1, 2)?
                .contiguous()
        };
        // The fused norm and the fused softmax have no derivatives.
        let norm = |x: &Tensor, gain: &Tensor, bias: &Tensor| match caches {
            Some(_) => layer_norm(x, gain, bias, 1e-5),
            None => layer_norm_slow(x, gain, bias, 1e-5),
        };
        for layer in 0..LAYERS {
            let w: [&Tensor; 16] = std::array::from_fn(|_| next());
            let x = norm(&h, w[8], w[9])?;
            let q = heads(linear(&x, w[0], w[1])?)?;
            let (mut k, mut v) = (
                heads(linear(&x, w[2], w[3])?)?,
                heads(linear(&x, w[4], w[5])?)?,
            );
            if let Some(caches) = caches {
                for (x, cache) in [
                    (&mut k, &caches[2 * layer]),
                    (&mut v, &caches[2 * layer + 1]),
                ] {
                    cache.slice_set(x, 2, at)?;
                    *x = cache.narrow(2, 0, at + n)?.contiguous()?;
                }
            }
            let scale = 1.0 / ((WIDTH / HEADS) as f64).sqrt();
            let shares = (q.matmul(&k.t()?)? * scale)?;
            let shares = match caches {
                Some(_) => softmax_last_dim(&shares)?,
                None => softmax(&shares.broadcast_add(&self.later)?, D::Minus1)?,
            };
            let y = shares
                .matmul(&v)?
                .transpose(1, 2)?
                .reshape((batch, n, WIDTH))?;
            h = (h + linear(&y, w[6], w[7])?)?;
            let y = linear(&norm(&h, w[14], w[15])?, w[10], w[11])?.gelu_erf()?;
            h = (h + linear(&y, w[12], w[13])?)?;
        }
        let h = norm(&h, next(), next())?;
        linear(&h, next(), next())
    }
}

fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (batch, n, inputs) = x.dims3()?;
    let y = x
        .reshape((batch * n, inputs))?
        .matmul(&w.t()?)?
        .broadcast_add(b)?;
    y.reshape((batch, n, w.dim(0)?))
}
