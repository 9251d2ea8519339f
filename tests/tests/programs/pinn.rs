//! A physics-informed network for `-u'' = pi^2 sin(pi x)` on `[0, 1]` with `u(0) = u(1) = 0`. The
//! solution is `u = sin(pi x)`.

use gradloom::optim::{Adam, AdamState};
use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};
use std::f64::consts::PI;

#[derive(Clone, Tree)]
struct Net {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    w3: Tensor,
}

#[traced]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = (x.matmul(&self.w1) + &self.b1).tanh();
        let h = (h.matmul(&self.w2) + &self.b2).tanh();
        // This factor makes the boundary values 0.
        h.matmul(&self.w3) * x * (1.0 - x)
    }
}

#[traced]
fn residual(net: &Net, #[nodiff] x: &Tensor) -> Tensor {
    let u = |x: &Tensor| net.forward(x);
    let du = |x: &Tensor| jvp(u, x, &x.ones_like()).1;
    let d2u = jvp(du, x, &x.ones_like()).1;
    let source = (x * PI).sin() * (PI * PI);
    (d2u + source).square().mean(..)
}

fn net(width: usize) -> Net {
    let net = Net {
        w1: noise(&[1, width], 1) * 2.0,
        b1: noise(&[width], 2),
        w2: noise(&[width, width], 3) * 0.5,
        b2: noise(&[width], 4) * 0.5,
        w3: noise(&[width, 1], 5),
    };
    evaluate(&net).unwrap();
    net
}

/// Returns points evenly distributed in `(0, 1)`.
fn points(n: usize) -> Tensor {
    let points: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5) / n as f64).collect();
    Tensor::from_vec(points, [n, 1])
}

#[test]
fn the_network_learns_the_solution_and_a_step_plans_nothing() {
    let adam = Adam {
        lr: 1e-2,
        ..Adam::default()
    };
    let (x, first) = (points(16), net(12));
    let step = |(net, state): &(Net, AdamState<Net>)| {
        let grads = residual::grad(net, &x);
        let next = adam.step(net, &grads.net, state);
        evaluate(&next).unwrap();
        next
    };
    let start = (first.clone(), adam.init(&first));
    let trained = (0..800).fold(start, |now, _| step(&now));
    let at = points(33);
    let error = trained.0.forward(&at) - (&at * PI).sin();
    let error = error.abs().max(..).item::<f64>();
    assert!(error < 1e-2, "{error}");
    plans_nothing(|| {
        step(&trained);
    });
}

#[test]
fn the_gradient_of_the_residual_is_right() {
    let x = points(3);
    Companions {
        call: &|net: &Net| residual(net, &x),
        vjp: &|net, ct| {
            let (y, pullback) = residual::vjp(net, &x);
            (y, pullback(ct))
        },
        jvp: &|net, dnet| residual::jvp((net, &x), dnet),
    }
    .check(&net(3));
}

#[test]
fn a_second_gradient_is_not_recorded() {
    let (net, x) = (net(4), points(5));
    assert_eq!(residual::RECORDED, None);
    finds(|| residual(&net, &x));
    finds(|| residual::grad(&net, &x).net);
}
