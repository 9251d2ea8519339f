//! Model-agnostic meta-learning of sines: the losses of tasks after three steps of gradient descent,
//! differentiated with respect to the initial parameters.

use gradloom::optim::Sgd;
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::derivatives::{Companions, entries, near};
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
    fn new(key: Key, hidden: usize) -> Self {
        let (a, b) = key.split();
        Net {
            w1: a.normal([1, hidden], DType::F64),
            b1: Tensor::zeros([hidden], DType::F64),
            w2: b.normal([hidden, 1], DType::F64) * 0.5,
            b2: Tensor::zeros([1], DType::F64),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let h = (x.matmul(&self.w1) + &self.b1).tanh();
        h.matmul(&self.w2) + &self.b2
    }
}

#[traced]
fn mse(net: &Net, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (net.forward(x) - y).square().mean(..)
}

/// A task of a few examples: those to adapt to, and others.
#[derive(Clone, Tree)]
struct Task {
    x: Tensor,
    y: Tensor,
    x_new: Tensor,
    y_new: Tensor,
}

#[traced]
fn adapt(net: &Net, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor, lr: f64) -> Net {
    let mut fast = net.clone();
    for _ in 0..3 {
        let g = mse::grad(&fast, x, y).net;
        fast = tree::sub(&fast, &tree::scale(&g, lr));
    }
    fast
}

#[traced]
fn adapted_loss(net: &Net, #[nodiff] task: &Task, lr: f64) -> Tensor {
    let fast = adapt(net, &task.x, &task.y, lr);
    mse(&fast, &task.x_new, &task.y_new)
}

#[traced]
fn meta_loss(net: &Net, #[nodiff] tasks: &[Task], lr: f64) -> Tensor {
    let losses: Vec<Tensor> = tasks
        .iter()
        .map(|task| adapted_loss(net, task, lr))
        .collect();
    Tensor::stack(&losses, 0).mean(..)
}

fn net() -> Net {
    let net = Net::new(Key::new(1), 6);
    evaluate(&net).unwrap();
    net
}

/// Returns points of a sine and their values.
fn sine(amplitude: f64, phase: f64, seed: u64) -> (Tensor, Tensor) {
    let x = noise(&[8, 1], seed) * 3.0;
    let y = (&x + phase).sin() * amplitude;
    (x, y)
}

fn task(amplitude: f64, phase: f64) -> Task {
    let ((x, y), (x_new, y_new)) = (sine(amplitude, phase, 20), sine(amplitude, phase, 21));
    let task = Task { x, y, x_new, y_new };
    evaluate(&task).unwrap();
    task
}

fn tasks() -> Vec<Task> {
    (0..4).map(|i| task(1.0, 0.4 * f64::from(i))).collect()
}

#[test]
fn adaptation_is_three_steps_of_gradient_descent() {
    let (net, task) = (net(), task(1.5, 0.3));
    let mut expected = net.clone();
    for _ in 0..3 {
        let loss = |net: &Net| mse(net, &task.x, &task.y);
        let g = grad(loss)(&expected);
        expected = tree::map2(&expected, &g, |w, g| w - g * 0.1);
    }
    let found = adapt(&net, &task.x, &task.y, 0.1);
    near("the net", &entries(&found), &entries(&expected), 1e-13).unwrap();
    let loss = |net: &Net| mse(net, &task.x, &task.y).item::<f64>();
    assert!(loss(&found) < loss(&net));
}

#[test]
fn the_gradient_goes_through_the_inner_steps() {
    let tasks = [task(1.5, 0.3), task(0.7, 0.0)];
    Companions {
        call: &|net: &Net| meta_loss(net, &tasks, 0.1),
        vjp: &|net, ct| {
            let (y, pullback) = meta_loss::vjp(net, &tasks, 0.1);
            (y, pullback(ct))
        },
        jvp: &|net, dnet| meta_loss::jvp((net, &tasks[..], 0.1), dnet),
    }
    .check(&net());
}

#[test]
fn meta_training_makes_adaptation_better_and_a_step_plans_nothing() {
    let tasks = tasks();
    let sgd = Sgd {
        lr: 0.1,
        momentum: 0.9,
        ..Sgd::default()
    };
    let mut net = net();
    let mut state = sgd.init(&net);
    let mut losses = Vec::new();
    for i in 0..60 {
        let mut step = || {
            let (loss, grads) = meta_loss::value_and_grad(&net, &tasks, 0.1);
            (net, state) = sgd.step(&net, &grads.net, &state);
            losses.push(loss.item::<f64>());
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert!(losses[59] < 0.5 * losses[0], "{losses:?}");
}

#[test]
fn a_second_gradient_is_not_recorded() {
    assert_eq!(adapt::RECORDED, None);
    assert_eq!(adapted_loss::RECORDED, None);
    assert_eq!(meta_loss::RECORDED, None);
    let (net, tasks) = (net(), tasks());
    finds(|| adapt(&net, &tasks[0].x, &tasks[0].y, 0.1));
    finds(|| meta_loss(&net, &tasks, 0.1));
    finds(|| meta_loss::grad(&net, &tasks, 0.1).net);
}
