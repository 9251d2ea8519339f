//! A mixture of experts of several kinds, with a noisy gate and a loss that balances the load.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Linear {
    fn new(key: Key, inputs: usize, outputs: usize) -> Self {
        let scale = (1.0 / inputs as f64).sqrt();
        Linear {
            w: key.normal([inputs, outputs], DType::F64) * scale,
            b: Tensor::zeros([outputs], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
enum Expert {
    Linear(Linear),
    Mlp { up: Linear, down: Linear },
    Constant(Tensor),
    Skip,
}

#[traced]
impl Expert {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Expert::Linear(layer) => layer.forward(x),
            Expert::Mlp { up, down } => down.forward(&up.forward(x).relu()),
            Expert::Constant(value) => value.broadcast_like(x),
            Expert::Skip => x.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Routing {
    Soft,
    Top(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Config {
    width: usize,
    hidden: usize,
    routing: Routing,
}

#[derive(Clone, Tree)]
struct Mixture {
    gate: Linear,
    experts: Vec<Expert>,
    #[tree(skip)]
    config: Config,
}

impl Mixture {
    fn new(key: Key, config: Config) -> Mixture {
        let [gate, a, b, c] = key.split_n();
        let Config { width, hidden, .. } = config;
        Mixture {
            experts: vec![
                Expert::Linear(Linear::new(a, width, width)),
                Expert::Mlp {
                    up: Linear::new(b, width, hidden),
                    down: Linear::new(c, hidden, width),
                },
                Expert::Constant(Tensor::zeros([width], DType::F64)),
                Expert::Skip,
            ],
            gate: Linear::new(gate, width, 4),
            config,
        }
    }
}

#[traced]
impl Mixture {
    /// The share of each expert in each row.
    fn shares(&self, x: &Tensor, noise: Option<Key>) -> Tensor {
        let mut logits = self.gate.forward(x);
        if let Some(key) = noise {
            logits += key.normal(logits.shape(), DType::F64) * 0.1;
        }
        let shares = logits.softmax(-1);
        match self.config.routing {
            Routing::Soft => shares,
            Routing::Top(count) => {
                // Drop the least share until `count` are left.
                let mut kept = shares.clone();
                for _ in count..self.experts.len() {
                    let least = kept.gt(0.0).select(&kept, 2.0).min_keepdims(-1);
                    kept = kept.gt(&least).select(&kept, 0.0);
                }
                &kept / kept.sum_keepdims(-1)
            }
        }
    }

    fn forward(&self, x: &Tensor, noise: Option<Key>) -> (Tensor, Tensor) {
        let shares = self.shares(x, noise);
        let outputs: Vec<Tensor> = self
            .experts
            .iter()
            .map(|expert| expert.forward(x))
            .collect();
        let y = (Tensor::stack(&outputs, 1) * shares.unsqueeze(-1)).sum(1);
        (y, shares.mean(0))
    }
}

#[traced]
fn loss(model: &Mixture, #[nodiff] x: &Tensor, #[nodiff] target: &Tensor, key: Key) -> Tensor {
    let (y, load) = model.forward(x, Some(key));
    let balance = load.square().sum(..) * load.dim(0) as f64;
    (y - target).square().mean(..) + balance * 0.01
}

fn model(routing: Routing) -> Mixture {
    let config = Config {
        width: 3,
        hidden: 8,
        routing,
    };
    let model = Mixture::new(Key::new(1), config);
    evaluate(&model).unwrap();
    model
}

fn data() -> (Tensor, Tensor) {
    let x = Key::new(2).normal([32, 3], DType::F64);
    let target = x.gt(0.0).select(&x, x.abs() * 0.5);
    evaluate((&x, &target)).unwrap();
    (x, target)
}

#[test]
fn each_row_goes_to_as_many_experts_as_the_routing_says() {
    let (x, _) = data();
    for (routing, count) in [
        (Routing::Soft, 4),
        (Routing::Top(2), 2),
        (Routing::Top(1), 1),
    ] {
        let shares = model(routing).shares(&x, None);
        near("the sums", &entries(&shares.sum(-1)), &[1.0; 32], 1e-14).unwrap();
        for row in entries(&shares).chunks(4) {
            assert_eq!(row.iter().filter(|&&share| share > 0.0).count(), count);
        }
    }
}

#[test]
fn a_row_of_one_expert_is_the_result_of_that_expert() {
    let (x, _) = data();
    let model = model(Routing::Top(1));
    let (y, load) = model.forward(&x, None);
    let chosen = model.gate.forward(&x).argmax(-1).to_vec::<i64>();
    let all: Vec<Vec<f64>> = model
        .experts
        .iter()
        .map(|e| entries(&e.forward(&x)))
        .collect();
    for (row, &expert) in chosen.iter().enumerate() {
        let part = 3 * row..3 * row + 3;
        let expected = &all[expert as usize][part.clone()];
        near("a row", &entries(&y)[part], expected, 1e-14).unwrap();
    }
    let share = |e: i64| chosen.iter().filter(|&&c| c == e).count() as f64 / 32.0;
    near("the load", &entries(&load), &[0, 1, 2, 3].map(share), 1e-14).unwrap();
}

#[test]
fn the_gradient_is_right_and_training_lowers_the_loss() {
    let (x, target) = data();
    for routing in [Routing::Soft, Routing::Top(2)] {
        let mut model = model(routing);
        let at = |model: &Mixture| loss(model, &x, &target, Key::new(3));
        let dmodel = noise_like(&model, 1);
        let gradient = loss::grad(&model, &x, &target, Key::new(3)).model;
        let slope = gradloom::tree::dot(&gradient, &dmodel);
        let expected = differences(&at, &model, &dmodel, 1e-5);
        near("the slope", &entries(&slope), &expected, 1e-6).unwrap();

        let adam = Adam {
            lr: 0.02,
            ..Adam::default()
        };
        let mut state = adam.init(&model);
        let before = at(&model).item::<f64>();
        for key in Key::new(4).split_many(60) {
            let (value, grads) = loss::value_and_grad(&model, &x, &target, key);
            (model, state) = adam.step(&model, &grads.model, &state);
            value.item::<f64>();
        }
        assert!(at(&model).item::<f64>() < 0.5 * before);
    }
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    assert_eq!(Expert::FORWARD_RECORDED, None);
    assert_eq!(Mixture::SHARES_RECORDED, None);
    assert_eq!(Mixture::FORWARD_RECORDED, None);
    assert_eq!(loss::RECORDED, None);
    let (x, target) = data();
    for routing in [Routing::Soft, Routing::Top(2)] {
        let mut model = model(routing);
        finds(|| model.forward(&x, Some(Key::new(5))));
        finds(|| loss::grad(&model, &x, &target, Key::new(5)).model);
        let adam = Adam::default();
        let mut state = adam.init(&model);
        let mut step = |seed| {
            let (value, grads) = loss::value_and_grad(&model, &x, &target, Key::new(seed));
            (model, state) = adam.step(&model, &grads.model, &state);
            evaluate((&value, &model, &state)).unwrap();
        };
        step(6);
        plans_nothing(|| step(7));
    }
}
