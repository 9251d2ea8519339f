//! A step of Hamiltonian Monte Carlo: leapfrog with the gradient of a traced energy.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

#[traced]
fn energy(q: &Tensor, p: &Tensor) -> Tensor {
    (p.square() + q.square() + q.square().square() * 0.5).sum(..) * 0.5
}

#[traced]
fn leapfrog(q: &Tensor, p: &Tensor, dt: f64, turns: usize) -> (Tensor, Tensor) {
    let (mut q, mut p) = (q.clone(), p.clone());
    for _ in 0..turns {
        p = &p - energy::grad(&q, &p).q * (0.5 * dt);
        q = &q + energy::grad(&q, &p).p * dt;
        p = &p - energy::grad(&q, &p).q * (0.5 * dt);
    }
    (q, p)
}

fn start() -> (Tensor, Tensor) {
    (noise(&[4], 1), noise(&[4], 2))
}

#[test]
fn energy_is_conserved() {
    let (mut q, mut p) = start();
    let before = energy(&q, &p).item::<f64>();
    for _ in 0..20 {
        (q, p) = leapfrog(&q, &p, 0.02, 10);
        let after = energy(&q, &p).item::<f64>();
        assert!(
            (after - before).abs() < 1e-3 * before,
            "{before} and {after}"
        );
    }
}

#[test]
fn integration_is_reversible() {
    let (q, p) = start();
    let (q_end, p_end) = leapfrog(&q, &p, 0.05, 30);
    let (q_back, p_back) = leapfrog(&q_end, &-p_end, 0.05, 30);
    near("q", &entries(&q_back), &entries(&q), 1e-12).unwrap();
    near("p", &entries(&-p_back), &entries(&p), 1e-12).unwrap();
}

#[test]
fn the_derivative_of_a_step_is_right() {
    Companions {
        call: &|(q, p): &(Tensor, Tensor)| leapfrog(q, p, 0.1, 3),
        vjp: &|(q, p), ct| {
            let (y, pullback) = leapfrog::vjp(q, p, 0.1, 3);
            (y, pullback(ct))
        },
        jvp: &|(q, p), (dq, dp)| leapfrog::jvp((q, p, 0.1, 3), (dq, dp)),
    }
    .check(&start());
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    let (mut q, mut p) = start();
    assert_eq!(leapfrog::RECORDED, None);
    finds(|| leapfrog(&q, &p, 0.1, 5));
    let mut step = || {
        (q, p) = leapfrog(&q, &p, 0.1, 5);
        evaluate(&(q.clone(), p.clone())).unwrap();
    };
    step();
    plans_nothing(&mut step);
}
