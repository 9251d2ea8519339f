//! A small language model that decodes with a cache of keys and values.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};

const VOCABULARY: usize = 7;

#[derive(Clone, PartialEq, Eq)]
struct Config {
    heads: usize,
    width: usize,
    longest: usize,
}

#[derive(Clone, Tree)]
struct Block {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    norm: Tensor,
}

/// The keys and values of the positions so far: [heads, positions, features].
#[derive(Clone, Tree)]
struct Cache {
    keys: Tensor,
    values: Tensor,
}

#[traced]
impl Block {
    fn heads(&self, x: &Tensor, w: &Tensor, heads: usize) -> Tensor {
        x.matmul(w).reshape((x.dim(0), heads, -1)).swap_axes(0, 1)
    }

    /// Reads rows `[positions, width]`, after those in the cache.
    fn forward(&self, x: &Tensor, cache: Option<&Cache>, heads: usize) -> (Tensor, Cache) {
        let h = x.rms_norm(&self.norm, 1e-6);
        let query = self.heads(&h, &self.query, heads);
        let mut keys = self.heads(&h, &self.key, heads);
        let mut values = self.heads(&h, &self.value, heads);
        if let Some(cache) = cache {
            keys = Tensor::concat(&[&cache.keys, &keys], 1);
            values = Tensor::concat(&[&cache.values, &values], 1);
        }
        let y = match cache {
            Some(_) => query.attention(&keys, &values),
            None => query.causal_attention(&keys, &values),
        };
        let y = y.swap_axes(0, 1).reshape((x.dim(0), -1)).matmul(&self.out);
        (x + y, Cache { keys, values })
    }
}

#[derive(Clone, Tree)]
struct Model {
    embedding: Tensor,
    position: Tensor,
    blocks: Vec<Block>,
    #[tree(skip)]
    config: Config,
}

impl Model {
    fn new(key: Key, depth: usize, config: Config) -> Self {
        let [embedding, position, blocks] = key.split_n();
        let n = config.width;
        let block = |key: Key| {
            let [query, k, value, out] = key
                .split_n()
                .map(|key| key.normal([n, n], DType::F64) * 0.4);
            Block {
                query,
                key: k,
                value,
                out,
                norm: Tensor::ones([n], DType::F64),
            }
        };
        Model {
            embedding: embedding.normal([VOCABULARY, n], DType::F64),
            position: position.normal([config.longest, n], DType::F64) * 0.3,
            blocks: blocks.split_many(depth).into_iter().map(block).collect(),
            config,
        }
    }
}

#[traced]
impl Model {
    fn embed(&self, tokens: &Tensor, from: usize) -> Tensor {
        let (from, to) = (from as i64, from as i64 + tokens.dim(0) as i64);
        tokens
            .one_hot(VOCABULARY, DType::F64)
            .matmul(&self.embedding)
            + self.position.slice([from], [to], [1])
    }

    /// Reads a prompt and returns the scores of each next token, with the caches of all blocks.
    fn prefill(&self, tokens: &Tensor) -> (Tensor, Vec<Cache>) {
        let mut x = self.embed(tokens, 0);
        let mut caches = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let (y, cache) = block.forward(&x, None, self.config.heads);
            x = y;
            caches.push(cache);
        }
        (x.matmul(self.embedding.t()), caches)
    }

    /// Reads one more token.
    fn decode(&self, token: &Tensor, caches: &[Cache]) -> (Tensor, Vec<Cache>) {
        let seen = caches.first().map_or(0, |cache| cache.keys.dim(1));
        let mut x = self.embed(token, seen);
        let mut next = vec![];
        for (block, cache) in self.blocks.iter().zip(caches) {
            let (y, cache) = block.forward(&x, Some(cache), self.config.heads);
            next.push(cache);
            x = y;
        }
        (x.matmul(self.embedding.t()), next)
    }

    fn loss(&self, #[nodiff] tokens: &Tensor) -> Tensor {
        let n = tokens.dim(0) as i64;
        let (scores, _) = self.prefill(&tokens.slice([0], [n - 1], [1]));
        scores.cross_entropy(&tokens.slice([1], [n], [1]))
    }
}

fn generate(model: &Model, prompt: &[i64], count: usize) -> Vec<i64> {
    let mut text = prompt.to_vec();
    let (scores, mut caches) = model.prefill(&Tensor::from(prompt.to_vec()));
    let mut scores = scores.slice([prompt.len() as i64 - 1], [i64::MAX], [1]);
    for _ in 0..count {
        let token = scores.argmax(-1);
        text.push(token.item::<i64>());
        (scores, caches) = model.decode(&token, &caches);
    }
    text
}

fn model() -> Model {
    let config = Config {
        heads: 2,
        width: 8,
        longest: 16,
    };
    let model = Model::new(Key::new(2), 2, config);
    evaluate(&model).unwrap();
    model
}

fn text() -> Vec<i64> {
    (0..12).map(|i| i * i % 7).collect()
}

#[test]
fn decoding_token_by_token_gives_the_scores_of_the_whole_text() {
    let (model, tokens) = (model(), Tensor::from(text()));
    let (all, _) = model.prefill(&tokens);
    let (_, mut caches) = model.prefill(&tokens.slice([0], [3], [1]));
    for t in 3..12 {
        let (scores, next) = model.decode(&tokens.slice([t], [t + 1], [1]), &caches);
        caches = next;
        let expected = all.slice([t], [t + 1], [1]);
        near("the scores", &entries(&scores), &entries(&expected), 1e-12).unwrap();
    }
    assert_eq!(caches[1].keys.shape(), [2, 12, 4]);
}

#[test]
fn the_gradient_is_right() {
    let (model, tokens) = (model(), Tensor::from(text()));
    let dmodel = noise_like(&model, 1);
    let slope = gradloom::tree::dot(&model.loss_grad(&tokens).this, &dmodel);
    let expected = differences(&|model: &Model| model.loss(&tokens), &model, &dmodel, 1e-4);
    near("the slope", &entries(&slope), &expected, 1e-7).unwrap();
}

#[test]
fn the_gradient_goes_through_the_caches() {
    let (model, tokens) = (model(), Tensor::from(text()));
    let (_, caches) = model.prefill(&tokens.slice([0], [4], [1]));
    let token = tokens.slice([4], [5], [1]);
    let dcaches = noise_like(&caches, 2);
    let (y, pullback) = vjp(
        |caches: &Vec<Cache>| model.decode(&token, caches).0,
        &caches,
    );
    let slope = gradloom::tree::dot(&pullback.call(&y.ones_like()), &dcaches);
    let run = |caches: &Vec<Cache>| model.decode(&token, caches).0.sum(..);
    near(
        "the slope",
        &entries(&slope),
        &differences(&run, &caches, &dcaches, 1e-4),
        1e-7,
    )
    .unwrap();
}

#[test]
fn a_trained_model_writes_the_text_and_a_second_time_plans_nothing() {
    assert_eq!(Block::FORWARD_RECORDED, None);
    assert_eq!(Model::PREFILL_RECORDED, None);
    assert_eq!(Model::DECODE_RECORDED, None);
    assert_eq!(Model::LOSS_RECORDED, None);
    let (mut model, text) = (model(), text());
    let tokens = Tensor::from(text.clone());
    let mut step = || {
        let (value, grads) = model.loss_value_and_grad(&tokens);
        model = gradloom::tree::sub(&model, &gradloom::tree::scale(&grads.this, 0.1));
        evaluate((&value, &model)).unwrap();
    };
    step();
    plans_nothing(&mut step);
    for _ in 0..58 {
        step();
    }
    assert_eq!(generate(&model, &text[..4], 8), text);
    plans_nothing(|| {
        generate(&model, &text[..4], 8);
    });
    let (_, caches) = model.prefill(&tokens);
    finds(|| model.decode(&Tensor::from([3i64]), &caches));
    finds(|| model.loss_grad(&tokens).this);
}
