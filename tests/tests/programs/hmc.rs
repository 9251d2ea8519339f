//! Hamiltonian Monte Carlo of many chains at once, with random keys in the traced functions.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

/// Returns the energy of each chain, a row of `q`. The distribution is a normal one with means 1
/// and -2 and with the inverse covariance `[[2, 0.6], [0.6, 1]]`.
#[traced]
fn potential(q: &Tensor) -> Tensor {
    let q = q - Tensor::from([1.0f64, -2.0]);
    let precision = Tensor::from([[2.0f64, 0.6], [0.6, 1.0]]);
    (q.matmul(&precision) * &q).sum(-1) * 0.5
}

#[traced]
fn energy(q: &Tensor, p: &Tensor) -> Tensor {
    potential(q) + p.square().sum(-1) * 0.5
}

#[traced]
fn total(q: &Tensor, p: &Tensor) -> Tensor {
    energy(q, p).sum(..)
}

#[traced]
fn leapfrog(q: &Tensor, p: &Tensor, dt: f64, turns: usize) -> (Tensor, Tensor) {
    let (mut q, mut p) = (q.clone(), p.clone());
    for _ in 0..turns {
        p -= total::grad(&q, &p).q * (dt / 2.0);
        q += total::grad(&q, &p).p * dt;
        p -= total::grad(&q, &p).q * (dt / 2.0);
    }
    (q, p)
}

#[derive(Clone, Tree)]
struct Sample {
    q: Tensor,
    accepted: Tensor,
}

#[traced]
fn sample(q: &Tensor, key: Key, dt: f64, turns: usize) -> Sample {
    let (momentum, coin) = key.split();
    let p = momentum.normal(q.shape(), q.dtype());
    let (q_new, p_new) = leapfrog(q, &p, dt, turns);
    let log_ratio = energy(q, &p) - energy(&q_new, &p_new);
    let accept = coin.uniform([q.dim(0)], q.dtype()).log().lt(&log_ratio);
    Sample {
        q: accept.unsqueeze(-1).select(&q_new, q),
        accepted: accept.cast(q.dtype()).mean(..),
    }
}

/// Returns the positions after each of `steps` steps.
#[traced]
fn chain(q: &Tensor, key: Key, steps: usize, dt: f64, turns: usize) -> Vec<Tensor> {
    let mut q = q.clone();
    let mut path = Vec::new();
    for key in key.split_many(steps) {
        q = sample(&q, key, dt, turns).q;
        path.push(q.clone());
    }
    path
}

fn start(chains: usize) -> (Tensor, Tensor) {
    (noise(&[chains, 2], 1), noise(&[chains, 2], 2))
}

#[test]
fn the_force_is_that_of_the_closed_form() {
    let (q, p) = start(3);
    let force: Vec<f64> = entries(&q)
        .chunks(2)
        .flat_map(|q| {
            let (x, y) = (q[0] - 1.0, q[1] + 2.0);
            [2.0 * x + 0.6 * y, 0.6 * x + y]
        })
        .collect();
    let grads = total::grad(&q, &p);
    near("the force", &entries(&grads.q), &force, 1e-14).unwrap();
    near("the velocity", &entries(&grads.p), &entries(&p), 1e-14).unwrap();
}

#[test]
fn integration_conserves_the_energy_and_is_reversible() {
    let (q, p) = start(3);
    let (q_end, p_end) = leapfrog(&q, &p, 0.02, 40);
    let (before, after) = (energy(&q, &p), energy(&q_end, &p_end));
    near("the energy", &entries(&after), &entries(&before), 1e-3).unwrap();
    let (q_back, p_back) = leapfrog(&q_end, &-p_end, 0.02, 40);
    near("q", &entries(&q_back), &entries(&q), 1e-12).unwrap();
    near("p", &entries(&-p_back), &entries(&p), 1e-12).unwrap();
}

#[test]
fn the_derivative_of_the_integration_is_right() {
    Companions {
        call: &|(q, p): &(Tensor, Tensor)| leapfrog(q, p, 0.1, 3),
        vjp: &|(q, p), ct| {
            let (y, pullback) = leapfrog::vjp(q, p, 0.1, 3);
            (y, pullback(ct))
        },
        jvp: &|(q, p), (dq, dp)| leapfrog::jvp((q, p, 0.1, 3), (dq, dp)),
    }
    .check(&start(2));
}

#[test]
fn a_chain_is_that_of_single_steps() {
    let (q, _) = start(2);
    let path = chain(&q, Key::new(4), 3, 0.2, 4);
    let mut one = q;
    for (i, key) in Key::new(4).split_many(3).into_iter().enumerate() {
        one = sample(&one, key, 0.2, 4).q;
        near("the chain", &entries(&path[i]), &entries(&one), 1e-14).unwrap();
    }
}

#[test]
fn samples_have_the_moments_of_the_distribution_and_a_step_plans_nothing() {
    const CHAINS: usize = 200;
    let (mut q, _) = start(CHAINS);
    let mut points: Vec<[f64; 2]> = Vec::new();
    let mut accepted = 0.0;
    for (i, key) in Key::new(0).split_many(50).into_iter().enumerate() {
        let step = || {
            let next = sample(&q, key, 0.3, 6);
            evaluate(&next).unwrap();
            q = next.q;
            accepted += next.accepted.item::<f64>() / 50.0;
        };
        if i < 2 {
            step();
        } else {
            plans_nothing(step);
        }
        if i >= 10 {
            points.extend(entries(&q).chunks(2).map(|q| [q[0], q[1]]));
        }
    }
    let mean = |f: &dyn Fn(&[f64; 2]) -> f64| points.iter().map(f).sum::<f64>() / 8000.0;
    let (x, y) = (mean(&|q| q[0]), mean(&|q| q[1]));
    // The covariance is the inverse of the precision, whose determinant is 1.64.
    let expected = [1.0, -2.0, 1.0 / 1.64, 2.0 / 1.64, -0.6 / 1.64];
    let moments = [
        x,
        y,
        mean(&|q| (q[0] - x).powi(2)),
        mean(&|q| (q[1] - y).powi(2)),
        mean(&|q| (q[0] - x) * (q[1] - y)),
    ];
    near("the moments", &moments, &expected, 0.05).unwrap();
    assert!(accepted > 0.9, "{accepted}");
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(leapfrog::RECORDED, None);
    assert_eq!(sample::RECORDED, None);
    assert_eq!(chain::RECORDED, None);
    let (q, p) = start(3);
    finds(|| leapfrog(&q, &p, 0.1, 5));
    finds(|| sample(&q, Key::new(1), 0.1, 5));
    finds(|| chain(&q, Key::new(1), 3, 0.1, 5));
}
