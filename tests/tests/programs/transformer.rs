//! A model of nested layers, written as in a project: its programs are texts that a reader can
//! follow, from the loss down to a dense layer.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use insta::assert_snapshot;

const WORDS: usize = 11;
const WIDTH: usize = 8;
const HEADS: usize = 2;
const HIDDEN: usize = 16;
const LENGTH: usize = 6;

/// An affine map of the last axis.
#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

impl Dense {
    fn init(key: Key, inputs: usize, outputs: usize) -> Dense {
        let scale = (1.0 / inputs as f64).sqrt();
        Dense {
            w: key.normal([inputs, outputs], DType::F32) * scale,
            b: Tensor::zeros([outputs], DType::F32),
        }
    }
}

#[traced]
impl Dense {
    fn forward(&self, x: &Tensor) -> Tensor {
        let scores = x.matmul(&self.w);
        scores + &self.b
    }
}

/// Normalises the last axis, with a learned scale and shift.
#[derive(Clone, Tree)]
struct Norm {
    scale: Tensor,
    shift: Tensor,
}

impl Norm {
    fn init(width: usize) -> Norm {
        Norm {
            scale: Tensor::ones([width], DType::F32),
            shift: Tensor::zeros([width], DType::F32),
        }
    }
}

#[traced]
impl Norm {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(&self.scale, &self.shift, 1e-5)
    }
}

/// Vectors of words, and of positions in a sentence.
#[derive(Clone, Tree)]
struct Embedding {
    words: Tensor,
    positions: Tensor,
}

impl Embedding {
    fn init(key: Key) -> Embedding {
        let [words, positions] = key.split_n();
        Embedding {
            words: words.normal([WORDS, WIDTH], DType::F32) * 0.5,
            positions: positions.normal([LENGTH, WIDTH], DType::F32) * 0.1,
        }
    }
}

#[traced]
impl Embedding {
    /// Returns the vectors of words with these numbers.
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let chosen = tokens.one_hot(WORDS, DType::F32);
        let vectors = chosen.matmul(&self.words);
        vectors + &self.positions
    }

    /// Returns a score for each word.
    fn scores(&self, h: &Tensor) -> Tensor {
        h.matmul(&self.words.transpose())
    }
}

/// Returns `[batch, heads, length, width / heads]`.
#[traced]
fn split_heads(x: &Tensor, heads: usize) -> Tensor {
    let (batch, length, width) = (x.dim(0), x.dim(1), x.dim(2));
    let parts = x.reshape([batch, length, heads, width / heads]);
    parts.permute([0, 2, 1, 3])
}

/// Undoes [`split_heads`].
#[traced]
fn join_heads(x: &Tensor) -> Tensor {
    let (batch, heads, length, width) = (x.dim(0), x.dim(1), x.dim(2), x.dim(3));
    let parts = x.permute([0, 2, 1, 3]);
    parts.reshape([batch, length, heads * width])
}

#[derive(Clone, Tree)]
struct Attention {
    query: Dense,
    key: Dense,
    value: Dense,
    out: Dense,
}

impl Attention {
    fn init(key: Key) -> Attention {
        let [query, k, value, out] = key.split_n();
        let dense = |key| Dense::init(key, WIDTH, WIDTH);
        Attention {
            query: dense(query),
            key: dense(k),
            value: dense(value),
            out: dense(out),
        }
    }
}

#[traced]
impl Attention {
    /// Returns the share of each word in each other.
    fn weights(&self, x: &Tensor, mask: &Tensor, heads: usize) -> Tensor {
        let query = split_heads(&self.query.forward(x), heads);
        let key = split_heads(&self.key.forward(x), heads);
        let scale = 1.0 / (key.dim(3) as f64).sqrt();
        let scores = query.matmul(&key.permute([0, 1, 3, 2]));
        (scores * scale + mask).softmax(-1)
    }

    fn forward(&self, x: &Tensor, mask: &Tensor, heads: usize) -> Tensor {
        let weights = self.weights(x, mask, heads);
        let value = split_heads(&self.value.forward(x), heads);
        let mixed = join_heads(&weights.matmul(&value));
        self.out.forward(&mixed)
    }
}

/// Two dense layers with an activation between them.
#[derive(Clone, Tree)]
struct Mlp {
    up: Dense,
    down: Dense,
}

impl Mlp {
    fn init(key: Key) -> Mlp {
        let [up, down] = key.split_n();
        Mlp {
            up: Dense::init(up, WIDTH, HIDDEN),
            down: Dense::init(down, HIDDEN, WIDTH),
        }
    }
}

#[traced]
impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        let hidden = self.up.forward(x).gelu();
        self.down.forward(&hidden)
    }
}

#[derive(Clone, Tree)]
struct Block {
    before_attention: Norm,
    attention: Attention,
    before_mlp: Norm,
    mlp: Mlp,
}

impl Block {
    fn init(key: Key) -> Block {
        let [attention, mlp] = key.split_n();
        Block {
            before_attention: Norm::init(WIDTH),
            attention: Attention::init(attention),
            before_mlp: Norm::init(WIDTH),
            mlp: Mlp::init(mlp),
        }
    }
}

#[traced]
impl Block {
    fn forward(&self, x: &Tensor, mask: &Tensor, heads: usize) -> Tensor {
        let normed = self.before_attention.forward(x);
        let attended = x + self.attention.forward(&normed, mask, heads);
        let normed = self.before_mlp.forward(&attended);
        &attended + self.mlp.forward(&normed)
    }
}

#[derive(Clone, Tree)]
struct Transformer {
    embedding: Embedding,
    blocks: Vec<Block>,
    last_norm: Norm,
}

impl Transformer {
    fn init(key: Key, n_blocks: usize) -> Transformer {
        let [embedding, rest] = key.split_n();
        let blocks = rest.split_many(n_blocks).into_iter().map(Block::init);
        Transformer {
            embedding: Embedding::init(embedding),
            blocks: blocks.collect(),
            last_norm: Norm::init(WIDTH),
        }
    }
}

#[traced]
impl Transformer {
    /// Returns a score for each next word, after each word.
    fn forward(&self, tokens: &Tensor, mask: &Tensor, heads: usize) -> Tensor {
        let mut h = self.embedding.forward(tokens);
        for block in &self.blocks {
            h = block.forward(&h, mask, heads);
        }
        let normed = self.last_norm.forward(&h);
        self.embedding.scores(&normed)
    }
}

/// Returns the mean cross-entropy of the next words.
#[traced]
fn loss(
    model: &Transformer,
    #[nodiff] tokens: &Tensor,
    #[nodiff] next: &Tensor,
    #[nodiff] mask: &Tensor,
    smoothing: f32,
) -> Tensor {
    let scores = model.forward(tokens, mask, HEADS);
    let targets = next.one_hot(WORDS, DType::F32);
    let targets = targets * (1.0 - smoothing) + smoothing / WORDS as f32;
    let surprise = -(scores.log_softmax(-1) * targets).sum(-1);
    let mean = surprise.mean(..);
    if smoothing > 0.0 {
        return mean - smoothing;
    }
    mean
}

/// Returns sentences that count upwards, and their next words.
fn sentences() -> (Tensor, Tensor) {
    let starts = [0, 3, 5, 8];
    let words = |skipped: i64| {
        let word = |i: usize| (starts[i / LENGTH] + skipped + (i % LENGTH) as i64) % WORDS as i64;
        let words: Vec<i64> = (0..starts.len() * LENGTH).map(word).collect();
        Tensor::from_vec(words, [starts.len(), LENGTH])
    };
    (words(0), words(1))
}

/// Returns `0` where a word may look at another, and a large negative number elsewhere.
fn mask() -> Tensor {
    let position = Tensor::arange(LENGTH, DType::F32);
    let is_later = position.lt(&position.reshape([LENGTH, 1]));
    let is_later = is_later.cast(DType::F32);
    is_later.transpose() * -1e9
}

#[test]
fn the_loss_falls() {
    let mut model = Transformer::init(Key::new(1), 2);
    let adam = Adam {
        lr: 0.02,
        ..Adam::default()
    };
    let mut state = adam.init(&model);
    let ((tokens, next), mask) = (sentences(), mask());
    let mut losses = Vec::new();
    for _ in 0..60 {
        let (value, grads) = loss::value_and_grad(&model, &tokens, &next, &mask, 0.0);
        (model, state) = adam.step(&model, &grads.model, &state);
        evaluate(&(model.clone(), state.clone())).unwrap();
        losses.push(value.item::<f32>());
    }
    assert!(losses[59] < 0.2 * losses[0], "{losses:?}");
}

#[test]
fn the_programs_read_from_the_loss_to_a_layer() {
    let programs = [
        ("loss", loss::PROGRAM),
        ("Transformer::forward", Transformer::FORWARD_PROGRAM),
        ("Embedding::forward", Embedding::FORWARD_PROGRAM),
        ("Block::forward", Block::FORWARD_PROGRAM),
        ("Attention::forward", Attention::FORWARD_PROGRAM),
        ("Attention::weights", Attention::WEIGHTS_PROGRAM),
        ("split_heads", split_heads::PROGRAM),
        ("Mlp::forward", Mlp::FORWARD_PROGRAM),
        ("Dense::forward", Dense::FORWARD_PROGRAM),
    ];
    let texts = programs.map(|(name, program)| format!("{name}{program}"));
    assert_snapshot!(texts.join("\n\n"));
}
