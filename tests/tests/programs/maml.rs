//! Model-agnostic meta-learning of sines: the loss after three steps of gradient descent,
//! differentiated with respect to the initial parameters.

use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Net {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
}

#[traced]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = (x.matmul(&self.w1) + &self.b1).tanh();
        h.matmul(&self.w2) + &self.b2
    }
}

#[traced]
fn mse(net: &Net, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (net.forward(x) - y).square().mean(..)
}

#[traced]
fn adapted_loss(
    net: &Net,
    #[nodiff] x: &Tensor,
    #[nodiff] y: &Tensor,
    #[nodiff] x_new: &Tensor,
    #[nodiff] y_new: &Tensor,
    lr: f64,
) -> Tensor {
    let mut fast = net.clone();
    for _ in 0..3 {
        let g = mse::grad(&fast, x, y).net;
        fast = tree::sub(&fast, &tree::scale(&g, lr));
    }
    mse(&fast, x_new, y_new)
}

fn net() -> Net {
    let net = Net {
        w1: noise(&[1, 6], 1) * 2.0,
        b1: noise(&[6], 2),
        w2: noise(&[6, 1], 3),
        b2: noise(&[1], 4),
    };
    evaluate(&net).unwrap();
    net
}

/// Returns points of a sine and their values.
fn task(amplitude: f64, phase: f64, seed: u64) -> (Tensor, Tensor) {
    let x = noise(&[8, 1], seed) * 3.0;
    let y = (&x + phase).sin() * amplitude;
    evaluate(&(x.clone(), y.clone())).unwrap();
    (x, y)
}

#[test]
fn the_gradient_goes_through_the_inner_steps() {
    let ((x, y), (x_new, y_new)) = (task(1.5, 0.3, 10), task(1.5, 0.3, 11));
    Companions {
        call: &|net: &Net| adapted_loss(net, &x, &y, &x_new, &y_new, 0.1),
        vjp: &|net, ct| {
            let (y, pullback) = adapted_loss::vjp(net, &x, &y, &x_new, &y_new, 0.1);
            (y, pullback(ct))
        },
        jvp: &|net, dnet| adapted_loss::jvp((net, &x, &y, &x_new, &y_new, 0.1), dnet),
    }
    .check(&net());
}

#[test]
fn meta_training_makes_adaptation_better_and_a_step_plans_nothing() {
    let tasks: Vec<_> = (0..4)
        .map(|i| (task(1.0, 0.4 * i as f64, 20), task(1.0, 0.4 * i as f64, 21)))
        .collect();
    let total = |net: &Net| -> f64 {
        let losses = tasks
            .iter()
            .map(|((x, y), (x_new, y_new))| adapted_loss(net, x, y, x_new, y_new, 0.1));
        losses.map(|loss| loss.item::<f64>()).sum()
    };
    let step = |net: &Net| {
        let mut net = net.clone();
        for ((x, y), (x_new, y_new)) in &tasks {
            let g = adapted_loss::grad(&net, x, y, x_new, y_new, 0.1).net;
            net = Net {
                w1: &net.w1 - g.w1 * 0.02,
                b1: &net.b1 - g.b1 * 0.02,
                w2: &net.w2 - g.w2 * 0.02,
                b2: &net.b2 - g.b2 * 0.02,
            };
            evaluate(&net).unwrap();
        }
        net
    };
    let first = net();
    let trained = (0..60).fold(first.clone(), |net, _| step(&net));
    let (before, after) = (total(&first), total(&trained));
    assert!(after < 0.5 * before, "{before} and {after}");
    plans_nothing(|| {
        step(&trained);
    });
}

#[test]
fn a_second_gradient_is_not_recorded() {
    let (net, (x, y), (x_new, y_new)) = (net(), task(1.0, 0.0, 10), task(1.0, 0.0, 11));
    assert_eq!(adapted_loss::RECORDED, None);
    finds(|| adapted_loss(&net, &x, &y, &x_new, &y_new, 0.1));
    finds(|| adapted_loss::grad(&net, &x, &y, &x_new, &y_new, 0.1).net);
}
