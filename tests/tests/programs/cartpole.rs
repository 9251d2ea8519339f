//! REINFORCE with a learned baseline on the cart and pole.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

/// The cart and pole of Barto, Sutton and Anderson.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CartPole {
    x: f64,
    speed: f64,
    angle: f64,
    spin: f64,
}

impl CartPole {
    fn new(seed: u64) -> Self {
        let at = entries(&(noise(&[4], seed) * 0.05));
        CartPole {
            x: at[0],
            speed: at[1],
            angle: at[2],
            spin: at[3],
        }
    }

    fn state(&self) -> [f64; 4] {
        [self.x, self.speed, self.angle, self.spin]
    }

    /// Pushes the cart, and returns whether the pole still stands.
    fn step(&mut self, right: bool) -> bool {
        let force = if right { 10.0 } else { -10.0 };
        let (sin, cos) = self.angle.sin_cos();
        let push = (force + 0.05 * self.spin.powi(2) * sin) / 1.1;
        let turn = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1));
        let pull = push - 0.05 * turn * cos / 1.1;
        self.x += 0.02 * self.speed;
        self.speed += 0.02 * pull;
        self.angle += 0.02 * self.spin;
        self.spin += 0.02 * turn;
        self.x.abs() < 2.4 && self.angle.abs() < 12f64.to_radians()
    }
}

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Dense {
    fn new(key: Key, inputs: usize, outputs: usize) -> Self {
        Dense {
            w: key.normal([inputs, outputs], DType::F64) / (inputs as f64).sqrt(),
            b: Tensor::zeros([outputs], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

/// Episodes one after the other. Rows beyond their end have weight 0.
#[derive(Clone, Tree)]
struct Batch {
    states: Tensor,
    actions: Tensor,
    returns: Tensor,
    weights: Tensor,
}

#[derive(Clone, Tree)]
struct Agent {
    body: Dense,
    policy: Dense,
    value: Dense,
}

/// The parts of the loss.
#[derive(Clone, Tree)]
struct Losses {
    policy: Tensor,
    value: Tensor,
    entropy: Tensor,
}

#[traced]
impl Agent {
    fn new(key: Key, hidden: usize) -> Self {
        let [body, policy, value] = key.split_n();
        Agent {
            body: Dense::new(body, 4, hidden),
            policy: Dense::new(policy, hidden, 2),
            value: Dense::new(value, hidden, 1),
        }
    }

    /// Returns the logits of the actions, and the value of each state.
    fn forward(&self, states: &Tensor) -> (Tensor, Tensor) {
        let h = self.body.forward(states).tanh();
        (self.policy.forward(&h), self.value.forward(&h).squeeze(-1))
    }

    /// Draws an action for each state.
    fn act(&self, states: &Tensor, key: Key) -> Tensor {
        let (logits, _) = self.forward(states);
        let gumbel = -(-key.uniform(logits.shape(), logits.dtype()).log()).log();
        (logits + gumbel).argmax(-1)
    }

    fn losses(&self, #[nodiff] batch: &Batch) -> Losses {
        let (logits, values) = self.forward(&batch.states);
        let log_probs = logits.log_softmax(-1);
        let chosen = (&log_probs * batch.actions.one_hot(2, log_probs.dtype())).sum(-1);
        let advantages = (&batch.returns - &values).stop_gradient();
        let count = batch.weights.sum(..);
        let mean = |x: Tensor| (x * &batch.weights).sum(..) / &count;
        Losses {
            policy: -mean(chosen * advantages),
            value: mean((values - &batch.returns).square()),
            entropy: -mean((log_probs.exp() * &log_probs).sum(-1)),
        }
    }

    fn loss(&self, #[nodiff] batch: &Batch) -> Tensor {
        let losses = self.losses(batch);
        losses.policy + losses.value * 0.5 - losses.entropy * 0.01
    }
}

const MAX_STEPS: usize = 100;
const EPISODES: usize = 4;

fn play(agent: &Agent, seed: u64, key: Key) -> (Batch, f64) {
    let (mut states, mut actions) = (Vec::new(), Vec::new());
    let (mut returns, mut weights) = (Vec::new(), Vec::new());
    let mut total = 0;
    for (episode, key) in key.split_many(EPISODES).into_iter().enumerate() {
        let mut env = CartPole::new(seed * EPISODES as u64 + episode as u64);
        let mut steps = 0;
        for key in key.split_many(MAX_STEPS) {
            let state = env.state();
            let action = agent.act(&Tensor::from([state]), key).item::<i64>();
            states.extend(state);
            actions.push(action);
            steps += 1;
            if !env.step(action == 1) {
                break;
            }
        }
        returns.extend((0..steps).map(|i| (1.0 - 0.97f64.powi((steps - i) as i32)) / 0.3));
        weights.extend(vec![1.0; steps]);
        total += steps;
    }
    let rows = MAX_STEPS * EPISODES;
    states.resize(4 * rows, 0.0);
    actions.resize(rows, 0);
    returns.resize(rows, 0.0);
    weights.resize(rows, 0.0);
    let batch = Batch {
        states: Tensor::from_vec(states, [rows, 4]),
        actions: Tensor::from(actions),
        returns: Tensor::from(returns),
        weights: Tensor::from(weights),
    };
    (batch, total as f64 / EPISODES as f64)
}

fn agent() -> Agent {
    let agent = Agent::new(Key::new(3), 8);
    evaluate(&agent).unwrap();
    agent
}

/// Returns a small batch, whose last row does not count.
fn batch() -> Batch {
    Batch {
        states: noise(&[5, 4], 1),
        actions: Tensor::from([0i64, 1, 1, 0, 1]),
        returns: noise(&[5], 2),
        weights: Tensor::from([1.0f64, 1.0, 1.0, 1.0, 0.0]),
    }
}

fn dense_by_loops(layer: &Dense, x: &[f64]) -> Vec<f64> {
    let (w, b) = (entries(&layer.w), entries(&layer.b));
    let product = |j: usize| {
        x.iter()
            .enumerate()
            .map(|(i, x)| x * w[i * b.len() + j])
            .sum::<f64>()
    };
    (0..b.len()).map(|j| product(j) + b[j]).collect()
}

#[test]
fn the_loss_is_that_of_plain_loops() {
    let (agent, batch) = (agent(), batch());
    let (actions, returns) = (batch.actions.to_vec::<i64>(), entries(&batch.returns));
    let mut expected = [0.0; 3];
    for (i, state) in entries(&batch.states).chunks(4).take(4).enumerate() {
        let h: Vec<f64> = dense_by_loops(&agent.body, state)
            .into_iter()
            .map(f64::tanh)
            .collect();
        let (logits, value) = (
            dense_by_loops(&agent.policy, &h),
            dense_by_loops(&agent.value, &h),
        );
        let sum: f64 = logits.iter().map(|z| z.exp()).sum();
        let p: Vec<f64> = logits.iter().map(|z| z.exp() / sum).collect();
        expected[0] -= p[actions[i] as usize].ln() * (returns[i] - value[0]) / 4.0;
        expected[1] += (value[0] - returns[i]).powi(2) / 4.0;
        expected[2] -= p.iter().map(|p| p * p.ln()).sum::<f64>() / 4.0;
    }
    near(
        "the losses",
        &entries(&agent.losses(&batch)),
        &expected,
        1e-13,
    )
    .unwrap();
}

#[test]
fn the_derivative_of_the_value_is_right() {
    let states = batch().states;
    Companions {
        call: &|agent: &Agent| agent.forward(&states),
        vjp: &|agent, ct| {
            let (y, pullback) = agent.forward_vjp(&states);
            (y, pullback(ct).0)
        },
        jvp: &|agent, dagent| agent.forward_jvp(&states, (dagent, &states.zeros_like())),
    }
    .check(&agent());
}

/// The gradient of `log p` is `(one_hot - p) h` at the weights of the policy.
#[test]
fn the_policy_gradient_is_that_of_the_closed_form() {
    let (agent, batch) = (agent(), batch());
    let h = agent.body.forward(&batch.states).tanh();
    let (logits, values) = agent.forward(&batch.states);
    let factor = (&batch.returns - values) * &batch.weights / 4.0;
    let error = batch.actions.one_hot(2, DType::F64) - logits.softmax(-1);
    let expected = -h.t().matmul(error * factor.unsqueeze(-1));
    let found = grad(|agent: &Agent| agent.losses(&batch).policy)(&agent)
        .policy
        .w;
    near("the gradient", &entries(&found), &entries(&expected), 1e-12).unwrap();
}

#[test]
fn training_makes_episodes_longer_and_a_step_plans_nothing() {
    let adam = Adam {
        lr: 0.03,
        ..Adam::default()
    };
    let mut agent = agent();
    let mut state = adam.init(&agent);
    let mut lengths = Vec::new();
    for (i, key) in Key::new(1).split_many(25).into_iter().enumerate() {
        let step = || {
            let (batch, length) = play(&agent, i as u64, key);
            let grads = agent.loss_grad(&batch).this;
            (agent, state) = adam.step(&agent, &grads, &state);
            evaluate(&(agent.clone(), state.clone())).unwrap();
            lengths.push(length);
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    let mean = |lengths: &[f64]| lengths.iter().sum::<f64>() / lengths.len() as f64;
    let (before, after) = (mean(&lengths[..4]), mean(&lengths[21..]));
    assert!(after > 2.0 * before, "{lengths:?}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(Agent::ACT_RECORDED, None);
    assert_eq!(Agent::LOSSES_RECORDED, None);
    assert_eq!(Agent::LOSS_RECORDED, None);
    let (agent, batch) = (agent(), batch());
    finds(|| agent.act(&batch.states, Key::new(1)));
    finds(|| agent.losses(&batch));
    finds(|| agent.loss_grad(&batch).this);
}
