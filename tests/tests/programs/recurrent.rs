//! An LSTM and a GRU over a sequence, with a struct as state and the hidden states in a `Vec`.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
    c: Tensor,
}

#[derive(Clone, Tree)]
struct Lstm {
    wx: Tensor,
    wh: Tensor,
    b: Tensor,
}

#[traced]
impl Lstm {
    fn new(key: Key, inputs: usize, hidden: usize) -> Self {
        let (a, b) = key.split();
        Lstm {
            wx: a.normal([inputs, 4 * hidden], DType::F64) * 0.5,
            wh: b.normal([hidden, 4 * hidden], DType::F64) * 0.5,
            b: Tensor::zeros([4 * hidden], DType::F64),
        }
    }

    fn start(&self, batch: usize) -> State {
        let zeros = Tensor::zeros([batch, self.wh.dim(0)], self.wh.dtype());
        State {
            h: zeros.clone(),
            c: zeros,
        }
    }

    fn step(&self, x: &Tensor, state: &State) -> State {
        let gates = x.matmul(&self.wx) + state.h.matmul(&self.wh) + &self.b;
        let [i, f, g, o] = gates.split(-1);
        let c = f.sigmoid() * &state.c + i.sigmoid() * g.tanh();
        State {
            h: o.sigmoid() * c.tanh(),
            c,
        }
    }

    /// Takes `[time, batch, features]`, and returns the hidden states and the last state.
    fn forward(&self, x: &Tensor) -> (Tensor, State) {
        let mut state = self.start(x.dim(1));
        let mut hidden = Vec::new();
        for t in 0..x.dim(0) {
            state = self.step(&x.slice([t], [t + 1], [1]).squeeze(0), &state);
            hidden.push(state.h.clone());
        }
        (Tensor::stack(&hidden, 0), state)
    }
}

#[derive(Clone, Tree)]
struct Gru {
    wx: Tensor,
    wh: Tensor,
    b: Tensor,
}

#[traced]
impl Gru {
    fn new(key: Key, inputs: usize, hidden: usize) -> Self {
        let (a, b) = key.split();
        Gru {
            wx: a.normal([inputs, 3 * hidden], DType::F64) * 0.5,
            wh: b.normal([hidden, 3 * hidden], DType::F64) * 0.5,
            b: Tensor::zeros([3 * hidden], DType::F64),
        }
    }

    fn step(&self, x: &Tensor, h: &Tensor) -> Tensor {
        let [xr, xz, xn] = (x.matmul(&self.wx) + &self.b).split(-1);
        let [hr, hz, hn] = h.matmul(&self.wh).split(-1);
        let (reset, update) = ((xr + hr).sigmoid(), (xz + hz).sigmoid());
        let candidate = (xn + reset * hn).tanh();
        &update * h + (1.0 - &update) * candidate
    }

    /// Takes `[time, batch, features]`, and returns the hidden states.
    fn forward(&self, x: &Tensor, start: Option<&Tensor>) -> Tensor {
        let mut h = match start {
            Some(h) => h.clone(),
            None => Tensor::zeros([x.dim(1), self.wh.dim(0)], x.dtype()),
        };
        let hidden: Vec<Tensor> = (0..x.dim(0))
            .map(|t| {
                h = self.step(&x.slice([t], [t + 1], [1]).squeeze(0), &h);
                h.clone()
            })
            .collect();
        Tensor::stack(&hidden, 0)
    }
}

#[derive(Clone, Tree)]
struct Net {
    lstm: Lstm,
    gru: Gru,
    head: Tensor,
}

#[traced]
impl Net {
    fn new(key: Key) -> Self {
        let [lstm, gru, head] = key.split_n();
        Net {
            lstm: Lstm::new(lstm, INPUTS, HIDDEN),
            gru: Gru::new(gru, HIDDEN, HIDDEN),
            head: head.normal([HIDDEN, 1], DType::F64),
        }
    }

    fn loss(&self, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
        let (hidden, State { c, .. }) = self.lstm.forward(x);
        let hidden = self.gru.forward(&hidden, None);
        let last = hidden.slice([TIME - 1], [TIME], [1]).squeeze(0);
        (last.matmul(&self.head) - y).square().mean(..) + c.square().mean(..) * 1e-3
    }
}

const TIME: usize = 5;
const BATCH: usize = 3;
const INPUTS: usize = 2;
const HIDDEN: usize = 3;

fn net() -> Net {
    let net = Net::new(Key::new(7));
    evaluate(&net).unwrap();
    net
}

fn data() -> (Tensor, Tensor) {
    let x = noise(&[TIME, BATCH, INPUTS], 1);
    let y = x.sum([0, 2]).reshape([-1, 1]);
    evaluate(&y).unwrap();
    (x, y)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns row `row` of `x w`, where `x` has `n` columns.
fn product(x: &[f64], w: &[f64], gates: usize) -> Vec<f64> {
    (0..gates)
        .map(|j| {
            x.iter()
                .enumerate()
                .map(|(k, x)| x * w[k * gates + j])
                .sum()
        })
        .collect()
}

#[test]
fn lstm_is_that_of_plain_loops() {
    let (lstm, x) = (net().lstm, data().0);
    let lstm = Lstm {
        b: noise(&[4 * HIDDEN], 5),
        ..lstm
    };
    let (wx, wh, b) = (entries(&lstm.wx), entries(&lstm.wh), entries(&lstm.b));
    let mut h = vec![vec![0.0; HIDDEN]; BATCH];
    let mut c = h.clone();
    let mut hidden = Vec::new();
    for rows in entries(&x).chunks(BATCH * INPUTS) {
        for (r, x) in rows.chunks(INPUTS).enumerate() {
            let (a, r_h) = (product(x, &wx, 4 * HIDDEN), product(&h[r], &wh, 4 * HIDDEN));
            let gate = |j: usize| a[j] + r_h[j] + b[j];
            for j in 0..HIDDEN {
                c[r][j] = sigmoid(gate(HIDDEN + j)) * c[r][j]
                    + sigmoid(gate(j)) * gate(2 * HIDDEN + j).tanh();
                h[r][j] = sigmoid(gate(3 * HIDDEN + j)) * c[r][j].tanh();
            }
        }
        hidden.extend(h.concat());
    }
    let (found, last) = lstm.forward(&x);
    near("the hidden states", &entries(&found), &hidden, 1e-12).unwrap();
    near(
        "the last state",
        &entries(&last),
        &[h.concat(), c.concat()].concat(),
        1e-12,
    )
    .unwrap();
}

#[test]
fn gru_is_that_of_plain_loops() {
    let (gru, x) = (net().gru, noise(&[TIME, BATCH, HIDDEN], 3));
    let gru = Gru {
        b: noise(&[3 * HIDDEN], 5),
        ..gru
    };
    let start = noise(&[BATCH, HIDDEN], 4);
    let (wx, wh, b) = (entries(&gru.wx), entries(&gru.wh), entries(&gru.b));
    let mut h: Vec<Vec<f64>> = entries(&start)
        .chunks(HIDDEN)
        .map(<[f64]>::to_vec)
        .collect();
    let mut hidden = Vec::new();
    for rows in entries(&x).chunks(BATCH * HIDDEN) {
        for (r, x) in rows.chunks(HIDDEN).enumerate() {
            let (a, r_h) = (product(x, &wx, 3 * HIDDEN), product(&h[r], &wh, 3 * HIDDEN));
            for j in 0..HIDDEN {
                let gate = |k: usize| a[k * HIDDEN + j] + b[k * HIDDEN + j];
                let (reset, update) = (
                    sigmoid(gate(0) + r_h[j]),
                    sigmoid(gate(1) + r_h[HIDDEN + j]),
                );
                let candidate = (gate(2) + reset * r_h[2 * HIDDEN + j]).tanh();
                h[r][j] = update * h[r][j] + (1.0 - update) * candidate;
            }
        }
        hidden.extend(h.concat());
    }
    let found = gru.forward(&x, Some(&start));
    near("the hidden states", &entries(&found), &hidden, 1e-12).unwrap();
}

#[test]
fn the_derivative_through_time_is_right() {
    let (x, y) = data();
    Companions {
        call: &|net: &Net| net.loss(&x, &y),
        vjp: &|net, ct| {
            let (y, pullback) = net.loss_vjp(&x, &y);
            (y, pullback(ct))
        },
        jvp: &|net, dnet| net.loss_jvp((&x, &y), dnet),
    }
    .check(&net());
}

#[test]
fn training_makes_the_loss_smaller_and_a_step_plans_nothing() {
    let (x, y) = data();
    let sgd = gradloom::optim::Sgd {
        lr: 0.1,
        momentum: 0.9,
        ..Default::default()
    };
    let mut net = net();
    let mut state = sgd.init(&net);
    let mut losses = Vec::new();
    for i in 0..60 {
        let mut step = || {
            let (loss, grads) = net.loss_value_and_grad(&x, &y);
            (net, state) = sgd.step(&net, &grads.this, &state);
            losses.push(loss.item::<f64>());
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert!(losses[59] < 0.1 * losses[0], "{losses:?}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(Lstm::STEP_RECORDED, None);
    assert_eq!(Lstm::FORWARD_RECORDED, None);
    assert_eq!(Gru::FORWARD_RECORDED, None);
    assert_eq!(Net::LOSS_RECORDED, None);
    let (net, (x, y)) = (net(), data());
    finds(|| net.lstm.forward(&x));
    finds(|| net.loss(&x, &y));
    finds(|| net.loss_grad(&x, &y).this);
}
