//! Six layers with batch norm, whose running state is a struct returned beside the result.

use gradloom::prelude::*;
use gradloom_tests::adversary::list;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

const WIDTH: usize = 5;
const ROWS: usize = 8;
const EPS: f64 = 1e-5;

#[derive(Clone, Tree)]
struct Running {
    mean: Tensor,
    var: Tensor,
}

#[derive(Clone, Tree)]
struct BatchNorm {
    scale: Tensor,
    shift: Tensor,
}

#[derive(Clone, Tree)]
struct Block {
    w: Tensor,
    bn: BatchNorm,
}

#[derive(Clone, Tree)]
struct Net {
    blocks: Vec<Block>,
    head: Tensor,
}

#[traced]
impl BatchNorm {
    fn forward(&self, x: &Tensor, #[nodiff] running: &Running) -> (Tensor, Running) {
        let mean = x.mean(0);
        let var = (x - &mean).square().mean(0);
        let y = (x - &mean) / (&var + EPS).sqrt() * &self.scale + &self.shift;
        let running = Running {
            mean: &running.mean * 0.9 + mean.stop_gradient() * 0.1,
            var: &running.var * 0.9 + var.stop_gradient() * 0.1,
        };
        (y, running)
    }
}

#[traced]
impl Block {
    fn forward(&self, x: &Tensor, #[nodiff] running: &Running) -> (Tensor, Running) {
        let (h, running) = self.bn.forward(&x.matmul(&self.w), running);
        (h.tanh(), running)
    }
}

#[traced]
fn loss(
    net: &Net,
    #[nodiff] state: &Vec<Running>,
    #[nodiff] x: &Tensor,
    #[nodiff] y: &Tensor,
) -> (Tensor, Vec<Running>) {
    let mut h = x.clone();
    let mut next = Vec::new();
    for (block, running) in net.blocks.iter().zip(state) {
        let (out, running) = block.forward(&h, running);
        h = out;
        next.push(running);
    }
    ((h.matmul(&net.head) - y).square().mean(..), next)
}

fn net() -> Net {
    let block = |i: u64| Block {
        w: noise(&[WIDTH, WIDTH], 10 + i),
        bn: BatchNorm {
            scale: noise(&[WIDTH], 20 + i) * 0.2 + 1.0,
            shift: noise(&[WIDTH], 30 + i) * 0.2,
        },
    };
    let net = Net {
        blocks: (0..6).map(block).collect(),
        head: noise(&[WIDTH, 1], 40),
    };
    evaluate(&net).unwrap();
    net
}

fn state() -> Vec<Running> {
    let running = |_| Running {
        mean: Tensor::from([0.0f64; WIDTH]),
        var: Tensor::from([1.0f64; WIDTH]),
    };
    (0..6).map(running).collect()
}

fn data() -> (Tensor, Tensor) {
    (noise(&[ROWS, WIDTH], 1), noise(&[ROWS, 1], 2))
}

/// Computes the loss and the running state in plain loops.
fn plain(net: &Net, state: &[Running], x: &Tensor, y: &Tensor) -> (f64, Vec<Vec<f64>>) {
    let mut h = x.to_vec::<f64>();
    let mut next = Vec::new();
    for (block, running) in net.blocks.iter().zip(state) {
        let (w, scale) = (block.w.to_vec::<f64>(), block.bn.scale.to_vec::<f64>());
        let shift = block.bn.shift.to_vec::<f64>();
        let (mut means, mut vars) = (running.mean.to_vec::<f64>(), running.var.to_vec::<f64>());
        let product = |i: usize, j: usize| -> f64 {
            (0..WIDTH)
                .map(|k| h[i * WIDTH + k] * w[k * WIDTH + j])
                .sum()
        };
        let mut out = vec![0.0; ROWS * WIDTH];
        for j in 0..WIDTH {
            let column: Vec<f64> = (0..ROWS).map(|i| product(i, j)).collect();
            let mean = column.iter().sum::<f64>() / ROWS as f64;
            let var = column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / ROWS as f64;
            for (i, v) in column.iter().enumerate() {
                let normal = (v - mean) / (var + EPS).sqrt();
                out[i * WIDTH + j] = (normal * scale[j] + shift[j]).tanh();
            }
            means[j] = means[j] * 0.9 + mean * 0.1;
            vars[j] = vars[j] * 0.9 + var * 0.1;
        }
        h = out;
        next.extend([means, vars]);
    }
    let (head, y) = (net.head.to_vec::<f64>(), y.to_vec::<f64>());
    let error = |i: usize| (0..WIDTH).map(|k| h[i * WIDTH + k] * head[k]).sum::<f64>() - y[i];
    let loss = (0..ROWS).map(|i| error(i).powi(2)).sum::<f64>() / ROWS as f64;
    (loss, next)
}

#[test]
fn loss_and_running_state_are_those_of_plain_loops() {
    let (net, (x, y)) = (net(), data());
    let mut running = state();
    for _ in 0..3 {
        let (expected, states) = plain(&net, &running, &x, &y);
        let (found, next) = loss(&net, &running, &x, &y);
        near("the loss", &entries(&found), &[expected], 1e-12).unwrap();
        near("the state", &entries(&next), &states.concat(), 1e-12).unwrap();
        running = next;
    }
}

#[test]
fn the_gradient_of_the_loss_is_right() {
    let (state, (x, y)) = (state(), data());
    let no_change = state.map(&mut |leaf| leaf.zeros_like());
    Companions {
        call: &|net: &Net| loss(net, &state, &x, &y).0,
        vjp: &|net, ct: &Tensor| {
            let ((value, _), pullback) = loss::vjp(net, &state, &x, &y);
            (value, pullback(&(ct.clone(), no_change.clone())))
        },
        jvp: &|net, dnet| {
            let ((value, _), (change, _)) = loss::jvp((net, &state, &x, &y), dnet);
            (value, change)
        },
    }
    .check(&net());
}

#[test]
fn training_makes_the_loss_smaller_and_a_step_records_nothing() {
    let (x, y) = data();
    let step = |(net, running): &(Net, Vec<Running>)| {
        let ((value, next), pullback) = loss::vjp(net, running, &x, &y);
        let no_change = next.map(&mut |leaf| leaf.zeros_like());
        let gradient = pullback(&(value.ones_like(), no_change));
        let mut gradient = list(&gradient).into_iter();
        let net = net.map(&mut |w| w - gradient.next().unwrap() * 0.02);
        let next = (net, next);
        evaluate(&(next.clone(), value)).unwrap();
        next
    };
    let first = (net(), state());
    let trained = (0..60).fold(first.clone(), |now, _| step(&now));
    let value = |(net, running): &(Net, Vec<Running>)| loss(net, running, &x, &y).0.item::<f64>();
    let (before, after) = (value(&first), value(&trained));
    assert!(after < 0.5 * before, "{before} and {after}");
    assert_eq!(loss::RECORDED, None);
    finds(|| loss(&trained.0, &trained.1, &x, &y));
    plans_nothing(|| {
        step(&trained);
    });
}
