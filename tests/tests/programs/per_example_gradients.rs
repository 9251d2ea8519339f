//! The gradient of each example, by a loop and by one weight for each example, and private training
//! that clips each of them.

use gradloom::optim;
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::derivatives::{entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<Layer>,
}

#[traced]
impl Net {
    fn new(key: Key, widths: &[usize]) -> Self {
        let keys = key.split_many(widths.len() - 1);
        let layer = |(key, pair): (Key, &[usize])| Layer {
            w: key.normal([pair[0], pair[1]], DType::F64),
            b: Tensor::zeros([pair[1]], DType::F64),
        };
        Net {
            layers: keys.into_iter().zip(widths.windows(2)).map(layer).collect(),
        }
    }

    /// Also takes weights and inputs with one more axis in front.
    fn forward(&self, x: &Tensor) -> Tensor {
        let (last, hidden) = self.layers.split_last().unwrap();
        let mut h = x.clone();
        for Layer { w, b } in hidden {
            h = (h.matmul(w) + b.unsqueeze(-2)).tanh();
        }
        h.matmul(&last.w) + last.b.unsqueeze(-2)
    }
}

#[traced]
fn loss(net: &Net, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (net.forward(x) - y).square().mean([-2, -1]).sum(..)
}

/// Returns the rows `i..i + 1` of both tensors.
#[traced]
fn example(x: &Tensor, y: &Tensor, i: usize) -> (Tensor, Tensor) {
    (x.slice([i], [i + 1], [1]), y.slice([i], [i + 1], [1]))
}

#[traced]
fn by_loop(net: &Net, x: &Tensor, y: &Tensor) -> Vec<Net> {
    (0..x.dim(0))
        .map(|i| {
            let (x, y) = example(x, y, i);
            loss::grad(net, &x, &y).net
        })
        .collect()
}

/// Repeats the weights, and returns gradients with an axis for the examples.
#[traced]
fn batched(net: &Net, x: &Tensor, y: &Tensor) -> Net {
    let n = x.dim(0);
    let repeated = net.map(&mut |w| {
        let shape: Vec<usize> = [n].into_iter().chain(w.shape().iter().copied()).collect();
        w.broadcast_to(shape)
    });
    loss::grad(&repeated, &x.unsqueeze(1), &y.unsqueeze(1)).net
}

/// A step of gradient descent with clipped gradients and noise.
#[traced]
fn private_step(net: &Net, x: &Tensor, y: &Tensor, key: Key, max_norm: f64, lr: f64) -> Net {
    let total = by_loop(net, x, y)
        .iter()
        .map(|g| optim::clip_by_norm(g, max_norm))
        .reduce(|a, b| tree::add(&a, &b))
        .unwrap();
    let mut keys = key.split_many(2 * net.layers.len()).into_iter();
    let noisy = total.map(&mut |g| {
        let key = keys.next().unwrap();
        g + key.normal(g.shape(), g.dtype()) * (0.01 * max_norm)
    });
    tree::sub(net, &tree::scale(&noisy, lr / x.dim(0) as f64))
}

const ROWS: usize = 6;

fn net() -> Net {
    let net = Net::new(Key::new(2), &[3, 4, 2]);
    evaluate(&net).unwrap();
    net
}

fn data() -> (Tensor, Tensor) {
    let x = noise(&[ROWS, 3], 1);
    let y = Tensor::concat(&[x.sum_keepdims(-1), x.square().sum_keepdims(-1)], -1);
    evaluate(&y).unwrap();
    (x, y)
}

/// Returns the gradient of one example by the chain rule.
fn by_hand(net: &Net, x: &[f64], y: &[f64]) -> Vec<f64> {
    let [first, last] = &net.layers[..] else {
        unreachable!()
    };
    let (w1, b1) = (entries(&first.w), entries(&first.b));
    let (w2, b2) = (entries(&last.w), entries(&last.b));
    let h: Vec<f64> = (0..4)
        .map(|j| {
            (x.iter()
                .enumerate()
                .map(|(i, x)| x * w1[i * 4 + j])
                .sum::<f64>()
                + b1[j])
                .tanh()
        })
        .collect();
    let error: Vec<f64> = (0..2)
        .map(|k| (0..4).map(|j| h[j] * w2[j * 2 + k]).sum::<f64>() + b2[k] - y[k])
        .collect();
    let slope = |j: usize| {
        let back: f64 = (0..2).map(|k| error[k] * w2[j * 2 + k]).sum();
        back * (1.0 - h[j] * h[j])
    };
    let slopes: Vec<f64> = (0..4).map(slope).collect();
    let outer = |a: &[f64], b: &[f64]| -> Vec<f64> {
        a.iter()
            .flat_map(|a| b.iter().map(move |b| a * b))
            .collect()
    };
    [outer(x, &slopes), slopes, outer(&h, &error), error].concat()
}

#[test]
fn both_are_those_of_the_chain_rule() {
    let (net, (x, y)) = (net(), data());
    let looped = by_loop(&net, &x, &y);
    let together = batched(&net, &x, &y);
    for (i, looped) in looped.iter().enumerate() {
        let expected = by_hand(
            &net,
            &entries(&x)[3 * i..3 * i + 3],
            &entries(&y)[2 * i..2 * i + 2],
        );
        near("by the loop", &entries(looped), &expected, 1e-12).unwrap();
        let one = together.map(&mut |g| g.slice([i], [i + 1], [1]).squeeze(0));
        near("together", &entries(&one), &expected, 1e-12).unwrap();
    }
    let sum = together.map(&mut |g| g.mean(0));
    near(
        "the mean",
        &entries(&sum),
        &entries(&loss::grad(&net, &x, &y).net),
        1e-12,
    )
    .unwrap();
}

#[test]
fn a_private_step_clips_each_gradient() {
    let (net, (x, y)) = (net(), data());
    let (max_norm, lr) = (0.3, 0.5);
    let next = private_step(&net, &x, &y, Key::new(1), max_norm, lr);
    let mut total = vec![0.0; entries(&net).len()];
    for i in 0..ROWS {
        let g = by_hand(
            &net,
            &entries(&x)[3 * i..3 * i + 3],
            &entries(&y)[2 * i..2 * i + 2],
        );
        let norm = g.iter().map(|g| g * g).sum::<f64>().sqrt();
        let factor = f64::min(1.0, max_norm / norm);
        total
            .iter_mut()
            .zip(&g)
            .for_each(|(total, g)| *total += g * factor);
    }
    let keys = Key::new(1).split_many(4).into_iter();
    let shapes: [&[usize]; 4] = [&[3, 4], &[4], &[4, 2], &[2]];
    let noise = keys
        .zip(shapes)
        .flat_map(|(key, shape)| entries(&key.normal(shape, DType::F64)));
    let expected: Vec<f64> = entries(&net)
        .iter()
        .zip(total.iter().zip(noise))
        .map(|(w, (g, noise))| w - lr / ROWS as f64 * (g + 0.01 * max_norm * noise))
        .collect();
    near("the step", &entries(&next), &expected, 1e-12).unwrap();
}

#[test]
fn private_training_makes_the_loss_smaller_and_a_step_plans_nothing() {
    let (x, y) = data();
    let mut net = net();
    let before = loss(&net, &x, &y).item::<f64>();
    for (i, key) in Key::new(9).split_many(40).into_iter().enumerate() {
        let step = || {
            net = private_step(&net, &x, &y, key, 1.0, 0.2);
            evaluate(&net).unwrap();
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    let after = loss(&net, &x, &y).item::<f64>();
    assert!(after < 0.3 * before, "{before} and {after}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(loss::RECORDED, None);
    assert_eq!(by_loop::RECORDED, None);
    assert_eq!(batched::RECORDED, None);
    assert_eq!(private_step::RECORDED, None);
    let (net, (x, y)) = (net(), data());
    finds(|| by_loop(&net, &x, &y));
    finds(|| batched(&net, &x, &y));
    finds(|| private_step(&net, &x, &y, Key::new(1), 1.0, 0.1));
}
