//! Programs in their steady state, which measure the overhead of a call once its plan is cached.
//!
//! Their tensors are so small that the arithmetic takes almost no time.

use crate::noise;
use gradloom::cache;
use gradloom::optim::Sgd;
use gradloom::prelude::*;

/// A program that can be run repeatedly.
pub struct Steady {
    /// Name on the command line.
    pub name: &'static str,
    /// Prepares the inputs and returns a closure that runs the program once.
    pub start: fn() -> Box<dyn FnMut()>,
}

/// All programs. Each measures one kind of overhead.
pub const STEADY: &[Steady] = &[
    // Calls a traced function on realised tensors and evaluates the result.
    Steady {
        name: "call",
        start: call,
    },
    // Calls the `vjp` of that function, and the pullback.
    Steady {
        name: "pull",
        start: pull,
    },
    // A training step: value, gradient and update of a perceptron with six parameters.
    Steady {
        name: "step",
        start: step,
    },
    // A training step with two layers and a squared error.
    Steady {
        name: "tiny",
        start: tiny,
    },
    // The gradient of a function that draws with a key, with another key each time.
    Steady {
        name: "drop",
        start: drops,
    },
    // A training step on a model so large that calls are promises and their memory comes from the
    // buffer pool.
    Steady {
        name: "wide",
        start: wide,
    },
    // A single op, recorded and evaluated.
    Steady {
        name: "one",
        start: one,
    },
    // A hundred ops, recorded one by one. Their plan is cached.
    Steady {
        name: "ops",
        start: ops,
    },
    // A thousand ops, each on the result of the previous one, in one loop.
    Steady {
        name: "chain",
        start: chain,
    },
    // The hundred ops, without a cached plan.
    Steady {
        name: "plan",
        start: plan,
    },
];

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
struct Mlp {
    first: Linear,
    second: Linear,
    last: Linear,
}

#[traced]
fn forward(model: &Mlp, x: &Tensor) -> Tensor {
    let h = model.first.forward(x).relu();
    let h = model.second.forward(&h).relu();
    model.last.forward(&h)
}

#[traced]
fn loss(model: &Mlp, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    forward(model, x).cross_entropy(labels)
}

fn mlp([inputs, first, second, outputs]: [usize; 4]) -> Mlp {
    let layer = |seed, inputs, outputs| Linear {
        w: noise(&[inputs, outputs], seed),
        b: noise(&[outputs], seed + 1),
    };
    Mlp {
        first: layer(1, inputs, first),
        second: layer(3, first, second),
        last: layer(5, second, outputs),
    }
}

fn call() -> Box<dyn FnMut()> {
    let (model, x) = (mlp([4, 8, 8, 3]), noise(&[4, 4], 7));
    Box::new(move || evaluate(&forward(&model, &x)).expect("a small result can be computed"))
}

fn pull() -> Box<dyn FnMut()> {
    let (model, x, ct) = (mlp([4, 8, 8, 3]), noise(&[4, 4], 7), noise(&[4, 3], 8));
    Box::new(move || {
        let (y, pullback) = forward::vjp(&model, &x);
        evaluate(&(y, pullback(&ct))).expect("small results can be computed");
    })
}

#[traced]
fn dropped(w: &Tensor, #[nodiff] x: &Tensor, p: f64, key: Key) -> Tensor {
    let h = x.matmul(w).tanh();
    let keep = key.bernoulli(1.0 - p, h.shape());
    let h = keep.select(&(&h / (1.0 - p)), &Tensor::zeros_like(&h));
    h.square().mean(..)
}

fn drops() -> Box<dyn FnMut()> {
    let (w, x) = (noise(&[4, 8], 1), noise(&[4, 4], 7));
    let mut key = Key::new(1);
    Box::new(move || {
        let (now, later) = std::mem::replace(&mut key, Key::new(0)).split();
        key = later;
        evaluate(&dropped::value_and_grad(&w, &x, 0.5, now))
            .expect("small results can be computed");
    })
}

fn step() -> Box<dyn FnMut()> {
    train(mlp([4, 8, 8, 3]))
}

fn wide() -> Box<dyn FnMut()> {
    train(mlp([4, 80, 80, 3]))
}

fn train(mut model: Mlp) -> Box<dyn FnMut()> {
    let (x, labels) = (noise(&[4, 4], 7), Tensor::from([0i64, 1, 2, 0]));
    let sgd = Sgd::default();
    let mut state = sgd.init(&model);
    Box::new(move || {
        let (value, grads) = loss::value_and_grad(&model, &x, &labels);
        (model, state) = sgd.step(&model, &grads.model, &state);
        evaluate(&(value, model.clone())).expect("small results can be computed");
    })
}

#[derive(Clone, Tree)]
struct Tiny {
    first: Linear,
    last: Linear,
}

#[traced]
fn tiny_loss(model: &Tiny, #[nodiff] x: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
    let h = model.first.forward(x).tanh();
    (model.last.forward(&h) - target).square().mean(..)
}

fn tiny() -> Box<dyn FnMut()> {
    let single = |shape: &[usize], seed| {
        let x = noise(shape, seed).cast(DType::F32);
        evaluate(&x).expect("a small result can be computed");
        x
    };
    let layer = |seed, inputs, outputs| Linear {
        w: single(&[inputs, outputs], seed),
        b: single(&[outputs], seed + 1),
    };
    let mut model = Tiny {
        first: layer(1, 4, 16),
        last: layer(3, 16, 3),
    };
    let (x, target) = (single(&[8, 4], 5), single(&[8, 3], 6));
    let sgd = Sgd::default();
    let mut state = sgd.init(&model);
    Box::new(move || {
        let (value, grads) = tiny_loss::value_and_grad(&model, &x, &target);
        (model, state) = sgd.step(&model, &grads.model, &state);
        evaluate(&(value, model.clone())).expect("small results can be computed");
    })
}

fn one() -> Box<dyn FnMut()> {
    let (x, w) = (noise(&[4, 4], 7), noise(&[4, 4], 8));
    Box::new(move || evaluate(&x.matmul(&w)).expect("a small result can be computed"))
}

fn hundred_ops(x: &Tensor, w: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..20 {
        y = (y.matmul(w) + x).tanh() * x - w;
    }
    y
}

fn ops() -> Box<dyn FnMut()> {
    let (x, w) = (noise(&[4, 4], 7), noise(&[4, 4], 8));
    Box::new(move || evaluate(&hundred_ops(&x, &w)).expect("a small result can be computed"))
}

fn chain() -> Box<dyn FnMut()> {
    let (x, shift, scale) = (noise(&[16], 7), noise(&[16], 8), noise(&[16], 9));
    Box::new(move || {
        let mut y = x.clone();
        for _ in 0..500 {
            y = (y + &shift) * &scale;
        }
        evaluate(&y).expect("a small result can be computed");
    })
}

fn plan() -> Box<dyn FnMut()> {
    let mut ops = ops();
    Box::new(move || {
        cache::clear();
        ops();
    })
}
