//! A physics-informed network for `-u'' = pi^2 sin(pi x)` on `[0, 1]` with `u(0) = u(1) = 0`. The
//! solution is `u = sin(pi x)`.

use gradloom::optim::{Adam, AdamState};
use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::observe::{finds, plans_nothing};
use std::f64::consts::PI;

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Dense {
    fn new(key: Key, inputs: usize, outputs: usize) -> Self {
        let (w, b) = key.split();
        Dense {
            w: w.normal([inputs, outputs], DType::F64) / (inputs as f64).sqrt(),
            b: b.normal([outputs], DType::F64) * 0.5,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<Dense>,
}

#[traced]
impl Net {
    fn new(key: Key, widths: &[usize]) -> Self {
        let layers = key
            .split_many(widths.len() - 1)
            .into_iter()
            .zip(widths.windows(2))
            .map(|(key, pair)| Dense::new(key, pair[0], pair[1]))
            .collect();
        Net { layers }
    }

    /// Returns the solution at `x`. The last factor makes the boundary values 0.
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            h = layer.forward(&h);
            if i + 1 < self.layers.len() {
                h = h.tanh();
            }
        }
        h * x * (1.0 - x)
    }

    /// Returns `u'` and `u''`.
    fn derivatives(&self, x: &Tensor) -> (Tensor, Tensor) {
        let one = x.ones_like();
        let u = |x: &Tensor| self.forward(x);
        let du = |x: &Tensor| jvp(u, x, &one).1;
        jvp(du, x, &one)
    }
}

#[traced]
fn residual(net: &Net, #[nodiff] x: &Tensor) -> Tensor {
    let (_, d2u) = net.derivatives(x);
    let source = (x * PI).sin() * (PI * PI);
    (d2u + source).square().mean(..)
}

fn net(width: usize) -> Net {
    let net = Net::new(Key::new(1), &[1, width, width, 1]);
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
fn both_derivatives_agree_with_differences() {
    let (net, x) = (net(5), points(7));
    let (du, d2u) = net.derivatives(&x);
    let at = |by: f64| entries(&net.forward(&(&x + by)));
    let h = 1e-4;
    let (below, now, above) = (at(-h), at(0.0), at(h));
    let first: Vec<f64> = (0..7).map(|i| (above[i] - below[i]) / (2.0 * h)).collect();
    let second: Vec<f64> = (0..7)
        .map(|i| (above[i] - 2.0 * now[i] + below[i]) / (h * h))
        .collect();
    near("u'", &entries(&du), &first, 1e-6).unwrap();
    near("u''", &entries(&d2u), &second, 1e-6).unwrap();
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
    assert_eq!(Net::FORWARD_RECORDED, None);
    assert_eq!(Net::DERIVATIVES_RECORDED, None);
    assert_eq!(residual::RECORDED, None);
    finds(|| residual(&net, &x));
    finds(|| residual::grad(&net, &x).net);
}
