//! A small GPT on characters: embeddings by `one_hot`, blocks in a `Vec`, clipping of gradients,
//! weight decay of matrices only, and a cosine schedule of the learning rate.

use gradloom::optim::{self, Adam, AdamState, Schedule};
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Dense {
    fn new(key: Key, inputs: usize, outputs: usize) -> Self {
        let scale = 1.0 / (inputs as f64).sqrt();
        Dense {
            w: key.normal([inputs, outputs], DType::F64) * scale,
            b: Tensor::zeros([outputs], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
}

#[traced]
impl LayerNorm {
    fn new(width: usize) -> Self {
        LayerNorm {
            weight: Tensor::ones([width], DType::F64),
            bias: Tensor::zeros([width], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(&self.weight, &self.bias, 1e-5)
    }
}

#[derive(Clone, Tree)]
struct Attention {
    qkv: Dense,
    out: Dense,
    #[tree(skip)]
    heads: usize,
}

#[traced]
impl Attention {
    fn new(key: Key, width: usize, heads: usize) -> Self {
        let (qkv, out) = key.split();
        Attention {
            qkv: Dense::new(qkv, width, 3 * width),
            out: Dense::new(out, width, width),
            heads,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let (b, t, c) = (x.dim(0), x.dim(1), x.dim(2));
        let split_heads = |x: &Tensor| {
            x.reshape([b, t, self.heads, c / self.heads])
                .swap_axes(1, 2)
        };
        let [q, k, v] = self.qkv.forward(x).split(-1);
        let y = split_heads(&q).causal_attention(&split_heads(&k), &split_heads(&v));
        self.out.forward(&y.swap_axes(1, 2).reshape([b, t, c]))
    }
}

#[derive(Clone, Tree)]
struct Mlp {
    up: Dense,
    down: Dense,
}

#[traced]
impl Mlp {
    fn new(key: Key, width: usize) -> Self {
        let (up, down) = key.split();
        Mlp {
            up: Dense::new(up, width, 4 * width),
            down: Dense::new(down, 4 * width, width),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        self.down.forward(&self.up.forward(x).gelu())
    }
}

#[derive(Clone, Tree)]
struct Block {
    norm1: LayerNorm,
    attention: Attention,
    norm2: LayerNorm,
    mlp: Mlp,
}

#[traced]
impl Block {
    fn new(key: Key, width: usize, heads: usize) -> Self {
        let (attention, mlp) = key.split();
        Block {
            norm1: LayerNorm::new(width),
            attention: Attention::new(attention, width, heads),
            norm2: LayerNorm::new(width),
            mlp: Mlp::new(mlp, width),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.norm1.forward(x));
        &x + self.mlp.forward(&self.norm2.forward(&x))
    }
}

struct Config {
    vocab: usize,
    context: usize,
    width: usize,
    heads: usize,
    layers: usize,
}

#[derive(Clone, Tree)]
struct Gpt {
    embed: Tensor,
    position: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Dense,
}

#[traced]
impl Gpt {
    fn new(key: Key, config: &Config) -> Self {
        let &Config {
            vocab,
            context,
            width,
            heads,
            layers,
        } = config;
        let [embed, position, blocks, head] = key.split_n();
        let blocks = blocks.split_many(layers);
        Gpt {
            embed: embed.normal([vocab, width], DType::F64) * 0.1,
            position: position.normal([context, width], DType::F64) * 0.1,
            blocks: blocks
                .into_iter()
                .map(|key| Block::new(key, width, heads))
                .collect(),
            norm: LayerNorm::new(width),
            head: Dense::new(head, width, vocab),
        }
    }

    fn logits(&self, ids: &Tensor) -> Tensor {
        let tokens = ids.one_hot(self.embed.dim(0), self.embed.dtype());
        let positions = self.position.slice([0], [ids.dim(1)], [1]);
        let x = tokens.matmul(&self.embed) + positions;
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.head.forward(&self.norm.forward(&x))
    }

    fn loss(&self, #[nodiff] ids: &Tensor, #[nodiff] targets: &Tensor) -> Tensor {
        self.logits(ids).cross_entropy(targets)
    }
}

/// What a step returns.
#[derive(Clone, Tree)]
struct Step {
    model: Gpt,
    state: AdamState<Gpt>,
    loss: Tensor,
    norm: Tensor,
}

const MAX_NORM: f64 = 0.5;
const DECAY: f64 = 0.1;

#[traced]
fn train_step(
    model: &Gpt,
    state: &AdamState<Gpt>,
    ids: &Tensor,
    targets: &Tensor,
    lr: &Tensor,
) -> Step {
    let (loss, grads) = model.loss_value_and_grad(ids, targets);
    let norm = tree::norm(&grads.this);
    let grads = optim::clip_by_norm(&grads.this, MAX_NORM);
    let decayed = model.map(&mut |w| {
        if w.rank() >= 2 {
            w * (1.0 - lr * DECAY)
        } else {
            w.clone()
        }
    });
    let (model, state) = Adam::default().step_with(lr, &decayed, &grads, state);
    Step {
        model,
        state,
        loss,
        norm,
    }
}

/// Returns the learning rates: a linear warm-up, then half a cosine.
fn rates(steps: usize) -> Schedule {
    let (warm_up, peak) = (4, 3e-2);
    let line = Schedule::linear(peak / warm_up as f64, peak, warm_up - 1);
    line.then(warm_up, Schedule::cosine(peak, 0.0, steps - warm_up))
}

const CONFIG: Config = Config {
    vocab: 8,
    context: 6,
    width: 8,
    heads: 2,
    layers: 2,
};

const TEXT: &str = "abcadbecfagbhcabcadbecfagbhcabcadbecfagbhc";

/// Returns `count` pieces of the text, and the same shifted by one.
fn batch(count: usize) -> (Tensor, Tensor) {
    let ids: Vec<i64> = TEXT.bytes().map(|c| i64::from(c - b'a')).collect();
    let piece = |i: usize| &ids[3 * i..3 * i + CONFIG.context + 1];
    let inputs = (0..count)
        .flat_map(|i| piece(i)[..CONFIG.context].to_vec())
        .collect();
    let targets = (0..count).flat_map(|i| piece(i)[1..].to_vec()).collect();
    let shape = [count, CONFIG.context];
    (
        Tensor::from_vec(inputs, shape),
        Tensor::from_vec(targets, shape),
    )
}

fn gpt() -> Gpt {
    let gpt = Gpt::new(Key::new(0), &CONFIG);
    evaluate(&gpt).unwrap();
    gpt
}

#[test]
fn the_derivative_of_the_loss_is_right() {
    let (ids, targets) = batch(2);
    Companions {
        call: &|gpt: &Gpt| gpt.loss(&ids, &targets),
        vjp: &|gpt, ct| {
            let (y, pullback) = gpt.loss_vjp(&ids, &targets);
            (y, pullback(ct))
        },
        jvp: &|gpt, dgpt| gpt.loss_jvp((&ids, &targets), dgpt),
    }
    .check(&gpt());
}

#[test]
fn a_character_depends_on_those_before_it_only() {
    let (gpt, (ids, _)) = (gpt(), batch(1));
    let mut changed = ids.to_vec::<i64>();
    changed[4] = (changed[4] + 1) % 8;
    let changed = gpt.logits(&Tensor::from_vec(changed, [1, 6]));
    let (a, b) = (entries(&gpt.logits(&ids)), entries(&changed));
    assert_eq!(a[..4 * 8], b[..4 * 8]);
    assert!(a[4 * 8..].iter().zip(&b[4 * 8..]).all(|(a, b)| a != b));
}

#[test]
fn the_first_step_is_that_of_plain_loops() {
    let (gpt, (ids, targets), lr) = (gpt(), batch(2), 0.01);
    let state = Adam::default().init(&gpt);
    let step = train_step(&gpt, &state, &ids, &targets, &Tensor::scalar(lr));
    let grads = gpt.loss_grad(&ids, &targets).this;
    let g = entries(&grads);
    let norm = g.iter().map(|g| g * g).sum::<f64>().sqrt();
    assert!(norm > MAX_NORM, "{norm}");
    near("the norm", &entries(&step.norm), &[norm], 1e-12).unwrap();
    let mut rank = Vec::new();
    gpt.visit(&mut |leaf| rank.extend(vec![leaf.rank(); leaf.numel()]));
    let expected: Vec<f64> = (0..g.len())
        .map(|i| {
            let w = entries(&gpt)[i] * if rank[i] >= 2 { 1.0 - lr * DECAY } else { 1.0 };
            let g = g[i] * MAX_NORM / norm;
            w - lr * g / (g.abs() + 1e-8)
        })
        .collect();
    near("the model", &entries(&step.model), &expected, 1e-9).unwrap();
}

#[test]
fn training_learns_the_text_and_a_step_plans_nothing() {
    let (ids, targets) = batch(4);
    let model = gpt();
    let mut now = Step {
        state: Adam::default().init(&model),
        model,
        loss: Tensor::scalar(f64::INFINITY),
        norm: Tensor::scalar(0.0),
    };
    let mut losses = Vec::new();
    for i in 0..40 {
        let mut step = || {
            now = train_step(&now.model, &now.state, &ids, &targets, &rates(40).at(i));
            losses.push(now.loss.item::<f64>());
        };
        if i < 2 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert!(losses[0] > 1.9 && losses[39] < 0.7, "{losses:?}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(Gpt::LOGITS_RECORDED, None);
    assert_eq!(Gpt::LOSS_RECORDED, None);
    assert_eq!(train_step::RECORDED, None);
    let (gpt, (ids, targets)) = (gpt(), batch(2));
    finds(|| gpt.logits(&ids));
    finds(|| gpt.loss_grad(&ids, &targets).this);
}
